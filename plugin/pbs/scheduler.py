"""The port of all schedulers for a PBS server, the dialect in which OpenPBS or Torque answers, and our node marks.

PBS has no powered-down node that is woken for a job. Therefore a sleeping node is a node that gets no jobs and has
offpeak's mark, and a waking node is a node that the agent has ordered to wake. A mark says since when the node is
closed by offpeak, asleep, withdrawn from jobs while it sleeps, or waking. OpenPBS keeps the mark in a custom resource,
Torque in the node's note, which admins read too.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, NamedTuple

from offpeak.errors import SchedulerError
from offpeak.model.limits import SiteLimits
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.contract.pbs import PbsContract, parse_sched_config
from offpeak.plugin.contract.rules import Rule
from offpeak.plugin.pbs import commands as pbs
from offpeak.plugin.pbs import jobs as pbs_jobs
from offpeak.plugin.pbs.demand import StartChance, with_demand
from offpeak.plugin.pbs.reservations import ReservedNodes
from offpeak.plugin.pbs.rights import SchedConfig, read_fair_share_entity, with_priority_classes
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import (
    Ranking,
    RequeuePermit,
    SchedulerTraits,
    SchedulerView,
    change_refusal,
    is_change_done,
    start_patience_s,
)
from offpeak.settings.agent import PbsSettings

USUAL_CYCLE_S = 600
"""The scheduler_iteration of a server that shows none."""

Command = tuple[str, ...]
"""A program and its arguments."""

Assigned = list[str] | pbs.CannotAskPbs
"""What a node's record shows as assigned to jobs, [] for nothing; an error if the record is not clear."""


class MarkKind(StrEnum):
    """CLOSED: the node gets no jobs. ASLEEP: it is off, and may be woken. WITHDRAWN: it is off, and not woken for jobs.
    WAKES: it is ordered to come up.
    """

    CLOSED = "closed"
    ASLEEP = "asleep"
    WITHDRAWN = "withdrawn"
    WAKES = "wakes"


class NodeMark(NamedTuple):
    """Our mark at a node, and when it was set [Unix s]."""

    kind: MarkKind
    since_s: int


class PbsNodeState(NamedTuple):
    """What a node's state and our mark mean together, as in offpeak.plugin.scheduler.node.Node."""

    power: PowerState
    closed: bool
    failed: bool


def derive_node_state(
    mark: NodeMark | None, *, closed: bool, down: bool, registered: bool, overdue: bool
) -> PbsNodeState:
    """Return the state of a node. A mark at an open node means nothing.

    `closed`: the node gets no jobs. `down`: its daemon does not answer; `registered`: it has reported since the mark
    was set. `overdue`: the mark is older than a boot takes.
    """
    if mark is None or not closed or mark.kind is MarkKind.CLOSED:
        return PbsNodeState(PowerState.ON, closed=closed, failed=down)
    if mark.kind in (MarkKind.ASLEEP, MarkKind.WITHDRAWN):
        return PbsNodeState(PowerState.OFF, closed=mark.kind is MarkKind.WITHDRAWN, failed=False)
    if registered and not down:
        return PbsNodeState(PowerState.ON, closed=True, failed=False)
    if overdue:
        return PbsNodeState(PowerState.OFF, closed=False, failed=True)
    return PbsNodeState(PowerState.POWERING_ON, closed=False, failed=False)


def mark_of_sleeping(node: Node, change: NodeChange, now_s: int) -> NodeMark | None:
    """Return the mark after a sleeping node is withdrawn or opened; None for other nodes and changes."""
    if node.power is not PowerState.OFF or node.failed or change not in (NodeChange.WITHDRAW, NodeChange.OPEN):
        return None
    return NodeMark(MarkKind.WITHDRAWN if change is NodeChange.WITHDRAW else MarkKind.ASLEEP, node.reason_s or now_s)


class PbsServer(NamedTuple):
    """A server's name, its attributes and its queues, as `qstat -B -f` and `qstat -Q -f` print them."""

    name: str
    attributes: Mapping[str, str]
    queues: pbs.AttributesByName


def cycle_s_of(attributes: Mapping[str, str]) -> int:
    """Return the time after which the server starts a scheduling cycle without any event."""
    return pbs.as_int(attributes.get("scheduler_iteration")) or USUAL_CYCLE_S


