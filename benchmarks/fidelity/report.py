"""Compares live runs of the mixed workload with the mixed engine under Slurm's measured timing."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.compare import Figures, figures, nearest, saving, spearman
from benchmarks.fidelity.live import LIMITED, OLS_PERIOD_H, OWN, SLEEP_AFTER_H, SLEEPING, LiveRun
from benchmarks.fidelity.replay import (
    BF_RESOLUTION_S,
    END_WINDOW_S,
    OWN_ORDER,
    Asleep,
    Clock,
    Run,
    Sleep,
    Timing,
    engine_run,
)
from benchmarks.fidelity.workload import GROUPS, MixedDay, NodeGroup
from offpeak.model.arrays import Float64
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay

REPLAYS, LATE_S = 100, 0.3
DRAWS = 2000
SLEEP = Sleep(SLEEP_AFTER_H)
SLEEPS = {SLEEPING: SLEEP, LIMITED: Sleep(OLS_PERIOD_H, limited=True)}
ENGINE = {OWN: OWN_ORDER, "greedy": "conservative+greedy", "knapsack": "conservative+knapsack"}
GROUP_OF_NODE = dict(enumerate((group for group in GROUPS for _ in range(group.nodes)), start=1))


def replayed(day: MixedDay, clock: Clock, policy: str, timing: Timing, late_s: Float64 | None = None) -> Run:
    """Return the engine's replay of a policy with Slurm's timing."""
    return engine_run(day, clock, ENGINE.get(policy, OWN_ORDER), timing, late_s=late_s, sleep=SLEEPS.get(policy))


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
        bf_resolution_s=BF_RESOLUTION_S,
    )


def live_to_run(day: MixedDay, run: LiveRun) -> Run:
    """Return a live run as the arithmetic takes it.

    After its last job a run was not watched any more: a node that sleeps by the same rule then stays off.
    """
    replaced_w = np.array([_replaced_w(day, job, nodes) for job, nodes in enumerate(run.nodes)])
    off = []
    if run.policy == SLEEPING:
        last_h = max(run.end_h)
        off = [Asleep(_group(node).idle_w, from_h, on_h) for node, from_h, on_h in run.asleep_h if on_h < last_h]
        for number, group in GROUP_OF_NODE.items():
            node = f"node{number}"
            used_h = max((end_h for end_h, on in zip(run.end_h, run.nodes, strict=True) if node in on), default=0.0)
            off.append(Asleep(group.idle_w, used_h + SLEEP.after_h + SLEEP.shutdown_s / run.hour_s, math.inf))
    return Run(np.array(run.start_h), np.array(run.end_h), replaced_w, off)


def _group(node: str) -> NodeGroup:
    return GROUP_OF_NODE[int(node.removeprefix("node"))]


def _replaced_w(day: MixedDay, job: int, nodes: Sequence[str]) -> float:
    """Return the idle power of the job's part of its nodes."""
    request, groups = day.request_of(job), [_group(node) for node in nodes]
    return sum(
        group.idle_w * (1.0 if request.whole_nodes else group.node_type.share(request.chunks[0])) for group in groups
    )


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


class Replayed(NamedTuple):
    """A live run, and the replays of the engine with the timing of this run, by policy."""

    run: LiveRun
    engine: Mapping[str, Sequence[Run]]


def report_lines(day: MixedDay, runs: Sequence[LiveRun]) -> Iterator[str]:
    """Yield the comparison of each run, then the savings of each policy against the runs of the own order.

    Runs of different clocks are compared apart; there may be several runs of a policy.
    """
    for hour_s in dict.fromkeys(run.hour_s for run in runs):
        compared = []
        for run in (each for each in runs if each.hour_s == hour_s):
            timing, policies = timing_of(run), dict.fromkeys((*ENGINE, run.policy))
            engine = {policy: replays(day, Clock(hour_s), policy, timing) for policy in policies}
            compared.append(Replayed(run, engine))
            yield from _order_lines(day, compared[-1])
        own = [each.run for each in compared if each.run.policy == OWN]
        replayed = [one for each in compared for some in each.engine.values() for one in some]
        ends_h = [max(each.run.end_h) for each in compared] + [float(one.end_h.max()) for one in replayed]
        for policy in dict.fromkeys(each.run.policy for each in compared if own):
            of_policy = [each for each in compared if each.run.policy == policy]
            yield from _money_lines(day, own, of_policy, float(math.ceil(max(ends_h))))


