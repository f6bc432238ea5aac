"""Prices of the present and the coming hours as rows of the ledger: each written once, and again where it changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from offpeak.ledger.rows import Price
from offpeak.model.step_series import Series, value_at


@dataclass(frozen=True)
class Written:
    """The prices that are in the ledger already, by their start [Unix s]: those that have not ended."""

    rows: Mapping[float, Price] = field(default_factory=dict)


def price_rows(
    before: Written, series: Series, basis: Sequence[str], *, now_s: int, carbon: Series | None = None
) -> tuple[Written, tuple[Price, ...]]:
    """Return what is written after this, and the rows that are new: of what ends after `now_s`.

    `basis` says of each interval what it rests on, such as "published" or "forecast ..."; it is the row's source. What
    is published later replaces what was forecast of the same start. `carbon` is in g/kWh; an interval's is that of its
    middle. After a restart `before` is empty: the present and coming hours are written again, over themselves.
    """
    ends_s = series.start_s + series.length_s
    carbon_g = value_at(carbon, series.start_s + series.length_s // 2) if carbon else np.full(len(series), np.nan)
    columns = (series.start_s, ends_s, series.value, carbon_g)
    rows = [
        Price(float(start_s), float(end_s), price, series.currency, said, None if np.isnan(of_co2) else of_co2)
        for start_s, end_s, price, of_co2, said in zip(*(column.tolist() for column in columns), basis, strict=True)
        if end_s > now_s and not np.isnan(price)
    ]
    new = tuple(row for row in rows if before.rows.get(row.from_unix_s) != row)
    return Written({row.from_unix_s: row for row in rows}), new