def is_stopped(attributes: Mapping[str, str]) -> bool:
    """Whether an admin has switched the scheduling off."""
    return attributes.get("scheduling", "True") != "True"


@dataclass(frozen=True)
class Dialect:
    """How the commands of one PBS are called, and how their output is parsed.

    A node with one of `closed_states` gets no jobs; `open_message` is what `in_use` returns without such a state.
    `qselect_holding` selects the jobs that may have nodes, `qstat_holding` shows the jobs that are named behind it.
    `parse_assigned` returns what each node's own record shows as assigned to jobs. `node_commands` returns those of a
    node's change, in order. `rules` are those of the site's contract.
    """

    name: str
    ranking: Ranking
    rules: tuple[Rule, ...]
    closed_states: frozenset[str]
    open_message: str
    pbsnodes_all: Command
    pbsnodes_one: Command
    qselect_holding: Command
    qstat_holding: Command
    parse_holding_jobs: Callable[[bytes], tuple[pbs_jobs.PbsJob, ...]]
    parse_nodes: Callable[[bytes, Mapping[str, str], int, int], tuple[Node, ...]]
    parse_assigned: Callable[[bytes, Collection[str]], Mapping[str, Assigned]]
    node_commands: Callable[[Node, NodeChange, str, int], Sequence[Command]]


