"""Replays a log under a sleeping rule in the real engine, and counts energy, boot delays and cycles by week.

Rules outside of the product decide by a function that the engine calls every `STEP_S`: how many idle nodes stay awake
if they are awake (`keep`), and how many must be awake (`reserve`), as the product's forecast does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE, OFF, STATES, asleep
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.case import unit_case
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import State
from offpeak.sim_backend.nodes.node_log import Int8, Int32
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import Replay, unit_rules_of
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak_studies.logs import LogSource, StudyLog, read_log, shift_submissions
from offpeak_studies.sleeping.run import units_per_node

STEP_S = 300
NODES = bundled_node_class("sketch")
WARM_UP_S = 28 * DAY_S
"""A replay begins so long before the weeks that count, so that rules have a history."""

CORES_PER_NODE = {"UniLu-Gaia": 12}
"""Of logs whose header does not say it; most nodes of Gaia had 12 cores."""


class Decide(NamedTuple):
    """A rule outside of the product: the base policy, and what the engine calls every `period_s`."""

    policy: str
    period_s: int
    idle_s: int
    decide: Callable[[State, Power], tuple[int, int]]


@dataclass(frozen=True)
class Part:
    """The jobs of a part of a log on its machine: a warm-up, then the weeks that count, `begin_s` to `until_s`."""

    name: str
    jobs: Jobs
    machine: PoweredMachine
    begin_s: int
    until_s: int

    @property
    def weeks(self) -> int:
        """The number of weeks that count, the last one perhaps shorter."""
        return -(-(self.until_s - self.begin_s) // WEEK_S)

    def delayed(self, seed: int) -> "Part":
        """Return the part with each submission 0 to 60 s later."""
        return replace(self, jobs=shift_submissions(self.jobs, np.random.default_rng(seed)))


def read(path: Path) -> StudyLog:
    """Return a log of the archive."""
    name = path.name.removesuffix(".gz").removesuffix(".swf")
    return read_log(LogSource(name, path))


def machine_of(log: StudyLog) -> PoweredMachine:
    """Return the log's machine, without the units that make no whole node."""
    cores = [cores for begins, cores in CORES_PER_NODE.items() if log.source.name.startswith(begins)]
    per_node = cores[0] if cores else units_per_node(log)
    return PoweredMachine(log.size // per_node * per_node, per_node, NODES)


def part_of(log: StudyLog, from_share: float, until_share: float, warm_up_s: int = WARM_UP_S) -> Part:
    """Return the weeks of a log between two shares of its span, with a warm-up before them if there is one."""
    submit_s = log.trace.jobs.submit_s
    machine = machine_of(log)
    first_s = int(submit_s[0])
    begin_s = first_s + int(from_share * log.span_s)
    until_s = first_s + int(until_share * log.span_s)
    fits = log.trace.jobs.size <= machine.size
    inside = np.flatnonzero((submit_s >= begin_s - warm_up_s) & (submit_s < until_s) & fits)
    return Part(log.source.name, log.trace.jobs.take(inside), machine, begin_s, until_s)


class RuleReplay(Replay):
    """A replay whose nodes follow a rule outside of the product."""

    def __init__(self, part: Part, capacity: CapacityPolicy, rule: Decide | None) -> None:
        power_w = np.full(len(part.jobs), NODES.running_w(1.0) / part.machine.units_per_node)
        easy = parse_policy("easy", SchedulingSettings())
        policy = replace(easy, capacity=(replace(capacity, by_limits=True),))
        machine = part.machine
        case = unit_case(part.jobs, power_w, machine.size, units_per_node=machine.units_per_node)
        super().__init__(case, policy, unit_rules_of(policy), machine.sleeping())
        self._rule = rule

    def _decide_capacity(self) -> None:
        assert self._rule is not None
        assert self._power is not None
        keep, reserve = self._rule.decide(self.state, self._power)
        self._power.scalars["keep"] = keep
        self._power.scalars["reserve"] = reserve


def capacity_policy(part: Part, name: str) -> CapacityPolicy:
    """Return a policy of the product for the machine of a part."""
    fleet = Fleet(part.machine.nodes, part.machine.units_per_node, NODES)
    return make_capacity_policy(name, fleet, CapacitySettings())


def run(part: Part, rule: str | CapacityPolicy | Decide) -> Schedule:
    """Return the schedule of a part under a policy of the product or a rule outside of it."""
    if isinstance(rule, str):
        replay = RuleReplay(part, capacity_policy(part, rule), None)
    elif isinstance(rule, CapacityPolicy):
        replay = RuleReplay(part, rule, None)
    else:
        base = capacity_policy(part, rule.policy)
        rules = base.rules._replace(period_s=rule.period_s, worth_s=0)
        after_s = base.schedule.after_s.copy()
        after_s[:, OFF] = rule.idle_s
        replay = RuleReplay(part, replace(base, rules=rules, schedule=base.schedule._replace(after_s=after_s)), rule)
    replay.run()
    return replay.schedule()


@dataclass(frozen=True)
class Weeks:
    """By week that counts: the idle nodes' energy if always on, what sleep saved [J], cycles, delays and their jobs.

    `node_days` is the size of the machine times the days.
    """

    idle_j: Float64
    saved_j: Float64
    cycles: Float64
    delay_s: Float64
    jobs: Float64
    node_days: Float64

    @property
    def saved_pct(self) -> float:
        """The share of the idle energy that sleep saved."""
        return 100 * float(self.saved_j.sum() / self.idle_j.sum())

    @property
    def mean_delay_s(self) -> float:
        """The mean boot delay of a job."""
        return float(self.delay_s.sum() / self.jobs.sum())

    @property
    def cycles_per_node_day(self) -> float:
        """The power cycles of a node in a day."""
        return float(self.cycles.sum() / self.node_days.sum())

    def take(self, weeks: Int64) -> "Weeks":
        """Return a sample of the weeks."""
        columns = (self.idle_j, self.saved_j, self.cycles, self.delay_s, self.jobs, self.node_days)
        return Weeks(*(column[weeks] for column in columns))


def weeks_of(part: Part, schedule: Schedule) -> Weeks:
    """Return the figures of a replay by week."""
    edges_s = np.minimum(part.begin_s + np.arange(part.weeks + 1) * WEEK_S, part.until_s)
    log, machine = schedule.node_log, part.machine
    seconds, cycles = _by_week(log.at_s, log.node, log.state, machine.nodes, edges_s, _saves(NODES))
    start_s, end_s = schedule.start_s, schedule.end_s
    busy_s = _busy_by_week(start_s, end_s, part.jobs.size, edges_s)
    span_s = np.diff(edges_s)
    idle_w = NODES.idle_w / machine.units_per_node
    counts = (part.jobs.submit_s >= part.begin_s) & (part.jobs.submit_s < part.until_s) & (start_s >= 0)
    week = (part.jobs.submit_s[counts] - part.begin_s) // WEEK_S
    return Weeks(
        idle_j=idle_w * (machine.size * span_s - busy_s),
        saved_j=seconds,
        cycles=cycles,
        delay_s=np.bincount(week, weights=schedule.sleep_delay_s[counts], minlength=part.weeks).astype(np.float64),
        jobs=np.bincount(week, minlength=part.weeks).astype(np.float64),
        node_days=machine.nodes * span_s / DAY_S,
    )


def _saves(node_class: NodeClass) -> Float64:
    """Return what a node in each state draws less than an idle one [W]."""
    saved_w = node_class.idle_w - node_class.state_w()
    saved_w[ACTIVE] = 0.0
    return saved_w


@kernel
def _by_week(
    at_s: Int64, node: Int32, state: Int8, nodes: int, edges_s: Int64, saves_w: Float64
) -> tuple[Float64, Float64]:
    weeks = len(edges_s) - 1
    saved, cycles = np.zeros(weeks), np.zeros(weeks)
    present, since_s = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    since_s[:] = edges_s[0]
    week_s = edges_s[1] - edges_s[0]
    for entry in range(len(at_s) + nodes):
        closing = entry >= len(at_s)
        which = entry - len(at_s) if closing else node[entry]
        second = edges_s[weeks] if closing else min(max(at_s[entry], edges_s[0]), edges_s[weeks])
        begin_s = since_s[which]
        while begin_s < second:
            week = min((begin_s - edges_s[0]) // week_s, weeks - 1)
            until_s = min(second, edges_s[week + 1])
            saved[week] += saves_w[present[which]] * (until_s - begin_s)
            begin_s = until_s
        since_s[which] = second
        if not closing:
            present[which] = state[entry]
            if state[entry] == FELL_ASLEEP and edges_s[0] <= at_s[entry] < edges_s[weeks]:
                cycles[min((at_s[entry] - edges_s[0]) // week_s, weeks - 1)] += 1
    return saved, cycles


FELL_ASLEEP = asleep(OFF)
assert ACTIVE == 0
assert STATES > FELL_ASLEEP


def _busy_by_week(start_s: Int64, end_s: Int64, size: Int64, edges_s: Int64) -> Float64:
    """Return the unit-seconds of jobs by week."""
    begin_s, until_s = np.maximum(start_s[:, None], edges_s[None, :-1]), np.minimum(end_s[:, None], edges_s[None, 1:])
    return np.asarray((np.maximum(until_s - begin_s, 0) * size[:, None]).sum(axis=0), dtype=np.float64)
