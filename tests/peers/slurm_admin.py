"""What an admin of a powered Slurm does by hand, and is shown."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.local_slurm.cluster import node_state
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.scheduler.node import SchedulerState

SLEEPS, BESIDE = {"IDLE", "POWERED_DOWN"}, {"NOT_RESPONDING", "PLANNED"}
"""What a sleeping node is, and what Slurm may say besides: that slurmd is silent, or that a job is to start there."""

STAGE_STATES = {"ALLOCATED": SchedulerState.BUSY, "IDLE": SchedulerState.UP, "IDLE+DRAIN": SchedulerState.DRAINED}
CHANGES_BY_ITSELF = ("CPULoad=", "FreeMem=", "LastBusyTime=")


@dataclass(frozen=True)
class SlurmAdmin:
    """As powered_stage.Admin."""

    slurm: SlurmCluster

    def close(self, node: str, reason: str) -> None:
        """Drain a node."""
        self._update(node, "drain", f"reason={reason}")

    def open(self, node: str) -> None:
        """Resume a drained node."""
        self._update(node, "resume")

    def power_down(self, node: str) -> bool:
        """Have Slurm power a node down."""
        self._update(node, "power_down")
        return True

    def power_up(self, node: str) -> None:
        """Have Slurm power a node up."""
        self._update(node, "power_up")

    def mended(self, node: str) -> None:
        """Resume a node that was broken and is off."""
        self._update(node, "resume")

    def maintain(self, node: str) -> None:
        """Reserve a node for a maintenance that begins at once."""
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 1))
        arguments = ("reservationname=repair", f"nodes={node}", f"starttime={begin}", "duration=60")
        self.slurm.run("scontrol", "create", "reservation", *arguments, "users=root", "flags=maint,ignore_jobs")

    @contextmanager
    def nothing_starts(self) -> Iterator[None]:
        """Close the partition until the block ends."""
        self.slurm.run("scontrol", "update", "partitionname=batch", "state=down")
        yield
        self.slurm.run("scontrol", "update", "partitionname=batch", "state=up")

    def let_go(self, job: str) -> None:
        """Let a requeued job start at once."""
        # Slurm lets it wait for two minutes.
        self.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")

    def scheduler_state(self, node: str) -> SchedulerState | None:
        """Return the state of a node in the terms that all schedulers share, None for any that tests do not ask for."""
        return STAGE_STATES.get(node_state(self.slurm, node))

    def in_maintenance(self, node: str) -> bool:
        """Whether a reservation for maintenance holds the node."""
        return "MAINT" in node_state(self.slurm, node)

    def is_shut(self, node: str) -> bool:
        """Whether a node is drained."""
        return "DRAIN" in node_state(self.slurm, node)

    def has_jobs(self, node: str) -> bool:
        """Whether jobs have the node, or leave it just now."""
        return bool({"ALLOCATED", "COMPLETING"} & set(node_state(self.slurm, node).split("+")))

    def sleeps(self, node: str) -> bool:
        """Whether a node is powered down, and Slurm wakes it when a job needs it."""
        return set(node_state(self.slurm, node).split("+")) - BESIDE == SLEEPS

    def is_withdrawn(self, node: str) -> bool:
        """Whether a node is powered down and drained."""
        return {"POWERED_DOWN", "DRAIN"} <= set(node_state(self.slurm, node).split("+"))

    def shown(self) -> str:
        """Return the output of scontrol for nodes, without the fields that change by themselves."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "nodes")
        return " ".join(term for term in shown.split() if not term.startswith(CHANGES_BY_ITSELF))

    def _update(self, node: str, state: str, *arguments: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", f"state={state}", *arguments)
