"""Runs the mixed workload on a real slurmctld, under the site's own order or with the agent."""

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fidelity.controller_log import (
    ControllerTiming,
    JobKey,
    ScriptRun,
    controller_timing,
    parse_controller_log,
)
from benchmarks.fidelity.replay import DAY_H, TICKS, Clock
from benchmarks.fidelity.workload import BATCH, GPU, GPU_MODEL, GROUPS, HIGH, NORMAL, WHOLE, MixedDay
from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.queue_cycle import queried_by_us
from offpeak.ledger.ledger import Ledger
from offpeak.model.step_series import Series
from offpeak.predictors.price_forecast import PriceCurve
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.site_context import make_site_context
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.engine.rules import PeakTimes

OWN, SLEEPING, LIMITED = "own", "sleeping", "limited"
QUEUE_POLICIES = ("greedy", "knapsack")
LOOK_S = 0.5
CYCLE_S = 1
"""The agent decides twice a second; this is how far it looks ahead, in whole seconds."""
SLEEP_AFTER_H = 1.0
OLS_PERIOD_H = 1.0
ON_PEAK_PRICE, OFF_PEAK_PRICE = 90.0, 30.0

SCRIPT = """\
#!/bin/bash
seconds=({seconds})
task=${{SLURM_ARRAY_TASK_ID:-0}}
job=$(({first} + task))
echo "$EPOCHREALTIME $job start $SLURM_JOB_NODELIST" >>"{trace}"
sleep "${{seconds[$task]}}"
echo "$EPOCHREALTIME $job end $SLURM_JOB_NODELIST" >>"{trace}"
"""
SCHEDULER = "batch_sched_delay=0,bf_interval=1,bf_resolution=1,bf_window=14400,bf_max_job_test=500"
SETTINGS = f"""\
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters={SCHEDULER}
PriorityWeightQOS=10000
DebugFlags=Backfill
MinJobAge=3600"""


@dataclass(frozen=True)
class LiveRun:
    """What happened [h of the log]: starts and ends by job, the nodes of each, and when nodes were off.

    `load` is the load average of the machine over the run; `cycle_s` is the mean interval of the agent's orders.
    """

    policy: str
    hour_s: float
    start_h: list[float]
    end_h: list[float]
    nodes: list[list[str]]
    asleep_h: list[tuple[str, float, float]]
    timing: ControllerTiming
    load: list[float]
    diagnostics: str
    cycle_s: float = 0.0

    def write(self, file: Path) -> None:
        """Write the run as JSON."""
        values = {**vars(self), "timing": vars(self.timing)}
        file.write_text(json.dumps(values))

    @classmethod
    def read(cls, file: Path) -> "LiveRun":
        """Return a run that `write` has written."""
        values = json.loads(file.read_text())
        return cls(**{**values, "timing": ControllerTiming(**values["timing"])})


def live_run(day: MixedDay, clock: Clock, policy: str) -> LiveRun:
    """Run the workload on a real Slurm until its last job has ended."""
    with powered_cluster(_plan()) as cluster, queried_by_us(cluster.environment):
        _set_qos(cluster)
        _set_weights(cluster)
        with ExitStack() as agents:
            if policy in (SLEEPING, LIMITED):
                agents.enter_context(_power_agent(cluster, clock, policy))
            begin_s, load, ordered_s = asyncio.run(_run(cluster, day, clock, policy))
        log = (cluster.folder / "slurmctld.log").read_text(errors="replace")
        diagnostics = cluster.run("sdiag")
        trace = _trace(cluster)
        off = _asleep_h(cluster, begin_s, clock)
    start_s, end_s = ({each.job: each.at_s for each in trace if each.what == what} for what in ("start", "end"))
    nodes = {each.job: each.nodes for each in trace}
    jobs = range(len(day))
    return LiveRun(
        policy=policy,
        hour_s=clock.hour_s,
        start_h=[(start_s[job] - begin_s) / clock.hour_s for job in jobs],
        end_h=[(end_s[job] - begin_s) / clock.hour_s for job in jobs],
        nodes=[nodes[job] for job in jobs],
        asleep_h=off,
        timing=controller_timing(
            parse_controller_log(log),
            {key: ScriptRun(start_s[job], end_s[job], nodes[job]) for job, key in enumerate(job_keys(day))},
        ),
        load=load,
        diagnostics=diagnostics,
        cycle_s=float(np.diff(ordered_s).mean()) if len(ordered_s) > 1 else 0.0,
    )


