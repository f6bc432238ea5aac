"""Compares live runs of the mixed workload with the mixed engine under Slurm's measured timing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.compare import (
    Asleep,
    Figures,
    Run,
    figures,
    nearest,
    place_on_nodes,
    put_to_sleep,
    saving,
    spearman,
    wake_delays_h,
    with_tail,
)
from benchmarks.fidelity.live import OWN, SLEEP_AFTER_H, SLEEPING, LiveRun
from benchmarks.fidelity.replay import END_WINDOW_S, OWN_ORDER, Clock, Timing, engine_start_h
from benchmarks.fidelity.workload import MixedDay
from offpeak.model.arrays import Float64

REPLAYS, LATE_S = 100, 0.3
SHUTDOWN_S, BOOT_S = 0.5, 1.0
CHECK_S = 30
"""The interval of slurmctld's periodic checks, among them whether the nodes of a job are up; no setting changes it."""
ROUNDS = 8
"""A job that waits for its nodes changes the schedule, and with it which nodes sleep: so often this is repeated."""
ENGINE = {OWN: OWN_ORDER, "greedy": "conservative+greedy", "knapsack": "conservative+knapsack"}


def replayed(day: MixedDay, clock: Clock, policy: str, timing: Timing, late_s: Float64 | None = None) -> Run:
    """Return the engine's replay of a policy with Slurm's timing."""
    name = ENGINE.get(policy, OWN_ORDER)
    wake_h, asleep = np.zeros(len(day)), tuple[Asleep, ...]()
    for _ in range(ROUNDS if policy == SLEEPING else 1):
        # The nodes are taken while they wake.
        taken_h = engine_start_h(day, clock, name, timing, late_s=late_s, wake_h=wake_h)
        end_h = taken_h + wake_h + day.run_h
        nodes = place_on_nodes(day, taken_h, end_h)
        if policy != SLEEPING:
            break
        taken = Run(taken_h, end_h, nodes)
        asleep = _asleep(taken, float(end_h.max()), clock)
        before_h, wake_h = wake_h, wake_delays_h(taken, asleep, lambda on_h: _ready_h(on_h, clock))
        if np.allclose(before_h, wake_h):
            break
    return Run(end_h - day.run_h, end_h, nodes, asleep)


def _asleep(run: Run, until_h: float, clock: Clock) -> tuple[Asleep, ...]:
    return put_to_sleep(run, until_h, after_h=SLEEP_AFTER_H, shutdown_h=SHUTDOWN_S / clock.hour_s)


def _ready_h(on_h: float, clock: Clock) -> float:
    """Return when slurmctld starts the jobs of a node that wakes at that hour: at its next check after the boot."""
    return math.ceil((on_h * clock.hour_s + BOOT_S) / CHECK_S) * CHECK_S / clock.hour_s


def replays(day: MixedDay, clock: Clock, policy: str, timing: Timing) -> list[Run]:
    """Return REPLAYS replays in which each job is submitted up to LATE_S later, the same in those of each policy."""
    random = np.random.default_rng(1)
    return [replayed(day, clock, policy, timing, _late_s(day, random)) for _ in range(REPLAYS)]


def _late_s(day: MixedDay, random: np.random.Generator) -> Float64:
    """Return by how much each submission is late; the tasks of an array are submitted together."""
    late_s = random.random(len(day)) * LATE_S
    for job in range(1, len(day)):
        if day.array[job] >= 0 and day.array[job] == day.array[job - 1]:
            late_s[job] = late_s[job - 1]
    return late_s


def timing_of(run: LiveRun) -> Timing:
    """Return the timing that slurmctld showed in a run."""
    shown = run.timing
    return Timing(
        shown.backfill_interval_s,
        completing_s=shown.release_s,
        launch_s=shown.launch_s,
        cycle_s=run.cycle_s,
        end_window_s=END_WINDOW_S,
    )


def report_lines(day: MixedDay, runs: Sequence[LiveRun]) -> Iterator[str]:
    """Yield the comparison of each run; savings are against the run of the own order at the same clock."""
    for run in runs:
        clock = Clock(run.hour_s)
        own = [each for each in runs if each.policy == OWN and each.hour_s == run.hour_s]
        yield from _compared(day, clock, run, own[0] if own else None)


