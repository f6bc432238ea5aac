"""The prices of a file, laid on a log: gaps filled from the week before, and what a reader should know of that."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from offpeak.model.step_series import Series, fill_gaps
from offpeak.settings.replay import PriceSettings
from sim_backend.case import log_span
from sim_backend.electricity import ReplayPrices, prices_of
from studies.dynamic_pricing.logs import Log, Source, remembered_log


@lru_cache(maxsize=2)
def remembered_prices(source: Source, digest: str, file: Path) -> ReplayPrices:
    """Return the prices for the log of that digest, the last two from memory. BadPrices, BadInput as `laid_on`."""
    return laid_on(remembered_log(source, digest), file)


def laid_on(log: Log, file: Path) -> ReplayPrices:
    """Return the prices laid on the whole log. BadPrices if they cannot be read or are of less than a day."""
    prices = _as_read(log, file)
    return replace(prices, laid=replace(prices.laid, series=fill_gaps(prices.laid.series)))


def price_notes(log: Log, file: Path) -> tuple[str, ...]:
    """Return in sentences how far prices spread, how much had to be filled, and where the log was laid on them."""
    laid = _as_read(log, file).laid
    last_s = log_span(log.trace, log.trace.jobs).last_s
    laid_note = f"{log.source.name}: {'; '.join(laid.notes_until(last_s))}"
    return (_spread_note(file, laid.series), *_gap_note(laid.series), laid_note)


def _spread_note(file: Path, series: Series) -> str:
    known, length_s = series.value[series.known], series.length_s[series.known]
    mean = np.average(known, weights=length_s)
    deviation = np.sqrt(np.average((known - mean) ** 2, weights=length_s))
    return f"prices: {file.name}, mean {mean:.2f}, standard deviation {deviation:.2f} {series.unit}"


def _gap_note(series: Series) -> tuple[str, ...]:
    unknown_h, all_h = float(series.length_s[~series.known].sum()) / 3600, float(series.length_s.sum()) / 3600
    if unknown_h == 0:
        return ()
    return (f"{unknown_h:,.6g} of {all_h:,.6g} hours have no price: for them stands the hour of the week before",)


def _as_read(log: Log, file: Path) -> ReplayPrices:
    return prices_of(log_span(log.trace, log.trace.jobs), PriceSettings(file=file), None)
