"""The demo's scheduler: jobs come by the clock, nodes that are up register, and jobs have virtual nodes draw more."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.model.node_states import ACTIVE
from plugin.pbs.resource_request import Chunk
from plugin.scheduler.job import JobState
from plugin.scheduler.port import NodeChange, SchedulerTraits, SchedulerView
from sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from sim_backend.scheduler.simulated import SimulatedScheduler
from sim_backend.virtual.machine_room import MachineRoom
from ui.demo.scenario import BEGIN_S, CPUS, KINDS, Coming, price_at

J_PER_MWH = 3.6e9
UTILISATION = {kind.name: kind.utilisation for kind in KINDS}


def new_cluster(nodes: Sequence[str]) -> SimulatedCluster:
    """Return a cluster whose nodes are up."""
    return SimulatedCluster(
        {name: SimNode(name, CPUS, changed_s=BEGIN_S, last_used_s=BEGIN_S) for name in nodes}, wakes=True
    )


def submit(cluster: SimulatedCluster, job: Coming) -> None:
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

    `energy_j` is what its nodes have drawn, `cost` what that cost [EUR].
    """

    room: MachineRoom
    jobs: "deque[Coming]"
    clock: Callable[[], float]
    energy_j: float = 0.0
    cost: float = 0.0
    _counted_j: float | None = None
    _turn: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.cluster = new_cluster(tuple(self.room.nodes))
        self._scheduler = SimulatedScheduler(self.cluster, clock=self.clock)

    def follow(self) -> None:
        """Bring the cluster up to now: who comes, who registers, and what that draws."""
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

    def tell(self, comments: Mapping[str, str]) -> dict[str, str]:
        """As the port."""
        with self._turn:
            return self._scheduler.tell(comments)

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
