"""Compares live runs of the mixed workload with the mixed engine under Slurm's measured timing."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.fidelity.compare import Figures, Run, figures, nearest, place_on_nodes, put_to_sleep, saving
from benchmarks.fidelity.live import OWN, SLEEP_AFTER_H, SLEEPING, LiveRun
from benchmarks.fidelity.replay import END_WINDOW_S, OWN_ORDER, Clock, Timing, engine_start_h
from benchmarks.fidelity.workload import MixedDay
from offpeak.model.arrays import Float64

REPLAYS, LATE_S = 100, 0.3
SHUTDOWN_S = 0.5
ENGINE = {OWN: OWN_ORDER, "greedy": "conservative+greedy", "knapsack": "conservative+knapsack"}


def replayed(day: MixedDay, clock: Clock, policy: str, timing: Timing) -> Run:
    """Return the engine's replay of a policy with Slurm's timing."""
    start_h = engine_start_h(day, clock, ENGINE.get(policy, OWN_ORDER), timing)
    end_h = start_h + day.run_h
    return Run(start_h, end_h, place_on_nodes(day, start_h, end_h))


def waits_of_replays_h(day: MixedDay, clock: Clock, policy: str, timing: Timing) -> list[float]:
    """Return the mean waits of REPLAYS replays in which each job is submitted up to LATE_S later, sorted [h]."""
    random = np.random.default_rng(1)
    name = ENGINE.get(policy, OWN_ORDER)
    starts = (engine_start_h(day, clock, name, timing, _late_s(day, random)) for _ in range(REPLAYS))
    return sorted(float((start_h - day.submit_h).mean()) for start_h in starts)


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
    timing = timing_of(run)
    policies = dict.fromkeys((run.policy, *ENGINE))
    engine = {policy: replayed(day, clock, policy, timing) for policy in policies}
    live = _live(run)
    shown = run.timing
    yield f"{run.policy}, an hour in {run.hour_s:g} s, load average {run.load[1]:.1f}"
    yield (
        f"  backfill every {shown.backfill_interval_s:.2f} s (at most {shown.longest_interval_s:.1f}), "
        f"{shown.starts_by_backfill:.0%} of the starts; release {shown.release_s:.2f} s, "
        f"launch {shown.launch_s:.2f} s; orders every {run.cycle_s:.2f} s"
    )
    closest, correlation = nearest(
        live.start_h, {policy: each.start_h for policy, each in engine.items() if policy in ENGINE}
    )
    listed = ", ".join(f"{policy} {value:.3f}" for policy, value in correlation.items())
    yield f"  order of starts: {listed}; nearest {closest}"
    waits_h = waits_of_replays_h(day, clock, run.policy, timing)
    least, middle, most = waits_h[0], waits_h[REPLAYS // 2], waits_h[-1]
    wait_h = float((live.start_h - day.submit_h).mean())
    verdict = "inside" if least <= wait_h <= most else "outside"
    yield f"  mean wait {wait_h:.2f} h, engine {middle:.2f} h ({least:.2f} to {most:.2f}): {verdict}"
    if own is None:
        return
    until_h = float(math.ceil(max(*run.end_h, *own.end_h, *(each.end_h.max() for each in engine.values()))))
    yield from _money(day, clock, until_h, live=(_live(own), live), engine=engine, policy=run.policy)


def _live(run: LiveRun) -> Run:
    return Run(np.array(run.start_h), np.array(run.end_h), run.nodes, [(node, a, b) for node, a, b in run.asleep_h])


def _money(
    day: MixedDay, clock: Clock, until_h: float, *, live: tuple[Run, Run], engine: Mapping[str, Run], policy: str
) -> Iterator[str]:
    simulated = engine[policy]
    if policy == SLEEPING:
        asleep = put_to_sleep(simulated, until_h, after_h=SLEEP_AFTER_H, shutdown_h=SHUTDOWN_S / clock.hour_s)
        simulated = Run(simulated.start_h, simulated.end_h, simulated.nodes, asleep)
    pairs = {"live": live, "engine": (engine[OWN], simulated)}
    found: dict[str, tuple[Figures, Figures]] = {}
    for side, (base, run) in pairs.items():
        found[side] = figures(day, base, until_h), figures(day, run, until_h)
        own, this = found[side]
        yield (
            f"  {side}: {this.energy_kwh:.1f} kWh, {this.cost_eur:.3f} EUR, saving {saving(own, this):.2%}, "
            f"{this.asleep_node_h:.1f} node hours asleep"
        )
    if policy != OWN:
        ratio = saving(*found["live"]) / saving(*found["engine"])
        yield f"  saving live over simulated {ratio:.2f}"
    if policy == SLEEPING:
        ratio = found["live"][1].asleep_node_h / found["engine"][1].asleep_node_h
        yield f"  node hours asleep live over simulated {ratio:.2f}"
