"""What a run costs day by day, or week by week or month by month where a log is long."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import DAY_S, to_local_s, weekday
from offpeak.model.step_integrals import J_PER_MWH, integrate_series
from sim_backend.breakdown import day_edges_s, used_by_day
from sim_backend.compare import Comparison
from sim_backend.nodes.standing_draw import StandingDraw
from sim_backend.outcome import Run

MOST_PERIODS = 120


@dataclass(frozen=True)
class Periods:
    """Days, weeks from Monday or months of the local calendar; the first and the last may be cut.

    `edges_s` are trace seconds; `unit` is "day", "week" or "month".
    """

    edges_s: Int64
    unit: str


def cost_periods(comparison: Comparison) -> Periods:
    """Return the shortest periods of which the comparison has at most 120, or its months."""
    days_s = day_edges_s(comparison)
    laid = comparison.case.prices.laid
    day = to_local_s(days_s + laid.offset_s, laid.zone) // DAY_S
    begins = {
        "day": np.ones(len(day), np.bool_),
        "week": weekday(day) == 0,
        "month": day.astype("datetime64[D]") == day.astype("datetime64[D]").astype("datetime64[M]"),
    }
    unit = next((unit for unit, each in begins.items() if np.count_nonzero(each) <= MOST_PERIODS), "month")
    return Periods(days_s[_with_ends(begins[unit])], unit)


def _with_ends(begins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    kept = begins.copy()
    kept[[0, -1]] = True
    return kept


def cost_by_period(comparison: Comparison, run: Run, periods: Periods, *, draw: StandingDraw | None = None) -> Float64:
    """Return what the machine's electricity costs in each period, float64[periods], in the currency of the prices.

    `draw` is that of nodes that sleep: breakdown.draw_of the run.
    """
    laid = comparison.case.prices.laid
    price = integrate_series(laid.series, laid.offset_s)
    return used_by_day(comparison.case, run, periods.edges_s, price, draw=draw) / J_PER_MWH
