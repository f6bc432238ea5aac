"""Does a real Slurm do what the engine says? The same 300 jobs, an hour in a second and a half, under both.

It is a benchmark and no study because it needs a real Slurm.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.compare import spearman
from benchmarks.fidelity.live import LOOK_S, order_queue, price_curve
from benchmarks.fidelity.replay import MINUTE_S, TICKS, Clock
from benchmarks.local_slurm.cluster import SlurmJobs
from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld, slurmd, wait_for_nodes
from benchmarks.queue_cycle import queried_by_us
from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.sample import NODES as LOGGED_NODES
from offpeak.sim_backend.sample import SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

JOBS, NODES, HOUR_S = 300, 16, 1.5
POLICIES = frozenset({"easy", "greedy"})
LEAST_S, CLASS_W = 0.1, 25
TRIES, REPLAYS = 12, 100
ENGINE_POLICIES, BETWEEN_S = ("easy", "conservative", "greedy"), (0.5, 0.6, 0.7, 1.0)
LATE_S = 0.3
SLURM = """\
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1,bf_window=14400
MinJobAge=3600
PartitionName=batch Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE"""


@dataclass(frozen=True)
class Day:
    """Jobs in hundredths of a second from the first submission on, their watts a node, and when the price turns."""

    jobs: Jobs
    node_w: Float64
    hour_s: float

    @property
    def peaks(self) -> PeakTimes:
        """Return the changes of the tariff."""
        return Clock(self.hour_s).peaks()

    def mean_wait_h(self, start_s: Float64) -> float:
        """Return the mean wait in hours of the log."""
        return float((start_s - self.jobs.submit_s / TICKS).mean()) / self.hour_s


class Alike(NamedTuple):
    """Spearman's correlations of two schedules: of the starts, and of the waits."""

    starts: float
    waits: float


@dataclass(frozen=True)
class Chance:
    """Of replays against the first one: the medians of both correlations; the mean waits' median and range [h]."""

    alike: Alike
    median_wait_h: float
    least_wait_h: float
    most_wait_h: float


@dataclass(frozen=True)
class Compared:
    """One policy under Slurm and in an engine that knows what Slurm takes between two jobs, `between_s`.

    Mean waits are hours of the log. `other` is Slurm against the engine's replay of the other policy, `chance` what
    replays make of it among themselves if submissions are some tenths of a second late, as they are in Slurm.
    """

    policy: str
    between_s: float
    slurm_wait_h: float
    engine_wait_h: float
    engine: Alike
    other: Alike
    chance: Chance


def scaled_day(count: int = JOBS, hour_s: float = HOUR_S) -> Day:
    """Return the first jobs of the bundled sample on a machine of 16 nodes; Slurm's limits are whole minutes."""
    logged = read_swf(SAMPLE_LOG).jobs
    logged = logged.take(np.arange(len(logged)) < count)
    ticks = hour_s / 3600 * TICKS
    limit_s = np.maximum(MINUTE_S, np.ceil(logged.estimate_s * hour_s / 3600 / MINUTE_S) * MINUTE_S)
    jobs = replace(
        logged,
        submit_s=((logged.submit_s - logged.submit_s[0]) * ticks).astype(np.int64),
        runtime_s=np.maximum(LEAST_S * TICKS, logged.runtime_s * ticks).astype(np.int64),
        estimate_s=(limit_s * TICKS).astype(np.int64),
        size=np.maximum(1, np.round(logged.size * NODES / LOGGED_NODES)).astype(np.int64),
    )
    return Day(jobs, np.round(logged.node_power_w / CLASS_W) * CLASS_W, hour_s)


def in_the_engine(day: Day, policy: str, between_s: float = 0.0) -> Float64:
    """Return when each job starts [s], if each keeps its nodes for so much longer than it runs."""
    scheduling = SchedulingSettings(max_postponement_s=10**9)
    named = parse_policy(policy, scheduling)
    jobs = replace(day.jobs, runtime_s=day.jobs.runtime_s + round(between_s * TICKS))
    schedule = replay(jobs, day.node_w, machine_size=NODES, policy=named, peaks=day.peaks)
    return schedule.start_s / TICKS


def under_slurm(day: Day, policy: str) -> tuple[Float64, float]:
    """Return when each job started by its own word [s], and what Slurm takes from a job's end to the next start [s]."""
    with _slurm() as cluster, queried_by_us(cluster.environment):
        between_s = _between_s(cluster)
        return asyncio.run(_run(cluster, day, policy)), between_s


def _between_s(cluster: SlurmCluster) -> float:
    """Return the median over jobs that each need all nodes and stand in the queue already."""
    jobs = SlurmJobs(cluster)
    jobs.submit(seconds=2.0, nodes=NODES)
    jobs.submit(seconds=0.5, nodes=NODES, count=TRIES)
    while sum(entry.what == "end" for entry in jobs.trace()) <= TRIES:
        time.sleep(LOOK_S)
    seen = sorted((entry.at_s, entry.what) for entry in jobs.trace())
    gaps = [after - before for (before, ended), (after, _) in pairwise(seen) if ended == "end"]
    return float(median(gaps))