def job_keys(day: MixedDay) -> list[JobKey]:
    """Return the key of each job: an array is one submission."""
    keys: list[JobKey] = []
    submissions = 0
    for job, array in enumerate(day.array):
        if job and array >= 0 and array == day.array[job - 1]:
            keys.append((keys[-1][0], keys[-1][1] + 1))
        else:
            keys.append((submissions, 0))
            submissions += 1
    return keys


def _plan() -> PoweredPlan:
    """Return the cluster as slurm.conf describes it."""
    ranges: dict[str, list[str]] = {}
    first = 1
    for group in GROUPS:
        for partition in group.partitions:
            ranges.setdefault(partition, []).append(f"node[{first}-{first + group.nodes - 1}]")
        first += group.nodes
    share = {BATCH: "NO", WHOLE: "EXCLUSIVE", GPU: "NO"}
    partitions = [
        f"PartitionName={name} Nodes={','.join(ranges[name])} MaxTime=INFINITE State=UP OverSubscribe={share[name]}"
        for name in share
    ]
    return PoweredPlan(
        nodes=first - 1,
        node_types=tuple(group.node_type for group in GROUPS for _ in range(group.nodes)),
        partitions="\n".join(partitions),
        settings=SETTINGS,
        priority="multifactor",
        accounting=True,
    )


def _set_qos(cluster: PoweredCluster) -> None:
    cluster.run("sacctmgr", "--immediate", "modify", "qos", NORMAL, "set", "priority=50")
    cluster.run("sacctmgr", "--immediate", "add", "qos", HIGH, "priority=100")
    shown = cluster.run("scontrol", "show", "assoc_mgr", "flags=qos")
    cluster.wait(lambda: HIGH in cluster.run("scontrol", "show", "assoc_mgr", "flags=qos"), what=f"the QOS: {shown}")


def _set_weights(cluster: PoweredCluster) -> None:
    """Let jobs fill the nodes of the first groups first."""
    first = 1
    for weight, group in enumerate(GROUPS, 1):
        nodes = f"node[{first}-{first + group.nodes - 1}]"
        cluster.run("scontrol", "update", f"NodeName={nodes}", f"Weight={weight}")
        first += group.nodes


@contextmanager
def _power_agent(cluster: PoweredCluster, clock: Clock, policy: str) -> Iterator[None]:
    """Let nodes sleep after a time-out, or by the OLS policy with limited capacity."""
    power: dict[str, str | bool] = {"capacity": f"timeout:{round(SLEEP_AFTER_H * clock.hour_s)}s"}
    if policy == LIMITED:
        power = {"capacity": f"ols:{round(OLS_PERIOD_H * clock.hour_s)}s", "limit_capacity": True}
    with agent(cluster, write_site(cluster, {"agent": power | {"queue": "off"}})):
        yield


async def _run(
    cluster: PoweredCluster, day: MixedDay, clock: Clock, policy: str
) -> tuple[float, list[float], list[float]]:
    """Submit all jobs in time and wait for their ends; return when the first came, load averages, and orders [s]."""
    begin_s = time.time()
    ordered_s: list[float] = []
    ordering = None
    if policy in QUEUE_POLICIES:
        ordering = asyncio.create_task(
            order_queue(_settings(cluster.folder, day, clock, policy), price_curve(clock.peaks(), begin_s), ordered_s)
        )
    load = []
    first = 0
    while first < len(day):
        count = int((day.array == day.array[first]).sum()) if day.array[first] >= 0 else 1
        await asyncio.sleep(max(0.0, begin_s + day.submit_h[first] * clock.hour_s - time.time()))
        await asyncio.to_thread(_submit, cluster, day, clock, first, count)
        load.append(os.getloadavg()[0])
        first += count
        if ordering and ordering.done():
            ordering.result()
    while len({each.job for each in _trace(cluster) if each.what == "end"}) < len(day):
        await asyncio.sleep(LOOK_S)
    if ordering:
        # It closes the agent and its ledger.
        ordering.cancel()
        with suppress(asyncio.CancelledError):
            await ordering
    return begin_s, [min(load), sum(load) / len(load), max(load)], ordered_s


