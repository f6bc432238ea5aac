"""What a report is about: everything that its sections are made from, worked out once, and the calendar of its
axes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np

from offpeak.display import minute_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Trace
from offpeak.model.zones import date_text, offset_at
from offpeak.sim_backend.case.replay_case import PoweredPools, PreparedCase
from offpeak.sim_backend.comparison.compare import Comparison, curve_of_run
from offpeak.sim_backend.comparison.outcome import PolicyOutcome, PolicyRun, SleepOutcome
from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread
from offpeak.sim_backend.nodes.node_log import StateCounts
from offpeak.sim_backend.nodes.power_curve import PowerCurve
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.ui.report.figure import Key


@dataclass(frozen=True)
class Calendar:
    """The position of a trace in the calendar: Unix time = trace second + `offset_s`.

    Axes show time that is `ahead_s` ahead of UTC throughout, because an axis on which clocks change would show an hour
    twice; tables show the clock of `zone`.
    """

    offset_s: int
    zone: tzinfo
    ahead_s: int

    def axis_ms(self, trace_s: Int64 | Float64) -> Float64:
        """Return the instants as a date axis takes them [ms]."""
        return (trace_s.astype(np.float64) + (self.offset_s + self.ahead_s)) * 1000

    def axis_range(self, from_s: int, until_s: int) -> list[float]:
        """Return a period as the range of an axis, at least a minute of it."""
        begin, until = self.axis_ms(np.array([from_s, max(until_s, from_s + 60)])).tolist()
        return [begin, until]

    def minute_text(self, trace_s: int) -> str:
        """Return the local date and time as 2020-09-21 14:05."""
        return minute_text(trace_s + self.offset_s, self.zone)

    def day_text(self, trace_s: int) -> str:
        """Return the local date as 2020-09-21."""
        return date_text(trace_s + self.offset_s, self.zone)

    @property
    def clock_text(self) -> str:
        """How far the axes' clock is from UTC, such as UTC+01:00."""
        minutes = abs(self.ahead_s) // 60
        return f"UTC{'-' if self.ahead_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if minutes else "UTC"


PALETTE = {"base": 1, "order": 4, "sleep": 4, "caps": 2}
"""How many colours services/page/palette.css has for policies by their lever; the next gets the first again."""

DASHES = ("", "8 4", "2 3", "8 3 2 3", "14 4")


@dataclass(frozen=True)
class ReportPolicy:
    """A policy as the figures show it: its run, its figures and the machine's power, and its number.

    `counts` are its nodes by state, None without power states. `colour` says by its hue whether the policy changes only
    the order of jobs, lets nodes sleep, or limits power.
    """

    number: int
    run: PolicyRun
    outcome: PolicyOutcome
    curve: PowerCurve
    counts: StateCounts | None
    colour: str

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self.run.policy

    @property
    def key(self) -> Key:
        """Its entry in a legend, which also differs by its dashes."""
        return Key(self.name, self.colour, DASHES[self.number % len(DASHES)])

    @property
    def sleep(self) -> SleepOutcome:
        """The behaviour of its nodes; only for a comparison with sleeping nodes."""
        assert self.run.sleep is not None
        return self.run.sleep


@dataclass(frozen=True)
class ReportSubject:
    """A comparison with its log, the baseline policy first; `power_unit_w` watts are one `power_unit`."""

    trace: Trace
    prepared: PreparedCase
    comparison: Comparison
    spreads: tuple[ReplicationSpread, ...]
    calendar: Calendar
    policies: tuple[ReportPolicy, ...]
    power_unit: str
    power_unit_w: float

    @property
    def unit(self) -> str:
        """The unit of allocations."""
        return "node" if self.prepared.units_per_node == 1 else "processor"

    @property
    def can_sleep(self) -> bool:
        """Whether its nodes have power states."""
        return self.comparison.case.nodes is not None

    @property
    def nodes(self) -> PoweredMachine | PoweredPools:
        """The machine as nodes; only for a comparison with sleeping nodes."""
        assert self.comparison.case.nodes is not None
        return self.comparison.case.nodes

    @property
    def figures(self) -> tuple[PolicyOutcome, ...]:
        """The figures that text and tables give of each policy: those quoted of replays, if there are several."""
        spread_of = {spread.policy: spread for spread in self.spreads}
        outcomes = self.comparison.outcomes
        return tuple(outcome_at(outcome, spread_of.get(outcome.policy), "middle") for outcome in outcomes)

    @property
    def cheapest(self) -> int:
        """The number of the policy that saves most, which figures show first."""
        return max(range(len(self.policies)), key=lambda number: self.figures[number].saved)

    @property
    def others(self) -> tuple[ReportPolicy, ...]:
        """The policies that are compared with the baseline."""
        return self.policies[1:]