def _order_lines(day: MixedDay, compared: Replayed) -> Iterator[str]:
    run, engine = compared
    timing, shown = timing_of(run), run.timing
    start_h = np.array(run.start_h)
    yield f"{run.policy}, an hour in {run.hour_s:g} s, load average {run.load[1]:.1f}"
    yield (
        f"  backfill every {shown.backfill_interval_s:.2f} s (at most {shown.longest_interval_s:.1f}), "
        f"{shown.starts_by_backfill:.0%} of the starts; release {shown.release_s:.2f} s, "
        f"launch {shown.launch_s:.2f} s; orders every {run.cycle_s:.2f} s"
    )
    orders = {policy: [spearman(start_h, each.start_h) for each in engine[policy]] for policy in ENGINE}
    listed = ", ".join(f"{policy} {Spread.of(values):.3f}" for policy, values in orders.items())
    yield f"  order of starts: {listed}; nearest {max(orders, key=lambda policy: median(orders[policy]))}"
    plain = {policy: replayed(day, Clock(run.hour_s), policy, timing).start_h for policy in ENGINE}
    closest, correlation = nearest(start_h, plain)
    listed = ", ".join(f"{policy} {value:.3f}" for policy, value in correlation.items())
    yield f"  order of starts, submissions in time: {listed}; nearest {closest}"
    waits = Spread.of([float((each.start_h - day.submit_h).mean()) for each in engine[run.policy]])
    wait_h = float((start_h - day.submit_h).mean())
    yield f"  mean wait {wait_h:.2f} h, engine {waits:.2f} h: {'inside' if wait_h in waits else 'outside'}"


def _money_lines(day: MixedDay, own: Sequence[LiveRun], compared: Sequence[Replayed], until_h: float) -> Iterator[str]:
    """Yield the cost of a policy's runs and of their replays, and what they save."""
    policy = compared[0].run.policy

    def priced(runs: Sequence[Run]) -> list[Figures]:
        return [figures(day, run, until_h) for run in runs]

    live_own = priced([live_to_run(day, run) for run in own])
    live = priced([live_to_run(day, each.run) for each in compared])
    engine = [each for some in compared for each in priced(some.engine[policy])]
    yield f"{policy}, {len(live)} runs against {len(own)} of the own order, until hour {until_h:g}"
    costs, engine_costs = (Spread.of([each.cost_eur for each in some]) for some in (live, engine))
    yield f"  cost live {costs:.2f} EUR, engine {engine_costs:.2f} EUR"
    if policy == OWN:
        return
    engine_own = [each for some in compared for each in priced(some.engine[OWN])]
    saved = Spread.of([saving(one, other) for one in live_own for other in live])
    engine_saved = Spread.of([saving(*each) for each in zip(engine_own, engine, strict=True)])
    of_means = 1.0 - _mean_eur(live) / _mean_eur(live_own)
    chance = chance_of_ratio(engine_own, engine, (len(live_own), len(live)), engine_saved.middle)
    yield f"  saving live {of_means:.2%} by the means, pairs of runs {saved:.2%}; engine {engine_saved:.2%}"
    yield (
        f"  live over simulated {of_means / engine_saved.middle:.2f}; "
        f"so many runs of the engine: {chance[0]:.2f} to {chance[1]:.2f} (5 to 95 %)"
    )
    if policy == SLEEPING:
        for name, unit in (("asleep_node_h", "node hours asleep"), ("off_eur", "EUR spared by nodes that are off")):
            found, in_engine = (Spread.of([getattr(each, name) for each in some]) for some in (live, engine))
            ratio = found.middle / in_engine.middle
            yield f"  {unit}: live {found:.2f}, engine {in_engine:.2f}: live over simulated {ratio:.2f}"


