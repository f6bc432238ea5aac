"""The study's tables: the paper's figures 2 and 8, its sentences one by one, real nodes, and readings of the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter
from statistics import fmean

from offpeak.model.constants import WEEK_S
from offpeak.report_tables import Range, StudyTable, TableCell
from offpeak_studies.harness import Replays
from offpeak_studies.logs import offered_load
from offpeak_studies.online_simulation.plan import (
    KNOWLEDGE,
    PERIODS,
    Knowledge,
    OnlineSubject,
    estimated,
    experiments,
    on_servers,
    policies_of,
    readings_of,
)
from offpeak_studies.online_simulation.run import (
    ALWAYS_ON,
    AS_SCHEDULER,
    DAILY,
    OLS,
    SLA,
    ByWeek,
    OnlineExperiment,
    OnlineResult,
    OnlineSetup,
)
from offpeak_studies.report import range_of

Measure = Callable[[OnlineResult], float]


def _pct_of(share: str) -> Measure:
    """Return the measure of a share [%]."""
    return lambda result: 100 * getattr(result, share)


slowdown: Measure = attrgetter("slowdown")
cycles: Measure = attrgetter("cycles")
violations_pct, utilization_pct, inactive_pct, idle_saved_pct = map(
    _pct_of, ("violations", "utilization", "inactive", "idle_saved")
)


def worst_week(result: OnlineResult) -> float:
    """Return the highest of the weeks' mean slowdowns."""
    return max(week for week in result.weekly.slowdown if week is not None)


@dataclass(frozen=True)
class OnlineResults:
    """All results of the study."""

    results: Mapping[OnlineExperiment, OnlineResult]
    replays: Replays

    def each(self, subject: OnlineSubject, setup: OnlineSetup, measure: Measure) -> list[float]:
        """Return a figure of each replay."""
        return [measure(self.results[experiment]) for experiment in experiments(subject.name, setup, self.replays)]

    def of(self, subject: OnlineSubject, setup: OnlineSetup, measure: Measure) -> Range:
        """Return a figure over the replays."""
        return range_of(self.each(subject, setup, measure))

    def over(self, subject: OnlineSubject, setup: OnlineSetup, base: OnlineSetup, measure: Measure) -> Range:
        """Return how many times a figure is that of another setup, in the same replays."""
        pairs = zip(self.each(subject, setup, measure), self.each(subject, base, measure), strict=False)
        return range_of([here / there for here, there in pairs])

    def weekly(self, subject: OnlineSubject, setup: OnlineSetup, by_week: Callable[[OnlineResult], ByWeek]) -> ByWeek:
        """Return the mean over the replays of a weekly figure; of some replays the last week is missing."""
        series = [by_week(self.results[experiment]) for experiment in experiments(subject.name, setup, self.replays)]
        known = ([value for value in week if value is not None] for week in zip_longest(*series))
        return tuple(fmean(values) if values else None for values in known)


RANGES = "In brackets the lowest and the highest of the replays."
MEASURES = (slowdown, violations_pct, utilization_pct, inactive_pct, cycles)
MEASURED = ("slowdown", "jobs above 200 [%]", "utilization [%]", "inactive [%]", "cycles")