class PbsScheduler(ABC):
    """A PBS server; `clock` returns Unix seconds. This class starts no job: that would bypass all limits of the site.

    `user` is the user that the server sees, if it is not the user of this process. A subclass per dialect knows how
    jobs change places, how they are deferred, and what the server lacks.
    """

    changes_lists = False
    dialect: ClassVar[Dialect]

    def __init__(
        self, settings: PbsSettings, *, clock: Callable[[], float] = time.time, user: pbs_jobs.PbsUser | None = None
    ) -> None:
        self.settings, self.clock, self.user = settings, clock, user or pbs_jobs.current_user()
        self.commands = pbs.PbsCommands(settings.command or (), timeout_s=float(settings.timeout_s))
        self._chances: Mapping[str, StartChance] = {}
        self._was_stopped = False

    def traits(self) -> SchedulerTraits:
        """Return the settings of the server and of its scheduler."""
        name, attributes = self._server()
        sched_config = self._read_sched_config()
        contract = PbsContract(
            self.dialect.rules,
            attributes,
            self.user,
            may_order=bool(self.settings.command) or pbs_jobs.is_manager(name, attributes, self.user),
            hidden_jobs=pbs_jobs.find_hidden_jobs(name, attributes, self.user),
            sched_config=sched_config or {},
            hidden_config="" if sched_config is not None else str(self._sched_config()),
        )
        reorder_method, contract = self._complete(contract)
        return SchedulerTraits(
            name=self.dialect.name,
            version=attributes.get("pbs_version", ""),
            ranking=self.dialect.ranking,
            power_saving=True,
            boot_s=self.settings.boot_s,
            shared_nodes=True,
            contract=contract,
            cluster=name,
            reorder_method=reorder_method,
            limits=self._limits(),
            cycle_s=cycle_s_of(attributes),
            needs_cycles=True,
        )

    def view(self) -> SchedulerView:
        """Return all jobs and nodes, and the ended jobs that the server keeps."""
        at_s, server = int(self.clock()), self._read_server()
        # The jobs are read last: a job that starts meanwhile has nodes, and is not one for which nodes are woken.
        answer = self._pbsnodes()
        jobs = self._jobs(server)
        nodes = self._parse_nodes(answer, pbs.execution_queues(server.queues), at_s)
        found = self._with_reservations(nodes, answer, at_s)
        nodes = pbs_jobs.with_holders(found.nodes, jobs)
        patience_s = start_patience_s(cycle_s_of(server.attributes))
        demand = with_demand(jobs, nodes, at_s, found.times, patience_s=patience_s, chances=self._chances)
        # While an admin has stopped the scheduling, nodes are not kept awake for long, but no job loses its chance.
        self._chances = {} if self._was_stopped and not is_stopped(server.attributes) else demand.chances
        self._was_stopped = is_stopped(server.attributes)
        return SchedulerView(at_s, demand.jobs, nodes, found.reservations)

    def find_uses(self, nodes: Sequence[str]) -> dict[str, str | SchedulerError]:
        """Return why each node is not free, "" if it is: closed, no job holds it, not even a suspended job, and its
        own record shows nothing as assigned. It is unknown if jobs and record contradict each other.
        """
        self.commands.require_no_unended()
        holders = pbs_jobs.holders(self._holding_jobs())
        # The records are read last: at that instant the nodes are closed and free.
        shown = (*self.dialect.pbsnodes_one, *nodes) if len(nodes) == 1 else self.dialect.pbsnodes_all
        answer = self.commands.query("pbsnodes", *shown)
        records = {record.name: record for record in self._parse_nodes(answer, {}, int(self.clock()))}
        assigned = self.dialect.parse_assigned(answer, nodes)
        return {node: self._use_of(node, holders.get(node), records.get(node), assigned[node]) for node in nodes}

    def _use_of(
        self, node: str, jobs: Sequence[Job] | None, record: Node | None, assigned: Assigned
    ) -> str | SchedulerError:
        # OpenPBS prints a record without a state for a node that it does not know, and ends with 0.
        if record is None or not record.native_state:
            return pbs.CannotAskPbs(f"pbsnodes: no node {node}", hint="`pbsnodes -a` shows them all")
        if jobs:
            return f"runs {', '.join(job.job_id for job in jobs)}"
        if not self.dialect.closed_states & set(record.native_state.split(",")):
            return self.dialect.open_message
        if isinstance(assigned, pbs.CannotAskPbs):
            return assigned
        return pbs_jobs.contradiction_error(node, assigned, self.user) if assigned else ""

    @abstractmethod
    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Change the order of jobs by the server's method; return why not, by job."""

    @abstractmethod
    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set the earliest start of each job, 0 for now; return why not, by job."""

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return what the server shows of each of these running jobs."""
        running = [each for each in self._jobs(self._read_server()) if each.job.state is JobState.RUNNING]
        return {each.job.job_id: each.permit for each in running if each.job.job_id in jobs and each.permit}

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """Send the processes of each job its signal; return why not, by job."""
        return pbs.change_by_value(self.commands, "qsig", "-s", {job: f"SIG{name}" for job, name in signals.items()})

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """Requeue these jobs, which the server refuses if they are not rerunnable; return why not, by job."""
        return pbs.change_jobs(self.commands, "qrerun", (), names)

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write each job's comment, "" removes offpeak's; return the errors by job."""
        return pbs_jobs.notify_owners(self.commands, comments, lambda: self._jobs(self._read_server()))

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        """Set `scheduling` to the value that it has, which starts a cycle; return why not, by job."""
        if is_stopped(self._server()[1]):
            return dict.fromkeys(jobs, "scheduling = False: an admin has stopped it")
        refusal = self._run([("qmgr", "-c", "set server scheduling = true")])
        return dict.fromkeys(jobs, refusal) if refusal else {}

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Order the change of these nodes; return why not, by node."""
        now_s = int(self.clock())
        present = {node.name: node for node in self._nodes(self._queues(), now_s)}
        refusals = {name: change_refusal(name, present, change) for name in nodes}
        for name in nodes:
            if not refusals[name] and not is_change_done(present[name], change):
                refusals[name] = self._run(self.dialect.node_commands(present[name], change, reason, now_s))
        return {name: refusal for name, refusal in refusals.items() if refusal}

    def _limits(self) -> SiteLimits:
        """Return what is known of limits and of the order of jobs."""
        return SiteLimits()

    @abstractmethod
    def _sched_config(self) -> Path:
        """Return the file of the scheduler's settings on the server's host."""

    @abstractmethod
    def _complete(self, contract: PbsContract) -> tuple[str, PbsContract]:
        """Return the command that moves jobs and how that is known, and the contract with what the dialect adds."""

    def _read_sched_config(self) -> SchedConfig | None:
        """Return the settings of the scheduler, None if the file is not here, or this user cannot read it."""
        try:
            return parse_sched_config(self._sched_config().read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None

    def _run(self, commands: Sequence[Command]) -> str:
        """Run the commands until one fails; return its failure, "" if none fails."""
        for program, *arguments in commands:
            result = self.commands.change(program, *arguments)
            if result.code or result.complaints:
                return str(pbs.failure(program, result))
        return ""

    def _server(self) -> tuple[str, dict[str, str]]:
        return next(iter(pbs.parse_attributes(self.commands.query("qstat", "-B", "-f")).items()), ("", {}))

    def _queues(self) -> pbs.AttributesByName:
        return pbs.parse_attributes(self.commands.query("qstat", "-Q", "-f"))

    def _read_server(self) -> PbsServer:
        """Return the server with its queues. Raises CannotAskPbs if it hides the jobs of other users."""
        queues = self._queues()
        return PbsServer(*self._server_that_shows_jobs(), queues)

    def _jobs(self, server: PbsServer) -> tuple[pbs_jobs.PbsJob, ...]:
        """Return all jobs. Raises CannotAskPbs if the server counts more jobs, or hides some."""

        def read() -> pbs_jobs.Listing:
            jobs = self._read_jobs(server)
            return jobs, sum(each.job.state is not JobState.ENDED for each in jobs)

        jobs = pbs_jobs.read_all_jobs(read, lambda: self._server_that_shows_jobs()[1], server.attributes)
        return with_priority_classes(jobs, server.queues, self._share_entity(server))

    def _share_entity(self, server: PbsServer) -> str:  # noqa: ARG002
        """Return the entity of fair share within which jobs may change places, "" for all jobs."""
        return read_fair_share_entity(self._read_sched_config())

    @abstractmethod
    def _read_jobs(self, server: PbsServer) -> tuple[pbs_jobs.PbsJob, ...]:
        """Return the jobs that qstat shows."""

    def _holding_jobs(self) -> tuple[pbs_jobs.PbsJob, ...]:
        """Return the jobs that may have nodes: an order for one node does not wait for a long queue."""
        _, attributes = self._server_that_shows_jobs()

        def select() -> list[str]:
            return self.commands.query("qselect", *self.dialect.qselect_holding).decode().split()

        def read(names: Sequence[str]) -> tuple[pbs_jobs.PbsJob, ...]:
            answer = self.commands.query("qstat", *self.dialect.qstat_holding, *names)
            return self.dialect.parse_holding_jobs(answer)

        return pbs_jobs.read_all_jobs(
            lambda: pbs_jobs.read_holding_jobs(select, read),
            # Rights that this user has after the answer, it had for it.
            lambda: self._server_that_shows_jobs()[1],
            attributes,
            without=pbs_jobs.STATES_WITHOUT_NODES,
        )

    def _server_that_shows_jobs(self) -> tuple[str, dict[str, str]]:
        """Return the server's name and attributes. Raises CannotAskPbs if it hides the jobs of other users."""
        name, attributes = self._server()
        if hidden := pbs_jobs.find_hidden_jobs(name, attributes, self.user):
            raise pbs.CannotAskPbs(f"qstat: {hidden[0]}", hint=hidden[1])
        return name, attributes

    def _nodes(self, queues: pbs.AttributesByName, now_s: int) -> tuple[Node, ...]:
        return self._parse_nodes(self._pbsnodes(), pbs.execution_queues(queues), now_s)

    def _pbsnodes(self) -> bytes:
        return self.commands.query("pbsnodes", *self.dialect.pbsnodes_all)

    def _with_reservations(self, nodes: tuple[Node, ...], _pbsnodes: bytes, _now_s: int) -> ReservedNodes:
        """Return the nodes and the server's reservations; Torque's server has none."""
        return ReservedNodes(nodes)

    def _parse_nodes(self, answer: bytes, queues: Mapping[str, str], now_s: int) -> tuple[Node, ...]:
        return self.dialect.parse_nodes(answer, queues, now_s, self.settings.boot_s)


def unclear_record(node: str, state: str, details: str = "") -> pbs.CannotAskPbs:
    """Return the error for a node whose record does not show whether it is assigned to jobs."""
    message = f"pbsnodes: shows {node} in the state {state!r}{details}"
    return pbs.CannotAskPbs(message, hint=f"look at it: pbsnodes {node}")