def limited_lines(day: MixedDay, runs: Sequence[LiveRun]) -> Iterator[str]:
    """Yield node hours asleep until the last submission, and the slowdowns, of runs with limited capacity."""
    until_h = float(day.submit_h[-1])
    for run in runs:
        clock = Clock(run.hour_s)
        engine = replays(day, clock, LIMITED, timing_of(run))
        off = [Asleep(_group(node).idle_w, from_h, on_h) for node, from_h, on_h in run.asleep_h]
        live = Run(np.array(run.start_h), np.array(run.end_h), np.zeros(len(day)), off)
        yield f"limited capacity, an hour in {run.hour_s:g} s, load average {run.load[1]:.1f}"
        asleep_h = [figures(day, each, until_h).asleep_node_h for each in (live, *engine)]
        mean_slowdown, worst = zip(*(_slowdowns(day, clock, each) for each in (live, *engine)), strict=True)
        rows = (("node hours asleep", asleep_h), ("mean slowdown", mean_slowdown), ("worst slowdown", worst))
        for name, (found, *simulated) in rows:
            middle = Spread.of(simulated)
            yield f"  {name}: live {found:.2f}, engine {middle:.2f}: live over simulated {found / middle.middle:.2f}"


def _slowdowns(day: MixedDay, clock: Clock, run: Run) -> tuple[float, float]:
    """Return the mean slowdown of the jobs and the worst."""
    wait, runtime = (np.maximum(clock.ticks(each), 0) for each in (run.start_h - day.submit_h, day.run_h))
    slowdown = bounded_slowdown_by_delay(wait, runtime)
    return float(slowdown.mean()), float(slowdown.max())


CLOCKS = Path(__file__).resolve().parents[2] / "docs" / "figures" / "fidelity" / "clocks.csv"
CAUSES = {
    "+ backfill cycles": "bf_interval_s",
    "+ launch": "launch_s",
    "+ release of the nodes": "completing_s",
    "+ search windows": "end_window_s",
    "+ steps of planned starts": "bf_resolution_s",
}
"""Why jobs wait longer under Slurm: the field of Timing by the column of the table."""
CLOCKS_HEAD = (
    "an hour in", "load average", "backfill every", "launch", "release", "Slurm", "engine without timing", *CAUSES,
)  # fmt: skip


def write_clocks(day: MixedDay, runs: Sequence[LiveRun], path: Path = CLOCKS) -> None:
    """Write the mean wait of each run of the own order, and of its replays as one cause after the other is added."""
    if others := {run.policy for run in runs} - {OWN}:
        raise SystemExit(f"clocks: compares runs of {OWN}, not of {', '.join(sorted(others))}")
    rows = [_clocks_row(day, run) for run in runs]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([CLOCKS_HEAD, *rows])


def _clocks_row(day: MixedDay, run: LiveRun) -> tuple[str, ...]:
    shown = timing_of(run)
    # The timing of the replays is as the row says.
    timing = replace(
        shown,
        bf_interval_s=round(shown.bf_interval_s, 2),
        launch_s=round(shown.launch_s, 2),
        completing_s=round(shown.completing_s, 2),
    )
    seconds = (f"{each:.2f} s" for each in (timing.bf_interval_s, timing.launch_s, timing.completing_s))
    wait_h = float((np.array(run.start_h) - day.submit_h).mean())
    waits_h = (wait_h, *waits_by_cause(day, Clock(run.hour_s), timing))
    return f"{run.hour_s:g} s", f"{run.load[1]:.1f}", *seconds, *(f"{each:.2f} h" for each in waits_h)


def waits_by_cause(day: MixedDay, clock: Clock, timing: Timing) -> Iterator[float]:
    """Yield the median mean wait [h] of replays of the own order without timing, then with one cause more each."""
    known = Timing()
    yield median_wait_h(day, clock, known)
    for cause in CAUSES.values():
        known = replace(known, **{cause: getattr(timing, cause)})
        yield median_wait_h(day, clock, known)


def median_wait_h(day: MixedDay, clock: Clock, timing: Timing) -> float:
    """Return the median of the mean waits [h] of replays of the own order."""
    return median(float((each.start_h - day.submit_h).mean()) for each in replays(day, clock, OWN, timing))


def _mean_eur(some: Sequence[Figures]) -> float:
    return mean(each.cost_eur for each in some)


def chance_of_ratio(
    own: Sequence[Figures], other: Sequence[Figures], runs: tuple[int, int], simulated: float
) -> tuple[float, float]:
    """Return between which ratios to the simulated saving so many replays lie in place of the live runs, in 90 %."""
    random = np.random.default_rng(1)
    own_eur, other_eur = (
        random.choice([each.cost_eur for each in some], (DRAWS, count)).mean(axis=1)
        for some, count in zip((own, other), runs, strict=True)
    )
    low, high = np.percentile((1.0 - other_eur / own_eur) / simulated, (5, 95))
    return float(low), float(high)