def outcome_at(outcome: PolicyOutcome, spread: ReplicationSpread | None, which: str) -> PolicyOutcome:
    """Return the outcome with its figures' "middle", "low" or "high" over the replays; itself if there is one only."""
    if spread is None:
        return outcome
    quoted = {name: getattr(interval, which) for name, interval in spread.figures.items()}
    before = spread.figures["cost"].middle - spread.differences["cost"].middle
    return replace(outcome, **quoted, baseline=outcome.baseline and replace(outcome.baseline, cost=before))


def with_demand_charges(subject: ReportSubject) -> ReportSubject:
    """Return the subject whose costs and savings are those of the whole bill; itself if no demand charge is known."""
    outcomes, spreads = subject.comparison.outcomes, subject.spreads
    if outcomes[0].bill is None or any("bill" not in spread.figures for spread in spreads):
        return subject
    fields = {"cost": "bill", "saving_pct": "bill_saving_pct"}

    def billed(outcome: PolicyOutcome) -> PolicyOutcome:
        whole = {name: getattr(outcome, bill) for name, bill in fields.items()}
        return replace(outcome, **whole, baseline=outcome.baseline and billed(outcome.baseline))

    def of_bill(values: Mapping[str, ReplicationInterval]) -> dict[str, ReplicationInterval]:
        return {**values, **{name: values[whole] for name, whole in fields.items()}}

    ranges = [replace(each, figures=of_bill(each.figures), differences=of_bill(each.differences)) for each in spreads]
    return replace(
        subject, comparison=replace(subject.comparison, outcomes=tuple(map(billed, outcomes))), spreads=tuple(ranges)
    )


def subject_of(
    trace: Trace, prepared: PreparedCase, comparison: Comparison, spreads: tuple[ReplicationSpread, ...]
) -> ReportSubject:
    """Return the data of the report of this comparison."""
    policies, aligned = tuple(_policies(comparison)), comparison.case.prices.aligned
    highest_w = max(float(policy.curve.total_w.max(initial=0.0)) for policy in policies)
    unit, unit_w = next((u, w) for u, w in (("MW", 1e6), ("kW", 1e3), ("W", 1.0)) if highest_w >= 2 * w or w == 1)
    return ReportSubject(
        trace=trace,
        prepared=prepared,
        comparison=comparison,
        spreads=spreads,
        # Axes have the clock at the begin of the log.
        calendar=Calendar(
            aligned.offset_s, aligned.zone, offset_at(comparison.begin_s + aligned.offset_s, aligned.zone)
        ),
        policies=policies,
        power_unit=unit,
        power_unit_w=unit_w,
    )


def _policies(comparison: Comparison) -> Iterator[ReportPolicy]:
    taken = Counter[str]()
    for number, (run, outcome) in enumerate(zip(comparison.runs, comparison.outcomes, strict=True)):
        counts = run.sleep.node_log.counts(comparison.begin_s) if run.sleep else None
        curve = curve_of_run(run.usage, run.sleep)
        lever = _lever(run.policy) if number else "base"
        colour = f"var(--{lever}-{taken[lever] % PALETTE[lever]})"
        taken[lever] += 1
        yield ReportPolicy(number, run, outcome, curve, counts=counts, colour=colour)


def _lever(policy: str) -> str:
    """Return the lever of a policy's name, such as "greedy timeout:10min": the one that changes most."""
    _, *capacities = policy.split()
    if any(each.startswith(("profile", "peak:")) for each in capacities):
        return "caps"
    return "sleep" if capacities else "order"
