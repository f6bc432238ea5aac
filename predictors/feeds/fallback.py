"""What holds where nothing is published and nothing can be forecast: the tariff, said for every step."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.step_series import Series, value_at
from predictors.feeds.port import Known, Window


@dataclass(frozen=True, eq=False)
class Based:
    """A series over all of a window with what each of its values rests on; "unknown" where the value is NaN."""

    series: Series
    basis: tuple[str, ...]


def known_or(known: Known, tariff: Series, window: Window, basis: str = "tariff") -> Based:
    """Return what is known where it is, else the tariff, whose prices rest on `basis`.

    The unit is the tariff's, which the operator has declared: what comes in another is left out.
    """
    said = [(known.series, known.basis), (tariff, basis)]
    layers = [(series, basis) for series, basis in said if series and series.unit == tariff.unit]
    start_s = _starts([series for series, _ in layers], window)
    values = np.array([value_at(series, start_s) for series, _ in layers])
    # Of all NaN the first is taken, which is NaN.
    first = np.argmax(~np.isnan(values), axis=0)
    value = values[first, np.arange(len(start_s))]
    words = [layers[layer][1] if found else "unknown" for layer, found in zip(first, ~np.isnan(value), strict=True)]
    sources = dict.fromkeys(words)
    return Based(Series(start_s, window.until_s, value, tariff.unit, ", then ".join(sources)), tuple(words))


def _starts(layers: list[Series], window: Window) -> Int64:
    edges = [np.append(series.start_s, series.end_s) for series in layers]
    every = np.unique(np.concatenate([np.array([window.from_s], np.int64), *edges]))
    return every[(every >= window.from_s) & (every < window.until_s)]
