"""Torque behind the port of all schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence

from offpeak.settings.schedulers import PbsSettings
from plugin.pbs.ask import CannotAskPbs, PbsCommands
from plugin.pbs.begin_time import defer_jobs
from plugin.pbs.demand import with_demand
from plugin.pbs.holding import holders, read_holding_jobs, with_holders
from plugin.pbs.job_comments import tell_owners
from plugin.pbs.queues_text import execution_queues, texts_of
from plugin.pbs.sight import NOT_ON_NODES, Asker, blindness, checked_jobs, contradiction, this_process
from plugin.pbs.told_job import ToldJob
from plugin.scheduler.node import Node
from plugin.scheduler.port import NodeChange, Ranking, SchedulerTraits, SchedulerView
from plugin.torque import jobs_xml, nodes_xml
from plugin.torque.change_jobs import NO_ROUTE, as_value, by_priority, by_swaps
from plugin.torque.change_nodes import change_nodes
from plugin.torque.jobs_xml import jobs_of_xml
from plugin.torque.nodes_xml import OFFLINE, given_of_xml, nodes_of_xml
from plugin.torque.order import Route, route_of


class TorqueScheduler:
    """Torque, read as XML; `clock` tells Unix seconds. Nothing is ever started by us: that goes past all checks.

    `asker` is whom the server takes us for, if not this process's user.
    """

    def __init__(
        self, settings: PbsSettings, *, clock: Callable[[], float] = time.time, asker: Asker | None = None
    ) -> None:
        self._settings, self._clock, self._asker = settings, clock, asker or this_process()
        self._commands = PbsCommands(settings.command or (), timeout_s=float(settings.timeout_s))

    def traits(self) -> SchedulerTraits:
        """Return what the server and its scheduler's configuration say."""
        name, told = self._server()
        found, blind = route_of(self._settings), blindness(name, told, self._asker)
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
            troubles=tuple(troubles),
            cluster=name,
            order_words=found.words,
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
        answer = self._commands.ask("pbsnodes", *nodes_xml.ARGUMENTS, node)
        found = [each for each in self._nodes_of((), answer, int(self._clock())) if each.name == node]
        if len(found) != 1:
            raise CannotAskPbs(f"pbsnodes: no node {node}", hint="`pbsnodes -a` shows them all")
        if jobs:
            return f"runs {', '.join(jobs)}"
        if OFFLINE not in found[0].state_word.split(","):
            return "is not offline: a job may start there"
        if given := given_of_xml(answer, node):
            raise contradiction(node, given, self._asker)
        return ""

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities, or exchange places, as the scheduler sorts; return why not, by job."""
        match route_of(self._settings).route:
            case Route.PRIORITY:
                return by_priority(self._commands, values)
            case Route.SWAP:
                return by_swaps(self._commands, values, self._jobs())
            case Route.NONE:
                return dict.fromkeys(values, NO_ROUTE)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set when each job may start at the earliest, 0 for now; return why not, by job."""
        return defer_jobs(self._commands, begin_s, int(self._clock()))

    def tell(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write each job's comment, "" takes ours away; return why not, by job."""
        return tell_owners(self._commands, comments, self._jobs)

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Tell Torque of these nodes; return why not, by node."""
        now_s = int(self._clock())

        def known() -> dict[str, Node]:
            return {node.name: node for node in self._nodes(now_s)}

        return change_nodes(nodes, change, reason=reason, known=known, commands=self._commands, now_s=now_s)

    def _server(self) -> tuple[str, dict[str, str]]:
        return next(iter(texts_of(self._commands.ask("qstat", "-B", "-f")).items()), ("", {}))

    def _jobs(self) -> tuple[ToldJob, ...]:
        """Return all jobs; CannotAskPbs where the server does not show them, or not those of others."""
        server = self._seeing_server()

        def read() -> tuple[ToldJob, ...]:
            return jobs_of_xml(self._commands.ask("qstat", *jobs_xml.ARGUMENTS))

        told = checked_jobs(read, lambda: self._server()[1], server)
        if route_of(self._settings).route is not Route.SWAP:
            return told
        return tuple(each._replace(job=each.job._replace(priority=as_value(each.rank))) for each in told)

    def _holding_jobs(self) -> tuple[ToldJob, ...]:
        """Return the jobs that may have nodes: the order on one node shall not wait for a long queue."""
        server = self._seeing_server()

        def select() -> list[str]:
            return self._commands.ask("qselect", *jobs_xml.ON_NODES).decode().split()

        def read(names: Sequence[str]) -> tuple[ToldJob, ...]:
            return jobs_of_xml(self._commands.ask("qstat", *jobs_xml.ARGUMENTS, *names))

        return checked_jobs(
            lambda: read_holding_jobs(select, read), lambda: self._server()[1], server, without=NOT_ON_NODES
        )

    def _seeing_server(self) -> dict[str, str]:
        """Return the server's attributes; CannotAskPbs where it does not show us the jobs of others."""
        name, server = self._server()
        if blind := blindness(name, server, self._asker):
            raise CannotAskPbs(f"qstat: {blind[0]}", hint=blind[1])
        return server

    def _nodes(self, now_s: int) -> tuple[Node, ...]:
        queues = execution_queues(texts_of(self._commands.ask("qstat", "-Q", "-f")))
        return self._nodes_of(queues, self._commands.ask("pbsnodes", *nodes_xml.ARGUMENTS), now_s)

    def _nodes_of(self, queues: Sequence[str], answer: bytes, now_s: int) -> tuple[Node, ...]:
        return nodes_of_xml(answer, queues=queues, now_s=now_s, boot_s=self._settings.boot_s)
