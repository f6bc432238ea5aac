"""Does the agent on a real Slurm sleep and wake as the engine under a plan of the queue? The same 200 jobs under both.

An hour of the sample lasts six seconds. The engine is told what Slurm takes between two jobs and from the order that
wakes a node to the job on it, both as medians of the run.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

from benchmarks.fidelity.homogeneous import NODES, SLURM, Day, scaled_day
from benchmarks.fidelity.live import LOOK_S
from benchmarks.fidelity.replay import TICKS
from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.node import BOOT_W, BUSY_W, IDLE_W, OFF_W
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.arrays import Float64
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import OFF, asleep, coming_up
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy

JOBS, HOUR_S = 200, 6.0
BOOT_S, SHUTDOWN_S, IDLE_S = 10, 3, 20
LATE_S, REPLAYS = 0.5, 20


@dataclass(frozen=True)
class PlannedRun:
    """Of a run until the last job's end: the mean wait [s], node seconds off and coming up, energy [J], and boots.

    `unused` boots had no job before the node was off again.
    """

    mean_wait_s: float
    off_s: float
    boot_s: float
    energy_j: float
    boots: int
    unused: int


def run_of(
    day: Day, start_s: Float64, changes: Mapping[int, Sequence[tuple[float, str]]], used: Sequence[set[int]]
) -> PlannedRun:
    """Return the figures of a run; `changes` are the "off", "booting" and "up" of a node, `used` the nodes of a job."""
    runtime_s = day.jobs.runtime_s / TICKS
    until_s = float((start_s + runtime_s).max())
    in_state = {"off": 0.0, "booting": 0.0, "up": 0.0}
    boots = unused = 0
    for node in range(NODES):
        entries = [(0.0, "up"), *[each for each in changes.get(node, ()) if each[0] < until_s], (until_s, "end")]
        for (from_s, state), (to_s, after) in pairwise(entries):
            in_state[state] += to_s - from_s
            boots += state == "booting"
            if state == "up" and from_s > 0 and after == "off":
                unused += not any(node in nodes and from_s - 1 <= start_s[job] < to_s for job, nodes in enumerate(used))
    busy_s = float((runtime_s * day.jobs.size).sum())
    energy_j = in_state["off"] * OFF_W + in_state["booting"] * BOOT_W + in_state["up"] * IDLE_W
    energy_j += busy_s * (BUSY_W - IDLE_W)
    wait_s = float((start_s - day.jobs.submit_s / TICKS).mean())
    return PlannedRun(wait_s, in_state["off"], in_state["booting"], energy_j, boots, unused)


def under_slurm(day: Day, policy: str) -> tuple[PlannedRun, float, float]:
    """Return the run under Slurm, what Slurm takes between two jobs, and from a node's order to its job's start [s].

    Raises RuntimeError if a job did not end by itself, or power was taken from one.
    """
    settings = SLURM.replace("PartitionName=batch Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE", "")
    plan = PoweredPlan(nodes=NODES, boot_s=BOOT_S, shutdown_s=SHUTDOWN_S, settings=settings, resume_timeout_s=120)
    with powered_cluster(plan) as cluster:
        site = write_site(cluster, {"agent": {"capacity": policy, "limit_capacity": True, "queue": "off"}})
        with agent(cluster, site):
            begin_s, numbers = asyncio.run(_submit_all(cluster, day))
            names = dict(zip(numbers, range(len(numbers)), strict=True))
            entries = [entry for entry in cluster.jobs.trace() if entry.job in names]
            hosts = {names[job]: _hosts(nodes) for job, nodes in cluster.jobs.ask("%N") if job in names}
            events = cluster.log.events()
            states = Counter(cluster.jobs.states()[job] for job in numbers)
            if cluster.log.violations or states != {"COMPLETED": len(numbers)}:
                raise RuntimeError(f"jobs: {dict(states)}; power taken from jobs: {cluster.log.violations}")
    start_s = np.full(len(day.jobs), np.nan)
    for entry in entries:
        if entry.what == "start":
            start_s[names[entry.job]] = entry.at_s - begin_s
    changes: dict[int, list[tuple[float, str]]] = {}
    for event in events:
        if event.what in ("off", "booting", "up") and event.at_s > begin_s:
            changes.setdefault(int(event.node.removeprefix("node")) - 1, []).append((event.at_s - begin_s, event.what))
    used = [hosts[job] for job in range(len(day.jobs))]
    after_order_s = list[float]()
    for job, nodes in enumerate(used):
        for node in nodes:
            last = [at_s for at_s, what in changes.get(node, ()) if what == "booting" and at_s < start_s[job]]
            if last and last[-1] > day.jobs.submit_s[job] / TICKS and start_s[job] - last[-1] < 2 * BOOT_S + 10:
                after_order_s.append(start_s[job] - last[-1])
    end_s = start_s + day.jobs.runtime_s / TICKS
    follows = [
        gap
        for job, nodes in enumerate(used)
        for other in range(len(used))
        if nodes & used[other] and 0 < (gap := start_s[job] - end_s[other]) < 2
        and day.jobs.submit_s[job] / TICKS < end_s[other]
    ]  # fmt: skip
    return run_of(day, start_s, changes, used), median(follows or [0.5]), median(after_order_s or [float(BOOT_S)])


async def _submit_all(cluster: PoweredCluster, day: Day) -> tuple[float, list[str]]:
    begin_s, numbers = time.time(), list[str]()
    for at in range(len(day.jobs)):
        await asyncio.sleep(max(0.0, begin_s + day.jobs.submit_s[at] / TICKS - time.time()))
        fields = {"seconds": day.jobs.runtime_s[at] / TICKS, "nodes": int(day.jobs.size[at])}
        limit_min = int(day.jobs.estimate_s[at] // (60 * TICKS))
        numbers += await asyncio.to_thread(cluster.jobs.submit, limit_min=limit_min, **fields)
    while not set(numbers) <= {entry.job for entry in cluster.jobs.trace() if entry.what == "end"}:
        await asyncio.sleep(LOOK_S)
    return begin_s, numbers


def _hosts(nodes: str) -> set[int]:
    """Return the numbers of nodes, from 0, of a list such as node[1-3,5]."""
    found: set[int] = set()
    for part in nodes.removeprefix("node").strip("[]").split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first) - 1, int(last or first)))
    return found


def in_the_engine(day: Day, policy: str, between_s: float, wake_s: float, late_s: Float64) -> PlannedRun:
    """Return the same jobs in the engine, each submitted so much later."""
    enter, leave = Transition(SHUTDOWN_S * TICKS, IDLE_W, 0.0), Transition(round(wake_s * TICKS), BOOT_W, 0.0)
    busy = ((0.0, IDLE_W), (1.0, BUSY_W))
    node_class = NodeClass("", IDLE_W, busy, (DepthPower(OFF, OFF_W, enter, leave),))
    name, _, idle = policy.partition(":")
    ticks = f"{name}:{round(float(idle.removesuffix('s')) * TICKS)}s"
    capacity = make_capacity_policy(ticks, Fleet(NODES, 1, node_class), CapacitySettings(depths=("off",)))
    submit_s = np.maximum.accumulate(day.jobs.submit_s + np.round(late_s * TICKS).astype(np.int64))
    jobs = replace(day.jobs, submit_s=submit_s, runtime_s=day.jobs.runtime_s + round(between_s * TICKS))
    machine = PoweredMachine(NODES, 1, node_class)
    schedule = replay_powered(jobs, day.node_w, machine, parse_policy("easy", SchedulingSettings()), capacity)
    words = {asleep(OFF): "off", coming_up(OFF): "booting", 0: "up"}
    changes: dict[int, list[tuple[float, str]]] = {}
    log = schedule.node_log
    assert log is not None
    for at_s, node, state in zip(log.at_s.tolist(), log.node.tolist(), log.state.tolist(), strict=True):
        if state in words:
            changes.setdefault(node, []).append((at_s / TICKS, words[state]))
    return run_of(day, schedule.start_s / TICKS, changes, [set() for _ in range(len(jobs))])


def lines(policy: str = f"planned:{IDLE_S}s") -> Iterator[str]:
    """Yield what Slurm and replays make of the jobs."""
    day, random = scaled_day(JOBS, HOUR_S), np.random.default_rng(1)
    live, between_s, wake_s = under_slurm(day, policy)
    yield f"{policy}: {between_s:.2f} s between jobs, {wake_s:.1f} s from the order to the job on a woken node"
    runs = [in_the_engine(day, policy, between_s, wake_s, random.random(JOBS) * LATE_S) for _ in range(REPLAYS)]
    for name in ("mean_wait_s", "off_s", "boot_s", "energy_j", "boots"):
        values = [getattr(run, name) for run in runs]
        mine = getattr(live, name)
        yield f"{name}: {mine:,.1f}; engine {median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"
    yield f"boots that no job used: {live.unused} of {live.boots}"
