"""What users and admins of the cluster do with Slurm's commands: sbatch, squeue, scancel and scontrol."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sim_backend.local_slurm.servers import Cluster
from sim_backend.local_slurm.stage import Standing, Traced

SCRIPT = """\
#!/bin/bash
{draws}
echo "$EPOCHREALTIME $SLURM_JOB_ID start $SLURM_JOB_NODELIST" >>"{trace}"
sleep {seconds}
echo "$EPOCHREALTIME $SLURM_JOB_ID end $SLURM_JOB_NODELIST" >>"{trace}"
"""

GIVEN_UP = ("NODE_FAIL", "FAILED", "BOOT_FAIL")
_SHOWN = re.compile(r"JobId=(\d+) .*? JobState=(\S+) .*? Restarts=(\d+) ")


@dataclass(frozen=True)
class SlurmJobs:
    """The jobs of one cluster."""

    slurm: Cluster

    @property
    def trace_file(self) -> Path:
        """What all jobs write to."""
        return self.slurm.folder / "jobs.log"

    def submit(
        self,
        *options: str,
        seconds: float = 1.0,
        nodes: int = 1,
        count: int = 1,
        watts: float | None = None,
        on: str = "",
        name: str = "",
        limit_min: int = 10,
        consent: str = "",
    ) -> list[str]:
        """Submit so many jobs alike, with sbatch's `options` such as --comment=...; return their ids.

        `watts` is what the node draws on which they begin, if not as much as a busy one usually does. `on` are the
        nodes that they need, if not any; `consent` is what their owner allows, such as delay=20min.
        """
        draws = "" if watts is None else f'echo {watts:g} >"{self.slurm.folder}/$SLURMD_NODENAME/watts"'
        script = SCRIPT.format(trace=self.trace_file, seconds=seconds, draws=draws)
        said = {"nodelist": on, "job-name": name, "comment": f"offpeak:{consent}" if consent else ""}
        words = [f"--{option}={value}" for option, value in said.items() if value]
        usual = (f"--nodes={nodes}", "--output=/dev/null", f"--time={limit_min}")
        command = ("sbatch", "--parsable", *usual, *words, *options)
        return [self.slurm.run(*command, stdin=script).strip() for _ in range(count)]

    def states(self) -> dict[str, str]:
        """Return Slurm's word for every job, also of those that have ended."""
        return {job: state for job, state, *_ in self.ask("%T")}

    def ask(self, fields: str) -> list[list[str]]:
        """Return a job's id and squeue's fields, such as "%S|%N", of all jobs."""
        shown = self.slurm.run("squeue", "--noheader", "--array", "--states=all", f"--format=%i|{fields}")
        return [line.split("|") for line in shown.splitlines()]

    def order(self) -> list[str]:
        """Return the pending jobs, the first to start first."""
        return self.slurm.run("squeue", "--noheader", "--states=PD", "--sort=-p,i", "--format=%i").split()

    def begin_s(self, job: str) -> float:
        """Return when the job may start at the earliest [Unix s], 0 for at once."""
        (text,) = [word.partition("=")[2] for word in self._shown_of(job).split() if word.startswith("EligibleTime=")]
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) if text != "Unknown" else 0

    def note_to_owner(self, job: str) -> str:
        """Return what offpeak wrote for the owner of a job."""
        return self._shown_of(job).partition("AdminComment=")[2].partition(" Partition=")[0]

    def shown(self) -> str:
        """Return all that is shown of jobs, but the reasons and planned starts, which Slurm itself changes."""
        words = ("squeue", "--noheader", "--states=all", "--format=%i %Q %y %T %k %u %l", "--sort=i")
        return self.slurm.run(*words)

    def trace(self) -> tuple[Traced, ...]:
        """Return what the jobs have written."""
        lines = (line.split() for line in self._lines())
        return tuple(Traced(float(at), job, what, nodes) for at, job, what, nodes in lines)

    def started(self) -> list[str]:
        """Return the jobs in the order of their starts; one that was started twice stands there twice."""
        return [each.job for each in self.trace() if each.what == "start"]

    def lost(self) -> list[str]:
        """Return the jobs that Slurm has given up, or put back into the queue when their nodes failed them."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "job")
        return [job for job, state, restarts in _SHOWN.findall(shown) if state in GIVEN_UP or int(restarts)]

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; those that have ended are left out."""
        subprocess.run(("scancel", *jobs), env=self.slurm.environment, check=False, capture_output=True)

    def _shown_of(self, job: str) -> str:
        return self.slurm.run("scontrol", "--oneliner", "show", "job", job)

    def _lines(self) -> list[str]:
        return self.trace_file.read_text().splitlines() if self.trace_file.exists() else []


SLEEPS, BESIDE = {"IDLE", "POWERED_DOWN"}, {"NOT_RESPONDING", "PLANNED"}
"""What a sleeping node is, and what Slurm may say besides: that slurmd is silent, or that a job is to start there."""

STANDINGS = {"ALLOCATED": Standing.BUSY, "IDLE": Standing.IDLE, "IDLE+DRAIN": Standing.CLOSED}
CHANGES_BY_ITSELF = ("CPULoad=", "FreeMem=", "LastBusyTime=")


@dataclass(frozen=True)
class SlurmAdmin:
    """As powered_stage.Admin."""

    slurm: Cluster

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
        words = ("reservationname=repair", f"nodes={node}", f"starttime={begin}", "duration=60")
        self.slurm.run("scontrol", "create", "reservation", *words, "users=root", "flags=maint,ignore_jobs")

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

    def standing(self, node: str) -> Standing:
        """Return the state of a node in the words that all schedulers share."""
        state = self.state(node)
        return Standing.MAINTENANCE if "MAINT" in state else STANDINGS.get(state, Standing.OTHER)

    def is_shut(self, node: str) -> bool:
        """Whether a node is drained."""
        return "DRAIN" in self.state(node)

    def has_jobs(self, node: str) -> bool:
        """Whether jobs have the node, or leave it just now."""
        return bool({"ALLOCATED", "COMPLETING"} & set(self.state(node).split("+")))

    def sleeps(self, node: str) -> bool:
        """Whether a node is powered down, and Slurm wakes it when a job needs it."""
        return set(self.state(node).split("+")) - BESIDE == SLEEPS

    def shown(self) -> str:
        """Return all that scontrol shows of nodes, but what changes by itself."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "nodes")
        return " ".join(word for word in shown.split() if not word.startswith(CHANGES_BY_ITSELF))

    def state(self, node: str) -> str:
        """Return Slurm's word for a node, such as IDLE+POWERED_DOWN."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "node", node)
        return next(word.removeprefix("State=") for word in shown.split() if word.startswith("State="))

    def _update(self, node: str, state: str, *words: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", f"state={state}", *words)
