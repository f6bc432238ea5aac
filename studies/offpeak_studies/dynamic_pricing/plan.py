"""What must be run: the assumptions that the slides leave open, the logs with their setups, and all experiments.

A variant is a line of a table: one setup and one bill. A change leads from one line to another, alone or on the
ladder of the changes that may matter. The slides' figures stand beside ours, per cent throughout: savings are
against FCFS at a power ratio of 1:3, a price ratio of 1:3 and a frequency of 10 s unless noted; the "at most"
figures allow utilization to fall by less than 5 % of itself and the mean wait of a month to rise by 10 s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.model.constants import HOUR_S
from offpeak_studies.dynamic_pricing import run
from offpeak_studies.harness import Replays
from offpeak_studies.logs import StudyLog

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
class PricingPaperLog:
    """The slides on a log: `savings[power ratio, policy]` by price ratio, `frequencies` by period [s]."""

    name: str
    savings: Mapping[tuple[float, str], tuple[float, float, float]]
    frequencies: Mapping[int, Frequency]


ANL_BGP = PricingPaperLog(
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
SDSC_BLUE = PricingPaperLog(
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


MONTHLY_LOGS = "the slides, both logs"
MONTHLY = {"greedy": ("3.16 to 5.53", 0.5, 10.0), "knapsack": ("3.16 to 5.53", 2.0, 10.0)}
"""The savings by month: the average, which is that of both policies and logs, the lowest and the highest month."""
LONGER_WAIT_S = 10
MIRA_SAVED_PCT, MIRA_JOBS = 9.98, 3_333


def implied_on_peak_share(price_ratio: float, times: float) -> float:
    """Return the share of the baseline's energy that is used on-peak if savings at 1:3 are `times` as large at 1:p.

    A schedule that moves the share m of the energy off-peak saves (p - 1) m / (1 + (p - 1) s) of a bill whose on-peak
    share is s. The policies do not know p, so m is the same at all price ratios and falls out of the quotient.
    """
    return ((price_ratio - 1) / 2 - times) / ((price_ratio - 1) * (times - 1))


@dataclass(frozen=True)
class Variant:
    """The replays whose mean is a figure: of the whole log or, if `months_apart`, of each of its months by itself."""

    setup: run.PricingSetup = field(default_factory=run.PricingSetup)
    bill: run.PricingBill = field(default_factory=run.PricingBill)
    months_apart: bool = False


@dataclass(frozen=True)
class PricingChange:
    """One changed assumption: fields of the setup or the bill, or the months taken apart."""

    what: str
    how: str
    setup: Mapping[str, Any] = field(default_factory=dict)
    bill: Mapping[str, Any] = field(default_factory=dict)
    months_apart: bool = False

    def of(self, variant: Variant) -> Variant:
        """Return the variant with this change."""
        return Variant(
            replace(variant.setup, **self.setup),
            replace(variant.bill, **self.bill),
            self.months_apart or variant.months_apart,
        )


def experiments(variant: Variant, log: str, months: int, replays: Replays) -> list[tuple[run.PricingExperiment, ...]]:
    """Return for each replay the experiments whose figures are averaged: one, or one a month."""
    stretches = range(months) if variant.months_apart else (variant.setup.month,)
    setups = [replace(variant.setup, month=month) for month in stretches]
    return [
        tuple(run.PricingExperiment(log, replays.seed, replay, setup) for setup in setups)
        for replay in range(replays.count)
    ]


NO_IDLE_POWER = PricingChange("idle nodes", "draw nothing: only busy nodes are billed", bill={"idle_w": 0.0})
NO_BOUND = PricingChange("overtaking", "never ends", setup={"max_postponement_s": run.NO_BOUND_S})
NO_RESERVATION = PricingChange(
    "backfilling", "first fit, no reservations, on either side", setup={"policies": run.FIRST_FIT}
)
HALF_DAY = PricingChange("on-peak", "12:00-24:00", setup={"on_peak": "12:00-24:00"})
MONTHS_APART = PricingChange("period", "each month from an empty machine, savings averaged", months_apart=True)
AT_START = PricingChange("billing", "a whole job at the price of its start", bill={"metered": "at_start"})
TWO_KINDS = PricingChange("power", "two kinds of jobs: 100 or 300 W", setup={"power": "two kinds"})
TEN_MINUTES = PricingChange("passes", "every 10 min", setup={"period_s": 600})

ALONE = (
    PricingChange("backfilling", "none, on either side", setup={"policies": run.WITHOUT_BACKFILLING}),
    PricingChange("backfilling", "none for the baseline only", setup={"policies": run.BASELINE_WITHOUT}),
    NO_RESERVATION,
    PricingChange("backfilling", "first fit, against plain FCFS", setup={"policies": run.FIRST_FIT_AGAINST_FCFS}),
    NO_IDLE_POWER,
    PricingChange("idle nodes", "draw 150 W", bill={"idle_w": 150.0}),
    TWO_KINDS,
    *(
        PricingChange("power", name, setup={"power": name})
        for name in ("three kinds", "by user", "wide jobs hungry", "heavy jobs hungry")
    ),
    *(PricingChange("load", f"{load:.0%}", setup={"load": load}) for load in (0.5, 0.6, 0.7, 0.8, 0.9)),
    *(PricingChange("time", f"of the log {times} times as fast", setup={"compressed": times}) for times in (2, 4, 10)),
    *(PricingChange("window", f"{jobs} jobs", setup={"window": jobs}) for jobs in (5, 50, 64)),
    *(
        PricingChange("overtaking", f"ends after {hours} h", setup={"max_postponement_s": hours * HOUR_S})
        for hours in (6, 72)
    ),
    NO_BOUND,
    HALF_DAY,
    *(
        PricingChange("on-peak", hours, setup={"on_peak": hours})
        for hours in ("12:00-22:00", "09:00-21:00", "08:00-20:00")
    ),
    *(
        PricingChange("clock", f"{late} h late: on-peak {hours}", setup={"on_peak": hours})
        for late, hours in ((6, "15:00-05:00"), (12, "21:00-11:00"), (18, "03:00-17:00"))
    ),
    PricingChange("passes", "at each event", setup={"period_s": 0}),
    TEN_MINUTES,
    PricingChange("run times", "known to the scheduler", setup={"estimates": "exact"}),
    PricingChange("run times", "predicted", setup={"estimates": "predicted"}),
    MONTHS_APART,
    AT_START,
    PricingChange("billing", "only until the last submission", bill={"metered": "until_last_submission"}),
)
"""Changes that are made alone, from the starting point."""

LADDER = (NO_IDLE_POWER, NO_BOUND, NO_RESERVATION, HALF_DAY, MONTHS_APART, TWO_KINDS, AT_START, TEN_MINUTES)
"""Changes that are made one after the other, from those that the slides suggest to those that they contradict."""

PERIODS_S = (10, 20, 30, 600, 1200, 1800, 2400, 3600)
"""The frequencies of the slides, and the same in units of a minute and of two."""

BOUNDS = {"1 h": HOUR_S, "6 h": 6 * HOUR_S, "24 h": 24 * HOUR_S}


def period_change(period_s: int) -> PricingChange:
    """Return the change to that period of passes."""
    return PricingChange("passes", period_text(period_s), setup={"period_s": period_s})


def period_text(period_s: int) -> str:
    """Return "30 s" or "10 min"."""
    return f"{period_s} s" if period_s < 60 else f"{period_s // 60} min"


def letter_change(bound_s: int) -> PricingChange:
    """Return the change to the slide's knapsack, which delays jobs on-peak up to that bound."""
    return PricingChange(
        "policy", "to the letter", setup={"policies": run.TO_THE_LETTER, "max_postponement_s": bound_s}
    )


