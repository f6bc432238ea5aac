"""Torque behind the port of all schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence

from offpeak.model.orders import NodeChange
from offpeak.settings.schedulers import PbsSettings
from plugin.pbs import torque_jobs, torque_nodes
from plugin.pbs.commands import CannotAskPbs, PbsCommands
from plugin.pbs.demand import with_demand
from plugin.pbs.fields import execution_queues, parse_attributes
from plugin.pbs.jobs import (
    STATES_WITHOUT_NODES,
    PbsJob,
    PbsUser,
    contradiction_error,
    current_user,
    find_hidden_jobs,
    holders,
    read_all_jobs,
    read_holding_jobs,
    tell_owners,
    with_holders,
)
from plugin.pbs.torque_jobs import (
    NO_METHOD,
    ReorderMethod,
    defer_jobs,
    find_reorder_method,
    jobs_of_xml,
    position_value,
    set_priorities,
    swap_positions,
)
from plugin.pbs.torque_nodes import OFFLINE, change_nodes, given_of_xml, nodes_of_xml
from plugin.scheduler.node import Node
from plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView


class TorqueScheduler:
    """Torque, read as XML; `clock` tells Unix seconds. Nothing is ever started by us: that goes past all checks.

    `asker` is whom the server takes us for, if not this process's user.
    """

    def __init__(
        self, settings: PbsSettings, *, clock: Callable[[], float] = time.time, asker: PbsUser | None = None
    ) -> None:
        self._settings, self._clock, self._asker = settings, clock, asker or current_user()
        self._commands = PbsCommands(settings.command or (), timeout_s=float(settings.timeout_s))

    def traits(self) -> SchedulerTraits:
        """Return what the server and its scheduler's configuration say."""
        name, told = self._server()
        found, blind = find_reorder_method(self._settings), find_hidden_jobs(name, told, self._asker)
        troubles = [blind] if blind else []
        troubles += [(found.why, found.hint)] if found.hint else []
        if told.get("scheduling", "True") != "True":
            troubles.append(("scheduling = False: nothing is started", "qmgr -c 'set server scheduling = true'"))
        return SchedulerTraits(
            name="torque",
            version=told.get("pbs_version", ""),
            ranking=Ranking.VALUE,
            power_saving=True,
            boot_s=self._settings.boot_s,
            shared_nodes=True,
            problems=tuple(troubles),
            cluster=name,
            reorder_method=found.words,
        )

    def view(self) -> SchedulerView:
        """Return all jobs, also those that ended within keep_completed, and all nodes."""
        at_s = int(self._clock())
        told, nodes = self._jobs(), self._nodes(at_s)
        nodes = with_holders(nodes, told)
        return SchedulerView(at_s, with_demand(told, nodes, at_s), nodes, ())

    def in_use(self, node: str) -> str:
        """Return why the node is not free, "" if it is: offline, no job holds it, not even a suspended one, and its
        own record shows no job. CannotAskPbs where jobs and record contradict each other.
        """
        jobs = holders(self._holding_jobs()).get(node)
        # The record comes last: that the node is closed and free holds for one instant.
        answer = self._commands.ask("pbsnodes", *torque_nodes.PBSNODES_ARGUMENTS, node)
        found = [each for each in self._nodes_of((), answer, int(self._clock())) if each.name == node]
        if len(found) != 1:
            raise CannotAskPbs(f"pbsnodes: no node {node}", hint="`pbsnodes -a` shows them all")
        if jobs:
            return f"runs {', '.join(jobs)}"
        if OFFLINE not in found[0].native_state.split(","):
            return "is not offline: a job may start there"
        if given := given_of_xml(answer, node):
            raise contradiction_error(node, given, self._asker)
        return ""

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities, or exchange places, as the scheduler sorts; return why not, by job."""
        match find_reorder_method(self._settings).route:
            case ReorderMethod.PRIORITY:
                return set_priorities(self._commands, values)
            case ReorderMethod.SWAP:
                return swap_positions(self._commands, values, self._jobs())
            case ReorderMethod.NONE:
                return dict.fromkeys(values, NO_METHOD)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set when each job may start at the earliest, 0 for now; return why not, by job."""
        return defer_jobs(self._commands, begin_s, int(self._clock()))

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write each job's comment, "" takes ours away; return why not, by job."""
        return tell_owners(self._commands, comments, self._jobs)

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Tell Torque of these nodes; return why not, by node."""
        now_s = int(self._clock())

        def known() -> dict[str, Node]:
            return {node.name: node for node in self._nodes(now_s)}

        return change_nodes(nodes, change, reason=reason, known=known, commands=self._commands, now_s=now_s)

    def _server(self) -> tuple[str, dict[str, str]]:
        return next(iter(parse_attributes(self._commands.ask("qstat", "-B", "-f")).items()), ("", {}))

    def _jobs(self) -> tuple[PbsJob, ...]:
        """Return all jobs; CannotAskPbs where the server does not show them, or not those of others."""
        server = self._seeing_server()

        def read() -> tuple[PbsJob, ...]:
            return jobs_of_xml(self._commands.ask("qstat", *torque_jobs.QSTAT_ARGUMENTS))

        told = read_all_jobs(read, lambda: self._server()[1], server)
        if find_reorder_method(self._settings).route is not ReorderMethod.SWAP:
            return told
        return tuple(each._replace(job=each.job._replace(priority=position_value(each.rank))) for each in told)

    def _holding_jobs(self) -> tuple[PbsJob, ...]:
        """Return the jobs that may have nodes: the order on one node shall not wait for a long queue."""
        server = self._seeing_server()

        def select() -> list[str]:
            return self._commands.ask("qselect", *torque_jobs.QSELECT_ON_NODES).decode().split()

        def read(names: Sequence[str]) -> tuple[PbsJob, ...]:
            return jobs_of_xml(self._commands.ask("qstat", *torque_jobs.QSTAT_ARGUMENTS, *names))

        return read_all_jobs(
            lambda: read_holding_jobs(select, read), lambda: self._server()[1], server, without=STATES_WITHOUT_NODES
        )

    def _seeing_server(self) -> dict[str, str]:
        """Return the server's attributes; CannotAskPbs where it does not show us the jobs of others."""
        name, server = self._server()
        if blind := find_hidden_jobs(name, server, self._asker):
            raise CannotAskPbs(f"qstat: {blind[0]}", hint=blind[1])
        return server

    def _nodes(self, now_s: int) -> tuple[Node, ...]:
        queues = execution_queues(parse_attributes(self._commands.ask("qstat", "-Q", "-f")))
        return self._nodes_of(queues, self._commands.ask("pbsnodes", *torque_nodes.PBSNODES_ARGUMENTS), now_s)

    def _nodes_of(self, queues: Sequence[str], answer: bytes, now_s: int) -> tuple[Node, ...]:
        return nodes_of_xml(answer, queues=queues, now_s=now_s, boot_s=self._settings.boot_s)
