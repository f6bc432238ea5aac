"""The site of a soak of stops: virtual nodes, a scheduler that notices dead nodes late, bursts of jobs, settings."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomlkit

from benchmarks.peers import peer
from offpeak.errors import SchedulerError
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.model.node_class import NodeClass, Transition
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE
from offpeak.model.orders import NodeChange, PowerState
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import NodeUses, RequeuePermit, SchedulerTraits, SchedulerView
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.room_plan import INVENTORY, RoomPlan

RESUME = Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "offpeak-resume"
QUEUE, CPUS = "batch", 4
SHUTDOWN_S, BOOT_S = 20, 40
NOTICES_S = 120.0
"""So long after a node has lost its power the scheduler counts it as up, as Slurm does within SlurmdTimeout."""
BURST_S, RUN_S = (300.0, 420.0), (20.0, 60.0)


@dataclass(frozen=True)
class StopsPlan:
    """`cycles` is how often nodes sleep and wake in all. `factor` seconds of the site pass in a real one.

    From a start of the agent to its stop `lives_s` real seconds pass, and at most `most_real_s` in all.
    """

    nodes: int = 96
    cycles: int = 10_000
    seed: int = 1
    factor: float = 120.0
    run_s: tuple[float, float] = (3.0, 20.0)
    most_real_s: float = 3600.0

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    @property
    def per_minute(self) -> int:
        """So many nodes of a rack may be switched within a minute."""
        return max(4, self.nodes // 4)

    def room(self) -> RoomPlan:
        """The machine room, at addresses that no other room of this machine has."""
        nodes, node_class = f"n[1-{self.nodes}]", _quick_class()
        room: RoomPlan = peer("served_room").planned(nodes, node_class=node_class, clock_factor=self.factor)
        return room


def _quick_class() -> NodeClass:
    server = bundled_node_class("server")
    depths = tuple(
        replace(depth, enter=_lasting(depth.enter, SHUTDOWN_S), leave=_lasting(depth.leave, BOOT_S))
        for depth in server.depths
    )
    return replace(server, depths=depths)


def _lasting(transition: Transition, seconds: int) -> Transition:
    return replace(transition, duration_s=seconds)


@dataclass
class SiteScheduler:
    """Implements offpeak.plugin.scheduler.port.Scheduler. What is wrong with it is set from outside.

    `error`: it answers nothing but that. `slow_s`: so many real seconds each change takes. `hides_jobs`: it shows no
    job, as to a reader that lost its rights. `resume` is called with the nodes that jobs need woken.
    """

    changes_lists = True

    room: MachineRoom
    clock: Callable[[], float]
    resume: Callable[[Sequence[str]], None]
    error: str = ""
    slow_s: float = 0.0
    hides_jobs: bool = False
    lost: list[str] = field(default_factory=list)
    cycles: int = 0

    def __post_init__(self) -> None:
        now_s = int(self.clock())
        nodes = {name: SimNode(name, CPUS, changed_s=now_s, last_used_s=now_s) for name in self.room.nodes}
        self.cluster = SimulatedCluster(nodes, queues=(QUEUE,), wakes=True)
        self._scheduler = SimulatedScheduler(self.cluster, clock=self.clock)
        self._down_since_s: dict[str, float] = {}
        self._coming: set[str] = set()
        self._turn = threading.RLock()

    def submit(self, nodes: int, run_s: float) -> None:
        """Take a job in that needs so many whole nodes."""
        with self._turn:
            chunks, now_s = (Chunk(nodes, CPUS),), int(self.clock())
            job = SimJob(0, "work", "ann", QUEUE, chunks, run_s, now_s, limit_s=3600, whole_nodes=True)
            self.cluster.submit(job)

    def follow(self) -> None:
        """Bring the cluster up to now; what runs on a node without power is lost at once, and noticed later."""
        with self._turn:
            now_s = self.clock()
            for name, node in self.room.nodes.items():
                if node.now().state == ACTIVE:
                    if self._down_since_s.pop(name, None) is not None:
                        self.cluster.comes_up(name, now_s)
                        self.cycles += 1
                elif now_s - self._down_since_s.setdefault(name, now_s) >= NOTICES_S and self._counts_as_alive(name):
                    self.cluster.goes_down(name, now_s)
            self.cluster.step(now_s)
            self._lose_jobs(now_s)
            self._forget_ended()
            coming = {name for name, node in self.cluster.nodes.items() if node.power is PowerState.POWERING_ON}
            new, self._coming = sorted(coming - self._coming), coming
        if new:
            self.resume(new)

    def unstarted(self) -> list[SimJob]:
        """Return the jobs that wait, or whose nodes are not up."""
        with self._turn:
            return [job for job in self.cluster.jobs.values() if job.state in (JobState.PENDING, JobState.STARTS)]

    def busy(self, name: str) -> str:
        """Return the job that runs on a node, "" if none does."""
        with self._turn:
            jobs = [job for job in self.cluster.jobs.values() if job.state is JobState.RUNNING and name in job.placed]
            return jobs[0].job_id if jobs else ""

    def closed(self) -> list[str]:
        """Return the nodes that get no job."""
        with self._turn:
            return [name for name, node in self.cluster.nodes.items() if node.shut]

    def traits(self) -> SchedulerTraits:
        """As the port."""
        self._fail()
        return self._scheduler.traits()

    def view(self) -> SchedulerView:
        """As the port."""
        self._fail()
        with self._turn:
            view = self._scheduler.view()
        return replace(view, jobs=()) if self.hides_jobs else view

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        """As the port."""
        self._fail()
        with self._turn:
            return self._scheduler.find_uses(nodes)

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.rank(values))

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.defer(begin_s))

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """As the port."""
        self._fail()
        with self._turn:
            return self._scheduler.requeue_permits(jobs)

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.signal(signals))

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.requeue(names))

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.notify(comments))

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.start_cycle(jobs))

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """As the port."""
        return self._change(lambda: self._scheduler.change_nodes(nodes, change, reason=reason))

    def _change(self, change: Callable[[], dict[str, str]]) -> dict[str, str]:
        self._fail()
        if self.slow_s:
            time.sleep(self.slow_s)
        with self._turn:
            return change()

    def _fail(self) -> None:
        if self.error:
            raise SchedulerError(self.error, hint="it answers again in a while")

    def _counts_as_alive(self, name: str) -> bool:
        return self.cluster.nodes[name].alive

    def _lose_jobs(self, now_s: float) -> None:
        for job in self.cluster.jobs.values():
            dark = [name for name in job.placed if self.room.nodes[name].now().state != ACTIVE]
            if job.state is JobState.RUNNING and dark:
                self.lost.append(f"job {job.job_id} ran on {', '.join(dark)}, which had no power")
                self.cluster.end(job, now_s)

    def _forget_ended(self) -> None:
        ended = [key for key, job in self.cluster.jobs.items() if job.state is JobState.ENDED]
        for key in ended[:-100]:
            del self.cluster.jobs[key]


@dataclass
class JobBursts:
    """Submits as many jobs at once as the cluster can run, then leaves it idle for a while."""

    plan: StopsPlan
    scheduler: SiteScheduler
    chance: random.Random
    _next_s: float = 0.0

    def go_on(self, now_s: float) -> None:
        """Submit what is due."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + self.chance.uniform(*BURST_S)
        left = self.plan.nodes - self.chance.randint(0, self.plan.nodes // 4)
        while left > 0:
            width = min(left, self.chance.choice((1, 1, 2, 4)))
            self.scheduler.submit(width, self.chance.uniform(*RUN_S))
            left -= width


@dataclass
class Programs:
    """The resume program as slurmctld starts it. Its processes end by themselves; `close` waits for them."""

    folder: Path
    environment: Mapping[str, str]
    _running: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    calls: int = 0

    def resume(self, nodes: Sequence[str]) -> None:
        """Start the program for these nodes."""
        self.calls += 1
        self._running = [each for each in self._running if each.poll() is None]
        command = [sys.executable, "-I", str(RESUME), ",".join(nodes)]
        self._running.append(subprocess.Popen(command, env=dict(self.environment), stdin=subprocess.DEVNULL))

    def close(self) -> None:
        """Wait for all of them."""
        for each in self._running:
            each.wait(60)


def enrol(folder: Path, room: MachineRoom) -> None:
    """Write who answers at each BMC: an order to a node that is not who it was is refused."""
    known = {name: Enrolment(str(bmc.guid), (), "2026-11-10") for name, bmc in room.bmcs.items()}
    write_enrolments(folder / INVENTORY, known)


def settings_of(plan: StopsPlan, folder: Path, *, mode: str = "active", nodes: Sequence[str] = ()) -> Settings:
    """Return the site's settings as they are read from its file; `nodes` may be switched, all where none is given."""
    many = 100 * plan.nodes
    tables: dict[str, dict[str, Any]] = {
        "prices": {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=08:00-20:00,zone=UTC"},
        "feeds": {"zone": "DE-LU", "cache": str(folder / "feeds"), "timeout": "10min"},
        "hardware": {"inventory": str(folder / INVENTORY), "timeout": "1s"},
        "ledger": {"url": f"sqlite:///{folder}/ledger.sqlite"},
        "agent": {
            "mode": mode,
            "nodes": ",".join(nodes or plan.names),
            "socket": str(folder / "agent.sock"),
            "state_folder": str(folder / "agent"),
            "capacity": "timeout:1min",
            "cycle": "30s",
            "fresh": "5min",
            "hands_off": "0s",
            "nodes_per_sweep": many,
            "nodes_per_hour": many,
            "cycles_per_day": many,
            "rack_nodes_per_min": plan.per_minute,
            "breaker_pause": "1min",
        },
    }
    file = folder / "offpeak.toml"
    file.write_text(tomlkit.dumps(tables))
    return Settings.of(read_values(file, options={}))