def ratio_change(power_ratio: float, price_ratio: float) -> PricingChange:
    """Return the change to these ratios."""
    return PricingChange("ratios", "", setup={"power_ratio": power_ratio}, bill={"price_ratio": price_ratio})


FEWEST_MONTHS = 2


@dataclass(frozen=True)
class Counterpart:
    """Our counterpart of a log of the paper: the beginning of its name, and the load and the changes for it alone."""

    begins: str
    paper: PricingPaperLog | None
    load: float | None
    changes: tuple[PricingChange, ...] = ()


COUNTERPARTS = (
    Counterpart(
        "SDSC-BLUE",
        SDSC_BLUE,
        None,
        (PricingChange("period", "the first 144,830 jobs, as many as the paper has", setup={"first_jobs": 144_830}),),
    ),
    # Its 10,000 jobs request 32 % of the machine; no job waits, so nothing can be reordered.
    Counterpart(
        "ANL-Intrepid",
        ANL_BGP,
        0.70,
        (
            PricingChange("load", "as logged", setup={"load": None}),
            PricingChange("machine", "2,048 nodes, wider jobs left out", setup={"machine_size": 4 * 2048}),
        ),
    ),
)

MIRA = tuple(Counterpart(begins, None, load) for begins in ("theta", "ANL-Intrepid") for load in (None, 0.9))
"""Mira's log is not published with the slides: these are of the machines before and after it at Argonne."""


@dataclass(frozen=True)
class PricingSubject:
    """A log, its name in tables, the starting point of its study, and the number of its whole months there."""

    name: str
    log: StudyLog
    base: Variant
    months: int
    paper: PricingPaperLog | None = None
    changes: tuple[PricingChange, ...] = ()

    def can(self, variant: Variant) -> bool:
        """Return whether the log is long enough for the variant."""
        return not variant.months_apart or self.months >= FEWEST_MONTHS


def subjects_of(logs: Sequence[StudyLog]) -> tuple[PricingSubject, ...]:
    """Return each log unchanged."""
    return tuple(_subject(log, log.source.name, run.PricingSetup()) for log in logs)


