"""What the paper prints: tables 1 to 3, and what its text says of figures 5 to 8."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """A scenario's row: gains over the best rule-based scheduler, `daily` in EUR.

    The gains by second are those of table 3, per cent of profit. `over_default_pct` is the gain of `best_search` over
    the default search.
    """

    profit_pct: float
    makespan_pct: float
    pue: float
    daily: float
    multi_pct_per_s: float
    delay_pct_per_s: float
    relaxation_pct_per_s: float
    best_search: str
    over_default_pct: float


PAPER: Mapping[str, Printed] = {
    "air winter": Printed(7.71, 1.85, 1.11, 20144.28, 0.0030658, 1e-7, 3e-7, "delay", 10.451758),
    "air summer": Printed(7.66, 1.85, 1.43, 20222.91, 0.0031243, 5e-7, -3e-7, "delay", 10.51854),
    "hybrid winter": Printed(7.86, 1.85, 1.00, 20227.90, 0.0031372, 1e-7, -1e-7, "delay", 10.753464),
    "hybrid summer": Printed(7.95, 1.85, 1.09, 20249.67, 0.0031320, -9e-7, 2e-7, "relaxation", 10.36506),
}
