"""The demo's scheduler, and the outcome of the demo compared with the same jobs on the same cluster without offpeak.

Jobs come by the clock, nodes that are up register, and jobs have virtual nodes draw more.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.display import amount_text, energy_text, money_text, percent_text
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE
from offpeak.model.orders import NodeChange
from offpeak.model.request import Chunk
from plugin.scheduler.job import JobState
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from sim_backend.scheduler.simulated import SimulatedScheduler
from sim_backend.virtual.machine_room import MachineRoom
from ui.demo.site import BEGIN_S, CPUS, KINDS, DemoJob, price_at

UTILISATION = {kind.name: kind.utilisation for kind in KINDS}


def new_cluster(nodes: Sequence[str]) -> SimulatedCluster:
    """Return a cluster whose nodes are up."""
    return SimulatedCluster(
        {name: SimNode(name, CPUS, changed_s=BEGIN_S, last_used_s=BEGIN_S) for name in nodes}, wakes=True
    )


def submit(cluster: SimulatedCluster, job: DemoJob) -> None:
    """Give a job to the cluster."""
    cluster.submit(
        SimJob(
            number=job.number,
            name=job.kind.name,
            user=job.user,
            queue="batch",
            chunks=(Chunk(job.nodes, CPUS),),
            run_s=job.run_s,
            submit_s=BEGIN_S + job.at_s,
            limit_s=job.limit_s,
            whole_nodes=True,
        )
    )


@dataclass
class LiveCluster:
    """Implements plugin.scheduler.port.Scheduler, for several threads.

    `energy_j` is the energy of its nodes, `cost` its cost [EUR].
    """

    room: MachineRoom
    jobs: "deque[DemoJob]"
    clock: Callable[[], float]
    energy_j: float = 0.0
    cost: float = 0.0
    _counted_j: float | None = None
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.cluster = new_cluster(tuple(self.room.nodes))
        self._scheduler = SimulatedScheduler(self.cluster, clock=self.clock)

    def follow(self) -> None:
        """Advance the cluster to now: new jobs, registered nodes, and their power."""
        with self._turn:
            now_s = self.clock()
            while self.jobs and BEGIN_S + self.jobs[0].at_s <= now_s:
                submit(self.cluster, self.jobs.popleft())
            self._count(now_s)
            for name, node in self.room.nodes.items():
                up = node.now().state == ACTIVE
                if up != self.cluster.nodes[name].alive:
                    (self.cluster.comes_up if up else self.cluster.goes_down)(name, now_s)
            self.cluster.step(now_s)
            self._use()

    def traits(self) -> SchedulerTraits:
        """As the port."""
        return self._scheduler.traits()

    def view(self) -> SchedulerView:
        """As the port."""
        with self._turn:
            return self._scheduler.view()

    def in_use(self, node: str) -> str:
        """As the port."""
        with self._turn:
            return self._scheduler.in_use(node)

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """As the port."""
        with self._turn:
            return self._scheduler.rank(values)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """As the port."""
        with self._turn:
            return self._scheduler.defer(begin_s)

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """As the port."""
        with self._turn:
            return self._scheduler.notify(comments)

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """As the port."""
        with self._turn:
            return self._scheduler.change_nodes(nodes, change, reason=reason)

    def _count(self, now_s: float) -> None:
        counted_j = sum(node.energy_j for node in self.room.nodes.values())
        # The room has run since it was opened, the day begins with the first look.
        new_j = 0.0 if self._counted_j is None else counted_j - self._counted_j
        self._counted_j = counted_j
        self.energy_j += new_j
        self.cost += new_j / J_PER_MWH * price_at(now_s)

    def _use(self) -> None:
        used = {
            name: UTILISATION[job.name]
            for job in self.cluster.jobs.values()
            if job.state is JobState.RUNNING
            for name in job.placed
        }
        for name, node in self.room.nodes.items():
            if node.now().state == ACTIVE:
                node.use(used.get(name, 0.0))


STEP_S = 30


@dataclass(frozen=True)
class DemoOutcome:
    """Energy [J] and its cost [EUR]; jobs that were started and lost, their mean wait [s], and node-seconds of work."""

    energy_j: float
    cost: float
    started: int
    lost: int
    wait_s: float
    work_s: float


def outcome_of(cluster: SimulatedCluster, now_s: float, *, energy_j: float, cost: float) -> DemoOutcome:
    """Return the outcome of a cluster until now; later events are ignored."""
    begun = [job for job in cluster.jobs.values() if job.start_s is not None and job.start_s <= now_s]
    waits_s = [(job.start_s or 0.0) - job.submit_s for job in begun]
    work_s = sum((min(job.end_s or now_s, now_s) - (job.start_s or 0.0)) * job.nodes for job in begun)
    lost = sum(job.lost for job in begun)
    return DemoOutcome(energy_j, cost, len(begun), lost, sum(waits_s) / max(1, len(waits_s)), work_s)


def without_offpeak(
    jobs: Iterable[DemoJob], nodes: tuple[str, ...], node_class: NodeClass, length_s: float
) -> DemoOutcome:
    """Return the outcome of the same jobs in order of submission, with all nodes always on."""
    cluster, to_come = new_cluster(nodes), list(jobs)
    energy_j = cost = 0.0
    for at_s in range(BEGIN_S, BEGIN_S + int(length_s), STEP_S):
        while to_come and BEGIN_S + to_come[0].at_s <= at_s:
            submit(cluster, to_come.pop(0))
        cluster.step(at_s)
        step_j = STEP_S * _power_w(cluster, node_class)
        energy_j, cost = energy_j + step_j, cost + step_j / J_PER_MWH * price_at(at_s)
    return outcome_of(cluster, BEGIN_S + length_s, energy_j=energy_j, cost=cost)


def _power_w(cluster: SimulatedCluster, node_class: NodeClass) -> float:
    running = [job for job in cluster.jobs.values() if job.state is JobState.RUNNING]
    busy_w = sum(job.nodes * node_class.running_w(UTILISATION[job.name]) for job in running)
    return busy_w + (len(cluster.nodes) - sum(job.nodes for job in running)) * node_class.idle_w


def summary(with_: DemoOutcome, without: DemoOutcome) -> str:
    """Return both outcomes as a table."""
    rows = [
        ("", "with offpeak", "without"),
        ("energy", energy_text(with_.energy_j / J_PER_KWH), energy_text(without.energy_j / J_PER_KWH)),
        ("cost", money_text(with_.cost, "EUR"), money_text(without.cost, "EUR")),
        ("jobs started", f"{with_.started}", f"{without.started}"),
        ("work done", f"{with_.work_s / HOUR_S:,.0f} node-hours", f"{without.work_s / HOUR_S:,.0f} node-hours"),
        ("mean wait", f"{with_.wait_s / 60:,.0f} min", f"{without.wait_s / 60:,.0f} min"),
        ("jobs lost", f"{with_.lost}", f"{without.lost}"),
    ]
    table = "\n".join(f"{name:14}{first:>18}{second:>18}" for name, first, second in rows)
    saved = without.cost - with_.cost
    share = percent_text(100 * saved / without.cost)
    return f"{table}\n\nsaved: {money_text(saved, 'EUR')} of {amount_text(without.cost)}, {share} of the bill"
