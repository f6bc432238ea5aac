"""Each scheduler with what a test of the port does to it besides: submit, end, close by hand, take a node down."""

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from local_server import wait_until
from pbs_standin import StandIn
from slurm_cluster import Cluster as SlurmCluster
from slurm_queue import submit

from plugin.pbs.request import Chunk
from plugin.scheduler.port import Scheduler
from sim_backend.scheduler.sim_job import SimJob
from sim_backend.scheduler.simulated import SimulatedScheduler


@dataclass(frozen=True)
class Wanted:
    """A job as a test submits it: so many whole nodes for so long; `after` is a job that has to end first."""

    nodes: int = 1
    limit_min: int | None = 60
    name: str = "job"
    held: bool = False
    after: str = ""
    array: bool = False


class Stage(Protocol):
    """A scheduler of three nodes, node1 to node3."""

    scheduler: Scheduler

    def submit(self, wanted: Wanted) -> str:
        """Return the number of a job that runs until it is cancelled."""

    def cancel(self, *jobs: str) -> None:
        """End jobs."""

    def close_by_hand(self, node: str) -> None:
        """Take a node from jobs as an admin does, for the reason `broken fan`."""

    def open_by_hand(self, node: str) -> None:
        """Undo that."""


@dataclass
class SlurmStage:
    """A real slurmctld."""

    cluster: SlurmCluster
    scheduler: Scheduler

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        options = [f"--nodes={wanted.nodes}", "--exclusive", f"--job-name={wanted.name}"]
        options += [] if wanted.limit_min is None else [f"--time={wanted.limit_min}"]
        options += ["--hold"] if wanted.held else []
        options += [f"--dependency=afterany:{wanted.after}"] if wanted.after else []
        options += ["--array=1-3"] if wanted.array else []
        return submit(self.cluster, *options)

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        self.cluster.run("scancel", "--quiet", *jobs)

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

    @property
    def _torque(self) -> bool:
        return self.running.pbs.kind == "torque"

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        what = f"nodes={wanted.nodes}:ppn=8" if self._torque else f"select={wanted.nodes}:ncpus=8"
        options = ["-l", what, "-N", wanted.name]
        options += (
            [] if wanted.limit_min is None else ["-l", f"walltime={wanted.limit_min // 60}:{wanted.limit_min % 60}:00"]
        )
        options += [] if self._torque else ["-l", "place=scatter:excl"]
        options += ["-h"] if wanted.held else []
        options += ["-W", f"depend=afterany:{wanted.after}"] if wanted.after else []
        options += ["-t" if self._torque else "-J", "1-3"] if wanted.array else []
        return self.running.run("qsub", *options, user="alice", stdin="sleep 100000\n")

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        for job in jobs:
            with suppress(subprocess.CalledProcessError):
                self.running.run("qdel", job)

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

    def submit(self, wanted: Wanted) -> str:
        """As `Stage`."""
        cluster = self.scheduler.cluster
        limit_s = None if wanted.limit_min is None else wanted.limit_min * 60
        indices: list[int | None] = [1, 2, 3] if wanted.array else [None]
        made: list[SimJob] = []
        for index in indices:
            job = SimJob(
                number=made[0].number if made else 0,
                index=index,
                name=wanted.name,
                user="alice",
                queue="batch",
                chunks=(Chunk(wanted.nodes, 8),),
                run_s=100_000,
                submit_s=self.scheduler.view().at_s,
                limit_s=limit_s,
                whole_nodes=True,
                holds={"u"} if wanted.held else set(),
                after=(int(wanted.after),) if wanted.after else (),
            )
            made.append(cluster.submit(job))
        self.scheduler.view()
        return str(made[0].number)

    def cancel(self, *jobs: str) -> None:
        """As `Stage`."""
        for job in self.scheduler.cluster.jobs.values():
            if {job.job_id, str(job.number)} & set(jobs):
                self.scheduler.cluster.end(job, self.scheduler.view().at_s)

    def close_by_hand(self, node: str) -> None:
        """As `Stage`."""
        found = self.scheduler.cluster.nodes[node]
        found.shut, found.note = {"broken fan"}, "broken fan"

    def open_by_hand(self, node: str) -> None:
        """As `Stage`."""
        found = self.scheduler.cluster.nodes[node]
        found.shut, found.note = set(), ""


def ended(stage: Stage) -> None:
    """Cancel all jobs and wait until none is left."""

    def alive() -> list[str]:
        over = {"ended", "ends"}
        return [job.job_id for job in stage.scheduler.view().jobs if job.state not in over]

    if left := alive():
        stage.cancel(*left)
    wait_until(lambda: not alive(), what="the queue to be empty")
