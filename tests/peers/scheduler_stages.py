"""Each scheduler with what a test of the port does to it besides: submit, end, close by hand, ask as somebody else."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from pbs_standin import StandIn
from slurm_queue import submit

from benchmarks.local_slurm.processes import ME, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.request import Chunk
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import PbsSettings, SlurmSettings
from offpeak.sim_backend.pbs_standin.pbs import Pbs
from offpeak.sim_backend.pbs_standin.submission import submitted
from offpeak.sim_backend.scheduler.cluster import SimJob
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


@dataclass(frozen=True)
class Wanted:
    """A job as a test submits it: so many whole nodes for so long; `after` is a job that has to end first.

    `cpus`: so many processors of one node instead, which others may share.
    """

    nodes: int = 1
    limit_min: int | None = 60
    name: str = "job"
    held: bool = False
    after: str = ""
    array: bool = False
    cpus: int = 0


class Stage(Protocol):
    """A scheduler of three nodes, node1 to node3, each with so much memory; `user` is who submits."""

    scheduler: Scheduler
    user: str
    memory_mib: int

    def submit(self, wanted: Wanted) -> str:
        """Return the number of a job that runs until it is cancelled."""

    def submit_many(self, count: int) -> list[str]:
        """Return the numbers of so many jobs that are alike."""

    def cancel(self, *jobs: str) -> None:
        """End jobs."""

    def of_nobody(self) -> Scheduler | None:
        """Return the scheduler as somebody asks it to change something who may not; None if all may."""

    def unreachable(self) -> AbstractContextManager[Scheduler | None]:
        """Give the scheduler while nobody reaches its server; None if it has none."""

    def close_by_hand(self, node: str) -> None:
        """Take a node from jobs as an admin does, for the reason `broken fan`."""

    def open_by_hand(self, node: str) -> None:
        """Undo that."""


@dataclass
class SlurmStage:
    """A real slurmctld."""

    cluster: SlurmCluster
    scheduler: Scheduler
    user: str = ME
    memory_mib: int = 1000

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        size = [f"--ntasks={wanted.cpus}"] if wanted.cpus else ["--exclusive"]
        options = [f"--nodes={wanted.nodes}", *size, f"--job-name={wanted.name}"]
        options += [] if wanted.limit_min is None else [f"--time={wanted.limit_min}"]
        options += ["--hold"] if wanted.held else []
        options += [f"--dependency=afterany:{wanted.after}"] if wanted.after else []
        options += ["--array=1-3"] if wanted.array else []
        return submit(self.cluster, *options)

    def submit_many(self, count: int) -> list[str]:
        """As `Stage`."""
        one = "sbatch --parsable --output=/dev/null --time=60 --exclusive --wrap='sleep 600'"
        return self.cluster.run("sh", "-c", f"for i in $(seq {count}); do {one}; done").split()

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        self.cluster.run("scancel", "--quiet", *jobs)

    def of_nobody(self) -> Scheduler:
        """As `Stage`."""
        return SlurmScheduler(SlurmSettings(timeout_s=300, command=NOBODY))

    @contextmanager
    def unreachable(self) -> Iterator[Scheduler]:
        """As `Stage`."""
        conf = self.cluster.conf.with_name("nowhere.conf")
        conf.write_text(self.cluster.conf.read_text().replace(f"SlurmctldPort={self.cluster.port}", "SlurmctldPort=9"))
        before, os.environ["SLURM_CONF"] = os.environ["SLURM_CONF"], str(conf)
        try:
            yield SlurmScheduler(SlurmSettings(timeout_s=2))
        finally:
            os.environ["SLURM_CONF"] = before

    def close_by_hand(self, node: str) -> None:
        """As `Stage`."""
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=broken fan")

    def open_by_hand(self, node: str) -> None:
        """As `Stage`."""
        self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume")


@dataclass
class PbsStage:
    """A stand-in of Torque or OpenPBS."""

    running: StandIn
    scheduler: Scheduler
    user: str = "alice"
    memory_mib: int = 32_768

    @property
    def _torque(self) -> bool:
        return self.running.pbs.kind == "torque"

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        cpus = wanted.cpus or 8
        what = f"nodes={wanted.nodes}:ppn={cpus}" if self._torque else f"select={wanted.nodes}:ncpus={cpus}"
        options = ["-l", what, "-N", wanted.name]
        options += (
            [] if wanted.limit_min is None else ["-l", f"walltime={wanted.limit_min // 60}:{wanted.limit_min % 60}:00"]
        )
        options += [] if self._torque or wanted.cpus else ["-l", "place=scatter:excl"]
        options += ["-h"] if wanted.held else []
        options += ["-W", f"depend=afterany:{wanted.after}"] if wanted.after else []
        options += ["-t" if self._torque else "-J", "1-3"] if wanted.array else []
        return self.running.run("qsub", *options, user="alice", stdin="sleep 100000\n")

    def submit_many(self, count: int) -> list[str]:
        """As `Stage`."""
        what = "nodes=3:ppn=8" if self._torque else "select=3:ncpus=8"

        def submitted_all(pbs: Pbs) -> list[str]:
            jobs = (submitted(pbs, ("-l", what), "sleep 1000", "alice", time.time())[0] for _ in range(count))
            return [pbs.job_id(job) for job in jobs]

        return self.running.do(submitted_all)

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        # Some have ended meanwhile; the others are ended all the same.
        with suppress(subprocess.CalledProcessError):
            self.running.run("qdel", *jobs)

    def of_nobody(self) -> Scheduler:
        """As `Stage`."""
        settings = PbsSettings(timeout_s=300, torque_order="priority", command=NOBODY)
        return TorqueScheduler(settings) if self._torque else OpenPbsScheduler(settings)

    @contextmanager
    def unreachable(self) -> Iterator[Scheduler]:
        """As `Stage`."""
        socket = self.running.programs.with_name("pbs.sock")
        aside = socket.rename(socket.with_suffix(".aside"))
        try:
            yield self.scheduler
        finally:
            aside.rename(socket)

    def close_by_hand(self, node: str) -> None:
        """As `Stage`."""
        if self._torque:
            self.running.run("pbsnodes", "-o", "-N", "broken fan", node)
        else:
            self.running.run("qmgr", "-c", f'set node {node} comment = "broken fan", state += offline')

    def open_by_hand(self, node: str) -> None:
        """As `Stage`."""
        if self._torque:
            self.running.run("pbsnodes", "-c", "-N", "", node)
        else:
            self.running.run("qmgr", "-c", f"set node {node} state = free")


@dataclass
class SimulatedStage:
    """The scheduler in memory."""

    scheduler: SimulatedScheduler
    user: str = "alice"
    memory_mib: int = 32_768

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        indices: list[int | None] = [1, 2, 3] if wanted.array else [None]
        at_s = self.scheduler.view().at_s
        number = 0
        for index in indices:
            number = self.scheduler.cluster.submit(_sim_job(wanted, number, index, at_s)).number
        self.scheduler.view()
        return str(number)

    def submit_many(self, count: int) -> list[str]:
        """As `Stage`."""
        at_s = self.scheduler.view().at_s
        jobs = (_sim_job(Wanted(nodes=3), 0, None, at_s) for _ in range(count))
        return [self.scheduler.cluster.submit(job).job_id for job in jobs]

    def of_nobody(self) -> None:
        """As `Stage`."""

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """As `Stage`."""
        yield None

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        wanted, at_s = set(jobs), self.scheduler.view().at_s
        for job in self.scheduler.cluster.jobs.values():
            if {job.job_id, str(job.number)} & wanted:
                self.scheduler.cluster.end(job, at_s)

    def close_by_hand(self, node: str) -> None:
        """As `Stage`."""
        found = self.scheduler.cluster.nodes[node]
        found.shut, found.note = {"broken fan"}, "broken fan"

    def open_by_hand(self, node: str) -> None:
        """As `Stage`."""
        found = self.scheduler.cluster.nodes[node]
        found.shut, found.note = set(), ""


def _sim_job(wanted: Wanted, number: int, index: int | None, at_s: int) -> SimJob:
    return SimJob(
        number=number,
        index=index,
        name=wanted.name,
        user="alice",
        queue="batch",
        chunks=(Chunk(wanted.nodes, wanted.cpus or 8),),
        run_s=100_000,
        submit_s=at_s,
        limit_s=None if wanted.limit_min is None else wanted.limit_min * 60,
        whole_nodes=not wanted.cpus,
        holds={"u"} if wanted.held else set(),
        after=(int(wanted.after),) if wanted.after else (),
    )


def ended(stage: Stage) -> None:
    """Cancel all jobs and wait until none is left."""

    def alive() -> list[str]:
        over = {"ended", "ends"}
        return [job.job_id for job in stage.scheduler.view().jobs if job.state not in over]

    if left := alive():
        stage.cancel(*left)
    wait_until(lambda: not alive(), what="the queue to be empty")
