"""The assumptions that the slides leave open: each one alone, and the ladder of those that may matter."""

from studies.dynamic_pricing.experiment import (
    BASELINE_WITHOUT,
    FIRST_FIT,
    FIRST_FIT_AGAINST_FCFS,
    NO_BOUND_S,
    TO_THE_LETTER,
    WITHOUT_BACKFILLING,
)
from studies.dynamic_pricing.variant import Change

HOUR_S = 3600

NO_IDLE_POWER = Change("idle nodes", "draw nothing: only busy nodes are billed", bill={"idle_w": 0.0})
NO_BOUND = Change("overtaking", "never ends", setup={"max_postponement_s": NO_BOUND_S})
NO_RESERVATION = Change("backfilling", "first fit, no reservations, on either side", setup={"policies": FIRST_FIT})
HALF_DAY = Change("on-peak", "12:00-24:00", setup={"on_peak": "12:00-24:00"})
MONTHS_APART = Change("period", "each month from an empty machine, savings averaged", months_apart=True)
AT_START = Change("billing", "a whole job at the price of its start", bill={"metered": "at_start"})
TWO_KINDS = Change("power", "two kinds of jobs: 100 or 300 W", setup={"power": "two kinds"})
TEN_MINUTES = Change("passes", "every 10 min", setup={"period_s": 600})

ALONE = (
    Change("backfilling", "none, on either side", setup={"policies": WITHOUT_BACKFILLING}),
    Change("backfilling", "none for the baseline only", setup={"policies": BASELINE_WITHOUT}),
    NO_RESERVATION,
    Change("backfilling", "first fit, against plain FCFS", setup={"policies": FIRST_FIT_AGAINST_FCFS}),
    NO_IDLE_POWER,
    Change("idle nodes", "draw 150 W", bill={"idle_w": 150.0}),
    TWO_KINDS,
    *(
        Change("power", name, setup={"power": name})
        for name in ("three kinds", "by user", "wide jobs hungry", "heavy jobs hungry")
    ),
    *(Change("load", f"{load:.0%}", setup={"load": load}) for load in (0.5, 0.6, 0.7, 0.8, 0.9)),
    *(Change("time", f"of the log {times} times as fast", setup={"compressed": times}) for times in (2, 4, 10)),
    *(Change("window", f"{jobs} jobs", setup={"window": jobs}) for jobs in (5, 50, 64)),
    *(Change("overtaking", f"ends after {hours} h", setup={"max_postponement_s": hours * HOUR_S}) for hours in (6, 72)),
    NO_BOUND,
    HALF_DAY,
    *(Change("on-peak", hours, setup={"on_peak": hours}) for hours in ("12:00-22:00", "09:00-21:00", "08:00-20:00")),
    *(
        Change("clock", f"{late} h late: on-peak {hours}", setup={"on_peak": hours})
        for late, hours in ((6, "15:00-05:00"), (12, "21:00-11:00"), (18, "03:00-17:00"))
    ),
    Change("passes", "at each event", setup={"period_s": 0}),
    TEN_MINUTES,
    Change("run times", "known to the scheduler", setup={"estimates": "exact"}),
    Change("run times", "predicted", setup={"estimates": "predicted"}),
    MONTHS_APART,
    AT_START,
    Change("billing", "only until the last submission", bill={"metered": "until_last_submission"}),
)
"""Each is made alone, everything else as in the starting point."""

LADDER = (
    NO_IDLE_POWER,
    NO_BOUND,
    NO_RESERVATION,
    HALF_DAY,
    MONTHS_APART,
    TWO_KINDS,
    AT_START,
    TEN_MINUTES,
)
"""Made one after the other, each on top of those before it: from what the slides suggest to what they contradict."""

PERIODS_S = (10, 20, 30, 600, 1200, 1800, 2400, 3600)
"""The frequencies of the slides, and the same in units of a minute and of two."""

BOUNDS = {"1 h": HOUR_S, "6 h": 6 * HOUR_S, "24 h": 24 * HOUR_S}


def period_change(period_s: int) -> Change:
    """Return the change to passes that far apart."""
    return Change("passes", period_text(period_s), setup={"period_s": period_s})


def period_text(period_s: int) -> str:
    """Return "30 s" or "10 min"."""
    return f"{period_s} s" if period_s < 60 else f"{period_s // 60} min"


def letter_change(bound_s: int) -> Change:
    """Return the change to the knapsack as the slide has it, held back on-peak for so long at the most."""
    return Change("policy", "to the letter", setup={"policies": TO_THE_LETTER, "max_postponement_s": bound_s})


def ratio_change(power_ratio: float, price_ratio: float) -> Change:
    """Return the change to these ratios."""
    return Change("ratios", "", setup={"power_ratio": power_ratio}, bill={"price_ratio": price_ratio})