def paper_subjects(logs: Sequence[StudyLog]) -> tuple[PricingSubject, ...]:
    """Return the counterparts of the paper's logs; the first log if there are none."""
    return _counterparts(logs, COUNTERPARTS) or subjects_of(logs[:1])


def mira_subjects(logs: Sequence[StudyLog]) -> tuple[PricingSubject, ...]:
    """Return the logs that stand for Mira's, as logged and at 90 % load; the first log if there are none."""
    return _counterparts(logs, MIRA) or subjects_of(logs[:1])


def _counterparts(logs: Sequence[StudyLog], counterparts: Sequence[Counterpart]) -> tuple[PricingSubject, ...]:
    return tuple(
        _counterpart(log, counterpart)
        for counterpart in counterparts
        for log in logs
        if log.source.name.startswith(counterpart.begins)
    )


def _counterpart(log: StudyLog, counterpart: Counterpart) -> PricingSubject:
    name = log.source.name
    if counterpart.load is not None:
        name = f"{name} at {counterpart.load:.0%} load"
    subject = _subject(log, name, run.PricingSetup(load=counterpart.load))
    return replace(subject, paper=counterpart.paper, changes=counterpart.changes)


def _subject(log: StudyLog, name: str, setup: run.PricingSetup) -> PricingSubject:
    return PricingSubject(name, log, Variant(setup), run.months_of(log, setup))


def planned(
    everywhere: Sequence[PricingSubject],
    studied: Sequence[PricingSubject],
    stand_ins: Sequence[PricingSubject],
    replays: Replays,
) -> tuple[run.PricingExperiment, ...]:
    """Return the experiments, each once, those of a log next to each other."""
    lines = [(subject, variant) for subject in everywhere for variant in log_variants(subject)]
    lines += [(subject, variant) for subject in studied for variant in study_variants(subject)]
    lines += [(subject, variant) for subject in stand_ins for variant in mira_variants(subject)]
    found = dict.fromkeys(
        experiment
        for subject, variant in lines
        for group in experiments(variant, subject.log.source.name, subject.months, replays)
        for experiment in group
    )
    return tuple(sorted(found, key=lambda experiment: experiment.log))


def log_variants(subject: PricingSubject) -> Iterator[Variant]:
    """Return the starting point and the knapsack to the letter."""
    yield subject.base
    yield letter_change(subject.base.setup.max_postponement_s).of(subject.base)


def study_variants(subject: PricingSubject) -> Iterator[Variant]:
    """Return the setups of the logs that are studied closely."""
    yield from (ratio_change(ratio, subject.base.bill.price_ratio).of(subject.base) for ratio in POWER_RATIOS)
    changes = [*changes_alone(subject), *map(period_change, PERIODS_S), *map(letter_change, BOUNDS.values())]
    yield from (change.of(subject.base) for change in changes)
    yield from (variant for _, variant in ladder_of(subject))


def changes_alone(subject: PricingSubject) -> tuple[PricingChange, ...]:
    """Return the changes that are made alone on this log, without those that change nothing of it."""
    made = [(change, change.of(subject.base)) for change in (*ALONE, *subject.changes)]
    return tuple(change for change, variant in made if variant != subject.base and subject.can(variant))


def ladder_of(subject: PricingSubject) -> list[tuple[PricingChange, Variant]]:
    """Return the rungs of the ladder with the variant of each, without those for which the log is too short."""
    return _rungs([change for change in LADDER if subject.can(change.of(subject.base))], subject.base)


def _rungs(changes: Sequence[PricingChange], base: Variant) -> list[tuple[PricingChange, Variant]]:
    reached = [
        reduce(lambda variant, change: change.of(variant), changes[: count + 1], base) for count in range(len(changes))
    ]
    return list(zip(changes, reached, strict=True))


def month_by_month(subject: PricingSubject) -> Variant:
    """Return the starting point of the case of Mira: each month by itself, the whole log if that is too short."""
    apart = MONTHS_APART.of(subject.base)
    return apart if subject.can(apart) else subject.base


def mira_ladder(subject: PricingSubject) -> list[tuple[PricingChange, Variant]]:
    """Return the changes of the case of Mira, one on top of the other, with the variant of each."""
    return _rungs((NO_BOUND, TWO_KINDS, NO_IDLE_POWER, AT_START), month_by_month(subject))


def mira_variants(subject: PricingSubject) -> Iterator[Variant]:
    """Return the setups of the case of Mira."""
    start = month_by_month(subject)
    yield start
    yield from (variant for _, variant in mira_ladder(subject))
    yield from (letter_change(bound_s).of(start) for bound_s in BOUNDS.values())


def on_peak_hours(hours: str) -> NDArray[np.bool_]:
    """Return which of the 24 hours of the day "09:00-23:00" covers; it begins and ends at full hours."""
    begin, end = (int(clock.split(":")[0]) for clock in hours.split("-"))
    return (np.arange(24) - begin) % 24 < (end - begin) % 24
