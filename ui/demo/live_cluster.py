"""The demo's scheduler, and the outcome of the demo compared with the same jobs on the same cluster without offpeak.

Jobs come by the clock, nodes that are up register, and jobs have virtual nodes draw more.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, cast

from offpeak.display import duration_text, energy_text, money_text
from offpeak.model.cluster import Cluster
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.services.accounts.account_of_savings import SavingsAccount, saving_text
from offpeak.sim_backend.scheduler.cluster import SimJob, SimulatedCluster, nodes_of
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.ui.demo.site import BATCH, BEGIN_S, KINDS, DemoJob, price_at

UTILISATION = {kind.name: kind.utilisation for kind in KINDS}


def new_cluster(model: Cluster) -> SimulatedCluster:
    """Return a cluster whose nodes are up."""
    return SimulatedCluster(
        nodes_of(model, BEGIN_S), queues=tuple(model.partitions), partitions=model.partitions, wakes=True
    )


def submit(cluster: SimulatedCluster, job: DemoJob) -> None:
    """Give a job to the cluster."""
    cluster.submit(
        SimJob(
            number=job.number,
            name=job.kind.name,
            user=job.user,
            queue=job.kind.partition,
            chunks=(job.chunk,),
            run_s=job.run_s,
            submit_s=BEGIN_S + job.at_s,
            limit_s=job.limit_s,
            comment=job.comment,
            whole_nodes=job.kind.partition == BATCH,
            index=job.index,
            task_limit=job.task_limit,
        )
    )


def submit_until(cluster: SimulatedCluster, jobs: "deque[DemoJob]", now_s: float) -> None:
    """Give the cluster the jobs that come until now, and take them off the queue."""
    while jobs and BEGIN_S + jobs[0].at_s <= now_s:
        submit(cluster, jobs.popleft())


def node_shares(cluster: SimulatedCluster, job: SimJob) -> dict[str, float]:
    """Return the share of each of its nodes that a job has."""
    (chunk,) = job.chunks
    whole = cluster.takes_whole_nodes(job)
    return {name: 1.0 if whole else cluster.nodes[name].node_type.share(chunk) for name in job.placed}


def node_utilisation(cluster: SimulatedCluster) -> dict[str, float]:
    """Return the utilisation, 0..1, of the nodes on which jobs run."""
    used: dict[str, float] = defaultdict(float)
    for job in cluster.jobs.values():
        if job.state is JobState.RUNNING:
            for name, share in node_shares(cluster, job).items():
                used[name] += share * UTILISATION[job.name]
    return used


@dataclass
class OneAtATime:
    """A offpeak.plugin.scheduler.port.Scheduler for several threads: each call waits for its turn."""

    scheduler: Scheduler
    turn: threading.RLock

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.scheduler, name)

        def call(*arguments: Any, **named: Any) -> Any:
            with self.turn:
                return method(*arguments, **named)

        return call


@dataclass
class LiveCluster:
    """The cluster of the demo and its `scheduler`. `energy_j` is its nodes' energy, `cost` its cost [EUR]."""

    room: MachineRoom
    model: Cluster
    jobs: "deque[DemoJob]"
    clock: Callable[[], float]
    energy_j: float = 0.0
    cost: float = 0.0
    _counted_j: float | None = None
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.cluster = new_cluster(self.model)
        simulated = SimulatedScheduler(self.cluster, clock=self.clock)
        self.scheduler = cast(Scheduler, OneAtATime(simulated, self._turn))

    def follow(self) -> None:
        """Advance the cluster to now: new jobs, registered nodes, and their power."""
        with self._turn:
            now_s = self.clock()
            submit_until(self.cluster, self.jobs, now_s)
            counted_j = sum(node.energy_j for node in self.room.nodes.values())
            # The room has run since it was opened, the day begins with the first look.
            new_j = 0.0 if self._counted_j is None else counted_j - self._counted_j
            self._counted_j = counted_j
            self.energy_j += new_j
            self.cost += new_j / J_PER_MWH * price_at(now_s)
            for name, node in self.room.nodes.items():
                up = node.now().state == ACTIVE
                if up != self.cluster.nodes[name].alive:
                    (self.cluster.comes_up if up else self.cluster.goes_down)(name, now_s)
            self.cluster.step(now_s)
            self._use()

    def _use(self) -> None:
        used = node_utilisation(self.cluster)
        for name, node in self.room.nodes.items():
            if node.now().state == ACTIVE:
                node.use(used.get(name, 0.0))
                self.cluster.nodes[name].speed = node.now().speed