@contextmanager
def _slurm() -> Iterator[SlurmCluster]:
    with TemporaryDirectory(prefix="offpeak-fidelity-", ignore_cleanup_errors=True) as name, ExitStack() as servers:
        folder = Path(name)
        socket = servers.enter_context(munge(folder))
        port, *ports = servers.enter_context(reserved_ports(1 + NODES))
        cluster = SlurmCluster(folder, socket, port, tuple(ports), SLURM)
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        for number in range(1, NODES + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield cluster


async def _run(cluster: SlurmCluster, day: Day, policy: str) -> Float64:
    jobs = SlurmJobs(cluster)
    begin_s = time.time()
    ordering = None
    if policy == "greedy":
        prices = price_curve(day.peaks, begin_s)
        ordering = asyncio.create_task(order_queue(_settings(cluster.folder, day.node_w), prices, []))
    numbers = [await _submitted(jobs, day, at, begin_s) for at in range(len(day.jobs))]
    while not set(numbers) <= {entry.job for entry in jobs.trace() if entry.what == "end"}:
        await asyncio.sleep(LOOK_S)
    if ordering:
        # It closes the agent and its ledger.
        ordering.cancel()
        with suppress(asyncio.CancelledError):
            await ordering
    started = {entry.job: entry.at_s - begin_s for entry in jobs.trace() if entry.what == "start"}
    return np.array([started[number] for number in numbers])


async def _submitted(jobs: SlurmJobs, day: Day, at: int, begin_s: float) -> str:
    await asyncio.sleep(max(0.0, begin_s + day.jobs.submit_s[at] / TICKS - time.time()))
    seconds, nodes = day.jobs.runtime_s[at] / TICKS, int(day.jobs.size[at])
    options = (f"--time={day.jobs.estimate_s[at] // (MINUTE_S * TICKS)}", f"--job-name=w{day.node_w[at]:.0f}x")
    (number,) = await asyncio.to_thread(jobs.submit, *options, seconds=seconds, nodes=nodes)
    return str(number)


def _settings(folder: Path, node_w: Float64) -> Settings:
    state = folder / "agent"
    state.mkdir()
    return Settings(
        power=PowerSettings(classes=tuple(f"w{each:.0f}x={each:.0f}W" for each in np.unique(node_w))),
        ledger=LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"),
        agent=AgentSettings(mode="active", state_folder=state, socket=folder / "agent.sock"),
    )


def compared(day: Day, policy: str) -> Compared:
    """Return what Slurm and the engine make of the jobs under that policy, easy or greedy."""
    slurm_s, between_s = under_slurm(day, policy)
    (other,) = POLICIES - {policy}
    engine_s, other_s = (in_the_engine(day, each, between_s) for each in (policy, other))
    return Compared(
        policy,
        between_s,
        day.mean_wait_h(slurm_s),
        day.mean_wait_h(engine_s),
        alike(day, slurm_s, engine_s),
        alike(day, slurm_s, other_s),
        chance_of(day, policy, between_s),
    )


def chance_of(day: Day, policy: str, between_s: float) -> Chance:
    """Return what becomes of the jobs in replays in which each is submitted up to LATE_S later."""
    random = np.random.default_rng(1)
    first_s = in_the_engine(day, policy, between_s)
    replays = []
    for _ in range(REPLAYS):
        late = np.sort(day.jobs.submit_s + random.integers(0, round(LATE_S * TICKS), len(day.jobs)))
        replays.append(in_the_engine(replace(day, jobs=replace(day.jobs, submit_s=late)), policy, between_s))
    likes = [alike(day, first_s, each) for each in replays]
    waits_h = [day.mean_wait_h(each) for each in replays]
    alike_most = Alike(*(median(each) for each in zip(*likes, strict=True)))
    return Chance(alike_most, median(waits_h), min(waits_h), max(waits_h))


def engine_lines(day: Day) -> Iterator[str]:
    """Yield the engine's mean waits if each job keeps its nodes for longer, under policies near to Slurm's."""
    for policy in ENGINE_POLICIES:
        for between_s in BETWEEN_S:
            chance = chance_of(day, policy, between_s)
            waits = f"{chance.median_wait_h:.1f} h ({chance.least_wait_h:.1f} to {chance.most_wait_h:.1f})"
            yield f"{policy}, {between_s:g} s: {waits}"


def alike(day: Day, one_s: Float64, other_s: Float64) -> Alike:
    """Return the similarity of the starts."""
    submit_s = day.jobs.submit_s / TICKS
    return Alike(spearman(one_s, other_s), spearman(one_s - submit_s, other_s - submit_s))


def main(policies: Sequence[str]) -> None:
    """Compare and print; "engine" replays in the engine alone, which needs no Slurm."""
    day = scaled_day()
    if list(policies) == ["engine"]:
        print("\n".join(engine_lines(day)))
        return
    for policy in policies:
        print(compared(day, policy), flush=True)