def _submit(cluster: PoweredCluster, day: MixedDay, clock: Clock, first: int, count: int) -> None:
    seconds = " ".join(f"{each:.2f}" for each in day.run_h[first : first + count] * clock.hour_s)
    script = SCRIPT.format(seconds=seconds, first=first, trace=cluster.folder / "fidelity.log")
    request = day.request_of(first)
    (chunk,) = request.chunks
    limit_min = int(clock.limit_min(day)[first])
    options = [f"--partition={request.partitions[0]}", f"--qos={request.qos}", f"--nodes={chunk.copies}"]
    options += [f"--time={limit_min}", f"--job-name=w{day.part_w[first]:.0f}x", "--output=/dev/null"]
    options += ["--ntasks-per-node=1", f"--cpus-per-task={chunk.cores}", f"--mem={chunk.memory_mib or 1000}"]
    if chunk.gpus:
        options.append(f"--gres=gpu:{GPU_MODEL}:{chunk.gpus}")
    if day.array[first] >= 0:
        throttle = f"%{day.throttle[first]}" if day.throttle[first] else ""
        options.append(f"--array=0-{count - 1}{throttle}")
    cluster.run("sbatch", "--parsable", *options, stdin=script)


@dataclass(frozen=True)
class TraceLine:
    """What a job has written."""

    at_s: float
    job: int
    what: str
    nodes: list[str]


_RANGE = re.compile(r"node(?:\[([\d,-]+)\]|(\d+))")


def _trace(cluster: PoweredCluster) -> list[TraceLine]:
    file = cluster.folder / "fidelity.log"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [TraceLine(float(at), int(job), what, _nodes(nodes)) for at, job, what, nodes in lines]


def _nodes(expression: str) -> list[str]:
    """Return the names of a node list such as node[1-3,5]."""
    found: list[str] = []
    for several, one in _RANGE.findall(expression):
        for term in (several or one).split(","):
            first, _, last = term.partition("-")
            found += [f"node{number}" for number in range(int(first), int(last or first) + 1)]
    return found


def _asleep_h(cluster: PoweredCluster, begin_s: float, clock: Clock) -> list[tuple[str, float, float]]:
    """Return when nodes were off."""
    found = []
    for node in cluster.nodes:
        off_s = None
        for event in cluster.log.events(node=node):
            if event.what == "off":
                off_s = event.at_s
            elif event.what == "booting" and off_s is not None:
                found.append((node, off_s, event.at_s))
                off_s = None
        if off_s is not None:
            found.append((node, off_s, time.time()))
    return [(node, (off - begin_s) / clock.hour_s, (on - begin_s) / clock.hour_s) for node, off, on in found]


async def order_queue(settings: Settings, prices: PriceCurve, ordered_s: list[float]) -> None:
    """Let the agent put the queue in order for as long as it is not cancelled; note when it begins to do so."""
    parts = make_site_context(settings)
    ledger = Ledger(parts.settings.ledger)
    ledger.ready()
    orders = SiteAgent(parts, ledger, ProblemLog())
    orders.prices.curve = prices
    try:
        while True:
            ordered_s.append(time.time())
            await orders.queue_loop.round()
            await asyncio.sleep(LOOK_S)
    finally:
        await orders.close()


def price_curve(peaks: PeakTimes, begin_s: float) -> PriceCurve:
    """Return the tariff in the time of the run."""
    # The agent reads whole seconds.
    start_s = np.round(begin_s + peaks.at_s / TICKS).astype(np.int64)
    price = np.where(peaks.peak == 1, ON_PEAK_PRICE, OFF_PEAK_PRICE)
    series = Series(start_s, int(start_s[-1]) + 3600, price, "EUR/MWh", "tariff")
    return PriceCurve(series, peaks.peak, ("tariff",) * len(price))


def _settings(folder: Path, day: MixedDay, clock: Clock, policy: str) -> Settings:
    state = folder / "ordering"
    state.mkdir()
    return Settings(
        scheduling=SchedulingSettings(max_postponement_s=round(DAY_H * clock.hour_s)),
        power=PowerSettings(classes=tuple(f"w{each:.0f}x={each:.0f}W" for each in np.unique(day.part_w))),
        ledger=LedgerSettings(url=f"sqlite:///{folder / 'ordering.sqlite'}"),
        agent=AgentSettings(
            mode="active", queue=policy, cycle_s=CYCLE_S, state_folder=state, socket=folder / "ordering.sock"
        ),
    )