def logs_table(subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return a row for each log: its properties, and the paper's figures."""
    return StudyTable(
        "logs",
        "The logs",
        "Load: the share of all processors that the jobs request. L: the lower of the two levels.",
        ("log", "jobs", "the paper's", "weeks", "processors", "load [%]", "L"),
        tuple(_log_row(subject) for subject in subjects),
    )


def _log_row(subject: OnlineSubject) -> tuple[TableCell, ...]:
    jobs = subject.log.trace.jobs
    theirs = f"{subject.paper.jobs:,}" if subject.paper else None
    load = f"{100 * offered_load(jobs, subject.size):.1f}"
    weeks = f"{subject.log.span_s / WEEK_S:.0f}"
    return (subject.name, f"{len(jobs):,}", theirs, weeks, f"{subject.size:,}", load, f"{subject.low:,}")


def policies_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return the paper's figure 2 in numbers."""
    return StudyTable(
        "policies",
        "All processors, two levels, OLS decided weekly (the paper's figure 2)",
        f"Utilization is that of active processors; cycles are sleeps a node and year. {RANGES}",
        ("log", "policy", *MEASURED),
        tuple(
            (subject.name, name, *measured(results, subject, setup))
            for subject in subjects
            for name, setup in policies_of(subject).items()
        ),
    )


def periods_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return the paper's figure 8 in numbers."""
    return StudyTable(
        "periods",
        "OLS decided more and less often (the paper's figure 8)",
        f"{RANGES} Hourly decisions have a quarter of the replays.",
        ("log", "period", *MEASURED),
        tuple(
            (subject.name, period, *measured(results, subject, subject.setup(f"ols:{period}")))
            for subject in subjects
            for period in PERIODS
        ),
    )


def measured(results: OnlineResults, subject: OnlineSubject, setup: OnlineSetup) -> tuple[TableCell, ...]:
    """Return the measures of a setup in the order of MEASURED."""
    return tuple(results.of(subject, setup, measure) for measure in MEASURES)


def servers_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return the effect of transitions that take time, and what sleep then saves."""
    return StudyTable(
        "servers",
        "Transitions that take no time, and those of the bundled class `server`",
        "Times: the slowdown divided by that without transitions, in the same replays. Saved: the share of the "
        "energy that the idle processors would draw if they were awake. Of all: the slowdown divided by that of all "
        f"processors. {RANGES}",
        ("log", "policy", "slowdown", "times", "of all", "inactive [%]", "saved, no transitions [%]", "saved [%]"),
        tuple(
            _server_row(results, subject, at_once, server)
            for subject in subjects
            for at_once, server in ((subject.setup(setup.capacity), setup) for setup in on_servers(subject))
        ),
    )


def _server_row(
    results: OnlineResults, subject: OnlineSubject, at_once: OnlineSetup, server: OnlineSetup
) -> tuple[TableCell, ...]:
    return (
        subject.name,
        server.capacity,
        results.of(subject, server, slowdown),
        results.over(subject, server, at_once, slowdown),
        results.over(subject, server, subject.setup(ALWAYS_ON), slowdown),
        results.of(subject, server, inactive_pct),
        results.of(subject, at_once, idle_saved_pct),
        results.of(subject, server, idle_saved_pct),
    )


def knowledge_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return the effect of estimates on the policies; the paper uses exact ones and says that others change little."""
    return StudyTable(
        "knowledge",
        "Known run times",
        "The run times that the scheduler knows, and also OLS unless stated otherwise. Predicted: the mean of the "
        f"user's last two run times. {RANGES}",
        (
            "log", "known run times", "slowdown of all", "two-level", "OLS weekly", "OLS daily",
            "inactive, weekly [%]", "inactive, daily [%]", "above 200, weekly [%]",
        ),
        tuple(_knowledge_row(results, subject, known) for subject in subjects for known in KNOWLEDGE),
    )  # fmt: skip


def _knowledge_row(results: OnlineResults, subject: OnlineSubject, known: Knowledge) -> tuple[TableCell, ...]:
    capacities = (ALWAYS_ON, subject.two_level, OLS, DAILY)
    everything, low, weekly, daily = (estimated(subject.setup(capacity), known) for capacity in capacities)
    others: tuple[TableCell, ...] = (None, None)
    if known.what_if == AS_SCHEDULER:
        others = (results.of(subject, everything, slowdown), results.of(subject, low, slowdown))
    return (
        subject.name,
        known.name,
        *others,
        *(results.of(subject, setup, slowdown) for setup in (weekly, daily)),
        *(results.of(subject, setup, inactive_pct) for setup in (weekly, daily)),
        results.of(subject, weekly, violations_pct),
    )


def readings_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return weekly OLS with one other reading of the paper in each row."""
    return StudyTable(
        "readings",
        "Weekly OLS, one change at a time",
        f"{RANGES} If weeks begin later, the first 8 to 13 days of the log are left out, and each case has a quarter "
        "of the replays.",
        ("log", "change", "slowdown", "inactive [%]", "jobs above 200 [%]"),
        tuple(
            (
                subject.name,
                name,
                *(
                    range_of([value for setup in setups for value in results.each(subject, setup, measure)])
                    for measure in MEASURES_OF_READINGS
                ),
            )
            for subject in subjects
            for name, setups in (("nothing", (subject.setup(OLS),)), *readings_of(subject))
        ),
    )


MEASURES_OF_READINGS: tuple[Measure, ...] = (slowdown, inactive_pct, violations_pct)


ClaimMeasure = Callable[[OnlineResults, OnlineSubject], Range]
WITH_TAILS = ("KTH-SP2", "SDSC-SP2")


def is_underused(subject: OnlineSubject) -> bool:
    """Return whether the paper sets the machine aside because of its low load."""
    return subject.paper is not None and subject.paper.underused


def is_busy(subject: OnlineSubject) -> bool:
    """Return whether the paper does not set the machine aside."""
    return not is_underused(subject)


def has_tail(subject: OnlineSubject) -> bool:
    """Return whether the slowdown of the log rises towards the end."""
    return subject.name.startswith(WITH_TAILS)


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of the paper, our figure beside it, the bounds that it sets, and the logs that it is about."""

    text: str
    measure: ClaimMeasure
    low: float
    high: float
    about: Callable[[OnlineSubject], bool] = lambda _: True

    def holds(self, mean: float) -> bool:
        """Return whether a mean is within the bounds."""
        return self.low <= mean <= self.high


def _two_level(subject: OnlineSubject) -> OnlineSetup:
    return subject.setup(subject.two_level)


def _ols(subject: OnlineSubject) -> OnlineSetup:
    return subject.setup(OLS)


def _all(subject: OnlineSubject) -> OnlineSetup:
    return subject.setup(ALWAYS_ON)


def _of(setup: Callable[[OnlineSubject], OnlineSetup], measure: Measure) -> ClaimMeasure:
    return lambda results, subject: results.of(subject, setup(subject), measure)


def _over(
    setup: Callable[[OnlineSubject], OnlineSetup], base: Callable[[OnlineSubject], OnlineSetup], measure: Measure
) -> ClaimMeasure:
    return lambda results, subject: results.over(subject, setup(subject), base(subject), measure)


CLAIMS = (
    PaperClaim("all processors: CTC 55 % utilized", _of(_all, utilization_pct), 52.5, 57.5, is_underused),
    PaperClaim("two-level: about 10 % inactive or more [%]", _of(_two_level, inactive_pct), 9.5, 100),
    PaperClaim("two-level: utilization of 80 % or more [%]", _of(_two_level, utilization_pct), 80, 100),
    PaperClaim("two-level: CTC utilization near 90 % [%]", _of(_two_level, utilization_pct), 85, 95, is_underused),
    PaperClaim("two-level: slowdown at most 2.5 times that of all", _over(_two_level, _all, slowdown), 0, 2.5, is_busy),
    PaperClaim("OLS: around 10 % inactive [%]", _of(_ols, inactive_pct), 5, 15, is_busy),
    PaperClaim(
        "OLS: just above 55 % of CTC active, so below 45 % inactive [%]", _of(_ols, inactive_pct), 35, 45, is_underused
    ),
    PaperClaim(f"OLS: slowdown within the SLA of {SLA:g}", _of(_ols, slowdown), 1, SLA),
    PaperClaim("OLS: slowdown below two-level's", _over(_ols, _two_level, slowdown), 0, 1, is_busy),
    PaperClaim("OLS: CTC slowdown slightly above two-level's", _over(_ols, _two_level, slowdown), 1, 1.5, is_underused),
    PaperClaim("OLS: utilization slightly below two-level's", _over(_ols, _two_level, utilization_pct), 0.9, 1.0),
    PaperClaim("OLS: worst week milder than two-level's", _over(_ols, _two_level, worst_week), 0, 1, has_tail),
)


def claims_table(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> StudyTable:
    """Return a row for each sentence: our figure on each log that it is about, and where it does not hold."""
    return StudyTable(
        "claims",
        "The paper's sentences compared with our figures",
        "Ratios are those of the same replays, in brackets the lowest and the highest of them. Empty if the sentence "
        "does not refer to the log. The last column names the logs whose mean contradicts it.",
        ("the paper", *(subject.name for subject in subjects), "differs"),
        tuple(_claim_row(results, subjects, claim) for claim in CLAIMS),
    )


def _claim_row(results: OnlineResults, subjects: Sequence[OnlineSubject], claim: PaperClaim) -> tuple[TableCell, ...]:
    found = {subject.name: claim.measure(results, subject) for subject in subjects if claim.about(subject)}
    differs = ", ".join(name for name, figure in found.items() if not claim.holds(figure.mean))
    return (claim.text, *(found.get(subject.name) for subject in subjects), differs)
