"""What every cluster of nodes with simulated power offers, whatever its scheduler: jobs, an admin, nodes and faults."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.local_slurm.cluster import PATIENCE_S, JobTraceEntry
from benchmarks.local_slurm.node import PoweredNode, PowerLog
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.scheduler.node import SchedulerState


class StageJobs(Protocol):
    """The jobs of a stage; each is known by what the scheduler calls it."""

    def submit(self, *, count: int = 1, **fields: Any) -> list[str]:
        """Submit so many jobs alike, of the fields of StageJob; return their ids."""

    def states(self) -> dict[str, str]:
        """Return PENDING, RUNNING, COMPLETED or another word for every job."""

    def order(self) -> list[str]:
        """Return the pending jobs, the first to start first."""

    def begin_s(self, job: str) -> float:
        """Return when the job may start at the earliest [Unix s], 0 for at once."""

    def note_to_owner(self, job: str) -> str:
        """Return what offpeak wrote for the owner of a job."""

    def shown(self) -> str:
        """Return all that the scheduler shows of jobs, but what it changes by itself."""

    def trace(self) -> tuple[JobTraceEntry, ...]:
        """Return the starts and ends of jobs in their order."""

    def started(self) -> list[str]:
        """Return the jobs in the order of their starts; one that was started twice stands there twice."""

    def lost(self) -> list[str]:
        """Return the jobs that were given up, or put back into the queue, when their nodes failed them."""

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; those that have ended are left out."""


class Admin(Protocol):
    """What an admin does by hand, and what he is shown."""

    def close(self, node: str, reason: str) -> None:
        """Take a node from jobs."""

    def open(self, node: str) -> None:
        """Undo that."""

    def power_down(self, node: str) -> bool:
        """Have the scheduler itself switch a node off; False, and nothing done, where none can."""

    def power_up(self, node: str) -> None:
        """Undo that."""

    def mended(self, node: str) -> None:
        """Give a node back that was broken, and is off."""

    def maintain(self, node: str) -> None:
        """Begin the maintenance of a node."""

    def nothing_starts(self) -> AbstractContextManager[None]:
        """Let no job start until the block ends."""

    def let_go(self, job: str) -> None:
        """Have a job that was put back tried again at once."""

    def scheduler_state(self, node: str) -> SchedulerState | None:
        """Return the state of a node, None if it sleeps, wakes or is in maintenance."""

    def in_maintenance(self, node: str) -> bool:
        """Whether the node is in maintenance."""

    def is_shut(self, node: str) -> bool:
        """Whether a node gets no jobs, and not for a maintenance."""

    def has_jobs(self, node: str) -> bool:
        """Whether jobs have the node, or leave it just now."""

    def sleeps(self, node: str) -> bool:
        """Whether the node counts as off, and as one that is woken when a job needs it."""

    def is_withdrawn(self, node: str) -> bool:
        """Whether the node counts as off, and no job wakes it."""

    def shown(self) -> str:
        """Return all that is shown of nodes, but what changes by itself."""


class PoweredStage(Protocol):
    """A running cluster; `nodes` by their names. What is wrong with a node is set there.

    `environment` is what an agent is started with, `settings` what it is told of this scheduler. `silent`: how a node
    stands that somebody else has just switched off. `gives_sleepers`: a job may be given a node that sleeps, and is put
    back into the queue when that does not come up; else it waits in the queue until the node is up. `offpeak` is typed
    for that command.
    """

    kind: str
    plan: PoweredPlan
    nodes: dict[str, PoweredNode]
    log: PowerLog
    silent: SchedulerState
    gives_sleepers: bool
    offpeak: tuple[str, ...]

    @property
    def jobs(self) -> StageJobs:
        """Its jobs."""

    @property
    def admin(self) -> Admin:
        """Its admin."""

    @property
    def folder(self) -> Path:
        """The folder of all its files."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of an agent."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """An agent's settings of this scheduler, by table and key."""

    def wait(self, condition: Callable[[], bool], *, what: str, seconds: float = PATIENCE_S) -> None:
        """Return once it holds; RuntimeError that shows nodes and jobs when it has not for so long."""

    def describe_state(self) -> str:
        """Return what the scheduler shows, the last changes of power, and the agent's last words."""

    def kill_bmc(self, node: str) -> None:
        """Let a BMC be dead until it is started again."""

    def restart_bmc(self, node: str) -> None:
        """Start a BMC again that was killed."""

    def start_server(self) -> None:
        """Start the scheduler."""

    def stop_server(self) -> None:
        """End the scheduler politely."""

    def kill9_server(self) -> None:
        """End the scheduler as it stands."""

    def without_agent(self) -> None:
        """Do once what the site does by itself while no agent runs, where no job's need does that."""
