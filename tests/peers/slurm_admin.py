"""An admin of a real Slurm: scontrol, and how its words for a node are understood."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from powered_stage import Standing
from slurm_cluster import Cluster

SLEEPS, BESIDE = {"IDLE", "POWERED_DOWN"}, {"NOT_RESPONDING", "PLANNED"}
"""What a sleeping node is, and what Slurm may say besides: that slurmd is silent, or that a job is to start there."""

STANDINGS = {"ALLOCATED": Standing.BUSY, "IDLE": Standing.IDLE, "IDLE+DRAIN": Standing.CLOSED}
CHANGES_BY_ITSELF = ("CPULoad=", "FreeMem=", "LastBusyTime=")


@dataclass(frozen=True)
class SlurmAdmin:
    """As powered_stage.Admin."""

    slurm: Cluster

    def close(self, node: str, reason: str) -> None:
        self._update(node, "drain", f"reason={reason}")

    def open(self, node: str) -> None:
        self._update(node, "resume")

    def power_down(self, node: str) -> bool:
        self._update(node, "power_down")
        return True

    def power_up(self, node: str) -> None:
        self._update(node, "power_up")

    def mended(self, node: str) -> None:
        self._update(node, "resume")

    def maintain(self, node: str) -> None:
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 1))
        words = ("reservationname=repair", f"nodes={node}", f"starttime={begin}", "duration=60")
        self.slurm.run("scontrol", "create", "reservation", *words, "users=root", "flags=maint,ignore_jobs")

    @contextmanager
    def nothing_starts(self) -> Iterator[None]:
        self.slurm.run("scontrol", "update", "partitionname=batch", "state=down")
        yield
        self.slurm.run("scontrol", "update", "partitionname=batch", "state=up")

    def let_go(self, job: str) -> None:
        # Slurm lets it wait for two minutes.
        self.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")

    def standing(self, node: str) -> Standing:
        state = self.state(node)
        return Standing.MAINTENANCE if "MAINT" in state else STANDINGS.get(state, Standing.OTHER)

    def is_shut(self, node: str) -> bool:
        return "DRAIN" in self.state(node)

    def has_jobs(self, node: str) -> bool:
        return bool({"ALLOCATED", "COMPLETING"} & set(self.state(node).split("+")))

    def sleeps(self, node: str) -> bool:
        return set(self.state(node).split("+")) - BESIDE == SLEEPS

    def shown(self) -> str:
        shown = self.slurm.run("scontrol", "--oneliner", "show", "nodes")
        return " ".join(word for word in shown.split() if not word.startswith(CHANGES_BY_ITSELF))

    def state(self, node: str) -> str:
        """Return Slurm's word for a node, such as IDLE+POWERED_DOWN."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "node", node)
        return next(word.removeprefix("State=") for word in shown.split() if word.startswith("State="))

    def _update(self, node: str, state: str, *words: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", f"state={state}", *words)
