"""The figures of the slides, to be put beside ours, and what they say of themselves.

Per cent throughout. Savings are against FCFS at a power ratio of 1:3, a price ratio of 1:3 and a frequency of 10 s
unless said. "At most" figures: utilization falls by less than 5 % of itself, the mean wait of a month rises by 10 s.
"""

from collections.abc import Mapping
from dataclasses import dataclass

POWER_RATIOS = (2.0, 3.0, 4.0)
PRICE_RATIOS = (3.0, 4.0, 5.0)


@dataclass(frozen=True)
class Frequency:
    """A row of the slide "Impact of scheduling frequencies": savings, and the utilization under FCFS and the two."""

    greedy: float
    knapsack: float
    fcfs_utilization: float
    greedy_utilization: float
    knapsack_utilization: float


@dataclass(frozen=True)
class PaperLog:
    """What the slides have for a log: `savings[power ratio, policy]` by price ratio, `frequencies` by period [s]."""

    name: str
    savings: Mapping[tuple[float, str], tuple[float, float, float]]
    frequencies: Mapping[int, Frequency]


ANL_BGP = PaperLog(
    "ANL-BGP",
    {
        (2.0, "greedy"): (3.54, 4.33, 4.79),
        (2.0, "knapsack"): (4.18, 5.07, 5.64),
        (3.0, "greedy"): (5.06, 6.13, 6.85),
        (3.0, "knapsack"): (5.35, 6.48, 7.25),
        (4.0, "greedy"): (6.27, 7.58, 8.48),
        (4.0, "knapsack"): (7.21, 8.52, 9.86),
    },
    {
        10: Frequency(7.49, 7.13, 70.0, 69.70, 69.07),
        20: Frequency(10.07, 8.91, 68.56, 69.03, 65.97),
        30: Frequency(17.52, 22.43, 63.77, 60.42, 60.84),
    },
)
SDSC_BLUE = PaperLog(
    "SDSC-Blue",
    {
        (2.0, "greedy"): (3.84, 4.84, 6.19),
        (2.0, "knapsack"): (2.39, 3.01, 3.85),
        (3.0, "greedy"): (4.33, 5.46, 6.98),
        (3.0, "knapsack"): (3.16, 3.98, 5.10),
        (4.0, "greedy"): (5.55, 6.98, 8.95),
        (4.0, "knapsack"): (3.05, 3.84, 4.92),
    },
    {
        10: Frequency(4.33, 3.16, 69.59, 69.53, 69.50),
        20: Frequency(9.70, 9.80, 68.56, 69.25, 65.06),
        30: Frequency(19.69, 23.06, 67.38, 68.85, 66.21),
    },
)


def implied_on_peak_share(price_ratio: float, times: float) -> float:
    """Return the share of the baseline's energy that is used on-peak if savings at 1:3 are `times` as large at 1:p.

    A schedule that moves the share m of the energy off-peak saves (p - 1) m / (1 + (p - 1) s) of a bill whose on-peak
    share is s. The policies are not told p, so m is the same at all price ratios and falls out of the quotient.
    """
    return ((price_ratio - 1) / 2 - times) / ((price_ratio - 1) * (times - 1))