STEP_S = 30


@dataclass(frozen=True)
class DemoOutcome:
    """Energy [J] and its cost [EUR]; jobs that were started and lost, their mean wait [s], and node-seconds of work.

    `prompt_wait_s` is the mean wait of the jobs that must not be delayed.
    """

    energy_j: float
    cost: float
    started: int
    lost: int
    wait_s: float
    prompt_wait_s: float
    work_s: float


def outcome_of(cluster: SimulatedCluster, now_s: float, *, energy_j: float, cost: float) -> DemoOutcome:
    """Return the outcome of a cluster until now; later events are ignored."""
    begun = [job for job in cluster.jobs.values() if job.start_s is not None and job.start_s <= now_s]
    waits_s, prompt_s = (
        fmean([(job.start_s or 0.0) - job.submit_s for job in jobs] or [0.0])
        for jobs in (begun, [job for job in begun if not job.comment])
    )
    work_s = sum(
        (min(job.end_s or now_s, now_s) - (job.start_s or 0.0)) * sum(node_shares(cluster, job).values())
        for job in begun
    )
    lost = sum(job.lost for job in begun)
    return DemoOutcome(energy_j, cost, len(begun), lost, waits_s, prompt_s, work_s)


def without_offpeak(jobs: Iterable[DemoJob], model: Cluster, node_class: NodeClass, length_s: float) -> DemoOutcome:
    """Return the outcome of the same jobs in order of submission, with all nodes always on."""
    cluster, to_come = new_cluster(model), deque(jobs)
    energy_j = cost = 0.0
    for at_s in range(BEGIN_S, BEGIN_S + int(length_s), STEP_S):
        submit_until(cluster, to_come, at_s)
        cluster.step(at_s)
        used = node_utilisation(cluster)
        busy_w = sum(node_class.running_w(utilisation) for utilisation in used.values())
        step_j = STEP_S * (busy_w + (len(cluster.nodes) - len(used)) * node_class.idle_w)
        energy_j, cost = energy_j + step_j, cost + step_j / J_PER_MWH * price_at(at_s)
    return outcome_of(cluster, BEGIN_S + length_s, energy_j=energy_j, cost=cost)


def summary(with_: DemoOutcome, without: DemoOutcome, saved: SavingsAccount, *, factor: float) -> str:
    """Return what was used and saved, and the jobs beside the same jobs without offpeak."""
    works = [f"{outcome.work_s / HOUR_S:,.0f} node-hours" for outcome in (with_, without)]
    rows = [
        ("", "with offpeak", "without"),
        ("jobs started", f"{with_.started}", f"{without.started}"),
        ("work done", *works),
        ("mean wait", *(duration_text(outcome.wait_s) for outcome in (with_, without))),
        ("- of jobs that must not be delayed", *(duration_text(each.prompt_wait_s) for each in (with_, without))),
        ("jobs lost", f"{with_.lost}", f"{without.lost}"),
    ]
    table = "\n".join(f"{name:34}{first:>16}{second:>16}" for name, first, second in rows)
    why = "jobs wait for lower prices, if their owners allow it, and for nodes that wake:"
    why += f"\none real second, which a BMC may need to answer, is {duration_text(factor)} of this day"
    used = f"used: {energy_text(with_.energy_j / J_PER_KWH)} for {money_text(with_.cost, 'EUR')}"
    carbon = "" if saved.carbon_g is None else f"\nsaved CO2: {saved.carbon_g / 1000:,.1f} kg"
    levers = "".join(f"\n- by {lever.name}: {money_text(lever.cost, saved.currency)}" for lever in saved.levers)
    return f"{table}\n{why}\n\n{used}\nsaved: {saving_text(saved)}{levers}{carbon}"