def _compared(day: MixedDay, clock: Clock, run: LiveRun, own: LiveRun | None) -> Iterator[str]:
    timing, live, shown = timing_of(run), _live(run), run.timing
    engine = {policy: replays(day, clock, policy, timing) for policy in dict.fromkeys((run.policy, *ENGINE))}
    plain = {policy: replayed(day, clock, policy, timing) for policy in engine}
    yield f"{run.policy}, an hour in {run.hour_s:g} s, load average {run.load[1]:.1f}"
    yield (
        f"  backfill every {shown.backfill_interval_s:.2f} s (at most {shown.longest_interval_s:.1f}), "
        f"{shown.starts_by_backfill:.0%} of the starts; release {shown.release_s:.2f} s, "
        f"launch {shown.launch_s:.2f} s; orders every {run.cycle_s:.2f} s"
    )
    orders = {policy: [spearman(live.start_h, each.start_h) for each in engine[policy]] for policy in ENGINE}
    listed = ", ".join(f"{policy} {Spread.of(values):.3f}" for policy, values in orders.items())
    yield f"  order of starts: {listed}; nearest {max(orders, key=lambda policy: median(orders[policy]))}"
    closest, correlation = nearest(live.start_h, {policy: plain[policy].start_h for policy in ENGINE})
    listed = ", ".join(f"{policy} {value:.3f}" for policy, value in correlation.items())
    yield f"  order of starts, submissions in time: {listed}; nearest {closest}"
    waits = Spread.of([float((each.start_h - day.submit_h).mean()) for each in engine[run.policy]])
    wait_h = float((live.start_h - day.submit_h).mean())
    yield f"  mean wait {wait_h:.2f} h, engine {waits:.2f} h: {'inside' if wait_h in waits else 'outside'}"
    if own is None:
        return
    runs = [each for some in engine.values() for each in some]
    until_h = float(math.ceil(max(*run.end_h, *own.end_h, *(float(each.end_h.max()) for each in runs))))
    yield from _money(day, clock, until_h, live=(_live(own), live), engine=engine, plain=plain, policy=run.policy)


class Spread(NamedTuple):
    """The median and the range of the replays."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of some values."""
        return cls(median(values), min(values), max(values))

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float) and self.least <= value <= self.most

    def __format__(self, code: str) -> str:
        return f"{self.middle:{code}} ({self.least:{code}} to {self.most:{code}})"


def _live(run: LiveRun) -> Run:
    return Run(np.array(run.start_h), np.array(run.end_h), run.nodes, [(node, a, b) for node, a, b in run.asleep_h])


def _money(
    day: MixedDay,
    clock: Clock,
    until_h: float,
    *,
    live: tuple[Run, Run],
    engine: Mapping[str, Sequence[Run]],
    plain: Mapping[str, Run],
    policy: str,
) -> Iterator[str]:
    def both(own: Run, other: Run) -> tuple[Figures, Figures]:
        slept = with_tail(other, _asleep(other, until_h, clock)) if policy == SLEEPING else other
        return figures(day, own, until_h), figures(day, slept, until_h)

    own, this = both(*live)
    pairs = [both(*each) for each in zip(engine[OWN], engine[policy], strict=True)]
    kwh, eur = (Spread.of([getattr(other, name) for _, other in pairs]) for name in ("energy_kwh", "cost_eur"))
    yield f"  live {this.energy_kwh:.1f} kWh, {this.cost_eur:.2f} EUR; engine {kwh:.1f} kWh, {eur:.2f} EUR"
    if policy != OWN:
        saved = Spread.of([saving(*each) for each in pairs])
        in_time = saving(*both(plain[OWN], plain[policy]))
        live_saved = saving(own, this)
        yield f"  saving live {live_saved:.2%}, engine {saved:.2%}, with submissions in time {in_time:.2%}"
        yield f"  live over simulated {live_saved / saved.middle:.2f}, {live_saved / in_time:.2f}"
    if policy == SLEEPING:
        asleep = Spread.of([other.asleep_node_h for _, other in pairs])
        ratio = this.asleep_node_h / asleep.middle
        yield f"  node hours asleep live {this.asleep_node_h:.0f}, engine {asleep:.0f}: live over simulated {ratio:.2f}"
