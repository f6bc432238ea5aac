"""Sources that the operator declares: a file of prices or carbon intensity, and a time-of-use tariff.

The tariff also fills every step for which nothing is published and nothing can be forecast.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.step_series import Series, value_at
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, KnownSeries, SourceAnswer, Window, clip_series
from offpeak.prices.layout import PriceFileLayout
from offpeak.prices.tariff import Tariff, tariff_series


@dataclass(frozen=True)
class FileSource:
    """A CSV file, read again each time because another program may append to it."""

    path: Path
    layout: PriceFileLayout
    name: str = "file"
    own: bool = True

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the file's rows inside the window."""
        # What reads files takes 25 MiB, which an agent that has none can do without.
        from offpeak.prices.file import read_series

        try:
            part = clip_series(read_series(self.path, self.layout), window)
        except BadInput as error:
            return FeedProblem(FeedCondition.UNREADABLE_FILE, self.name, f"{error}; {error.hint}")
        return part or FeedProblem(FeedCondition.NOT_YET_PUBLISHED, self.name, f"{self.path} has no row of that time")


@dataclass(frozen=True)
class TariffSource:
    """A time-of-use rule: known for ever."""

    tariff: Tariff
    name: str = "tariff"
    own: bool = True

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the rule's prices over the window."""
        return tariff_series(self.tariff, *window)


@dataclass(frozen=True, eq=False)
class BasedSeries:
    """A series over a whole window with the basis of each value; "unknown" for NaN."""

    series: Series
    basis: tuple[str, ...]


def fill_with_tariff(known: KnownSeries, tariff: Series, window: Window, basis: str = "tariff") -> BasedSeries:
    """Return the known prices, and the tariff with the given `basis` where none is known.

    The unit is the tariff's, which the operator has declared; prices in another unit are ignored.
    """
    candidates = [(known.series, known.basis), (tariff, basis)]
    layers = [(series, basis) for series, basis in candidates if series and series.unit == tariff.unit]
    start_s = _starts([series for series, _ in layers], window)
    values = np.array([value_at(series, start_s) for series, _ in layers])
    # Of all NaN the first is taken, which is NaN.
    first = np.argmax(~np.isnan(values), axis=0)
    value = values[first, np.arange(len(start_s))]
    bases = [layers[layer][1] if found else "unknown" for layer, found in zip(first, ~np.isnan(value), strict=True)]
    sources = dict.fromkeys(bases)
    return BasedSeries(Series(start_s, window.until_s, value, tariff.unit, ", then ".join(sources)), tuple(bases))


def _starts(layers: list[Series], window: Window) -> Int64:
    edges = [np.append(series.start_s, series.end_s) for series in layers]
    every = np.unique(np.concatenate([np.array([window.from_s], np.int64), *edges]))
    return every[(every >= window.from_s) & (every < window.until_s)]
