"""OpenPBS behind the port of all schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from offpeak.model.orders import NodeChange
from offpeak.settings.schedulers import PbsSettings
from plugin.pbs import openpbs_jobs, openpbs_nodes
from plugin.pbs.commands import CannotAskPbs, PbsCommands, PbsIsSilent
from plugin.pbs.demand import with_demand
from plugin.pbs.fields import AttributesByName, Record, as_int, execution_queues, parse_attributes
from plugin.pbs.jobs import (
    ALWAYS_MANAGER,
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
from plugin.pbs.openpbs_jobs import defer_jobs, jobs_of_json, placed_jobs_of_text, rank_jobs
from plugin.pbs.openpbs_nodes import OFFLINE, SLEEP, change_nodes, given_of_json, nodes_of_json
from plugin.pbs.openpbs_server import (
    PRIORITY_RESOURCE,
    Formula,
    find_problems,
    hook_failures,
    parse_formula,
    parse_hooks,
    parse_resources,
)
from plugin.scheduler.node import Node
from plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView


class OpenPbsScheduler:
    """OpenPBS, read as JSON; `clock` tells Unix seconds. Nothing is ever started by us: that goes past all checks.

    `asker` is whom the server takes us for, if not this process's user.
    """

    def __init__(
        self, settings: PbsSettings, *, clock: Callable[[], float] = time.time, asker: PbsUser | None = None
    ) -> None:
        self._settings, self._clock, self._asker = settings, clock, asker or current_user()
        self._commands = PbsCommands(settings.command or (), timeout_s=float(settings.timeout_s))

    def traits(self) -> SchedulerTraits:
        """Return what the server is set to."""
        name, told = self._server()
        formula = parse_formula(told.get("job_sort_formula", ""))
        resources = parse_resources(self._commands.ask("qmgr", "-c", "list resource"))
        blind = find_hidden_jobs(name, told, self._asker)
        troubles = [*([blind] if blind else []), *find_problems(formula, resources, self._hooks()), *hook_failures()]
        if told.get("scheduling", "True") != "True":
            troubles.append(("scheduling = False: nothing is started", "qmgr -c 'set server scheduling = true'"))
        return SchedulerTraits(
            name="openpbs",
            version=told.get("pbs_version", ""),
            ranking=Ranking.OFFSET,
            power_saving=True,
            boot_s=self._settings.boot_s,
            shared_nodes=True,
            problems=tuple(troubles),
            cluster=name,
            reorder_method=f"qalter -l {PRIORITY_RESOURCE}, a term of job_sort_formula",
        )

    def view(self) -> SchedulerView:
        """Return all jobs and nodes; jobs that ended within job_history_duration too, if the server keeps them."""
        at_s, queues = int(self._clock()), self._queues()
        told, nodes = self._jobs(queues), self._nodes(queues, at_s)
        nodes = with_holders(nodes, told)
        return SchedulerView(at_s, with_demand(told, nodes, at_s), nodes, ())

    def in_use(self, node: str) -> str:
        """Return why the node is not free, "" if it is: closed, no job holds it, not even a suspended one, and its
        own record says that nothing of it is assigned. CannotAskPbs where jobs and record contradict each other.
        """
        jobs = holders(self._holding_jobs()).get(node)
        # The record comes last: that the node is closed and free holds for one instant.
        answer = self._commands.ask("pbsnodes", *openpbs_nodes.PBSNODES_ONE, node)
        found = [each for each in self._nodes_of((), answer, int(self._clock())) if each.name == node]
        # Of a node that it does not know pbsnodes prints a record without a state, and ends with 0.
        if len(found) != 1 or not found[0].native_state:
            raise CannotAskPbs(f"pbsnodes: no node {node}", hint="`pbsnodes -a` shows them all")
        if jobs:
            return f"runs {', '.join(jobs)}"
        words = found[0].native_state.split(",")
        if SLEEP not in words and OFFLINE not in words:
            return "is neither asleep nor offline: a job may start there"
        if given := given_of_json(answer, node):
            raise contradiction_error(node, given, self._asker)
        return ""

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set what is added to the site's formula; return why not, by job."""
        formula = self._formula()
        if not formula.ours or formula.trouble:
            return dict.fromkeys(values, formula.trouble or "our term is not in job_sort_formula")
        return rank_jobs(self._commands, values)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set before when the runjob hook does not let each job start, 0 for now; return why not, by job."""
        return defer_jobs(self._commands, begin_s)

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write each job's comment, "" takes ours away; return why not, by job."""
        return tell_owners(self._commands, comments, lambda: self._jobs(self._queues()))

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Tell the server of these nodes; return why not, by node."""
        now_s = int(self._clock())

        def known() -> dict[str, Node]:
            return {node.name: node for node in self._nodes(self._queues(), now_s)}

        return change_nodes(nodes, change, reason=reason, known=known, commands=self._commands, now_s=now_s)

    def _server(self) -> tuple[str, dict[str, str]]:
        return next(iter(parse_attributes(self._commands.ask("qstat", "-B", "-f")).items()), ("", {}))

    def _hooks(self) -> frozenset[str] | None:
        """Return the enabled hooks; None where the server does not show them, which it does to root at its host only.

        The resource that a hook uses is the evidence then that the hook is there: one command makes both.
        """
        if self._asker.user != ALWAYS_MANAGER:
            return None
        try:
            return parse_hooks(self._commands.ask("qmgr", "-c", "list hook"))
        except PbsIsSilent:
            raise
        except CannotAskPbs:
            return None

    def _formula(self) -> Formula:
        return parse_formula(self._server()[1].get("job_sort_formula", ""))

    def _queues(self) -> AttributesByName:
        return parse_attributes(self._commands.ask("qstat", "-Q", "-f"))

    def _jobs(self, queues: AttributesByName) -> tuple[PbsJob, ...]:
        """Return all jobs; CannotAskPbs where the server does not show them, or not those of others."""
        server = self._seeing_server()
        formula = parse_formula(server.get("job_sort_formula", ""))
        priorities = {name: as_int(told.get("Priority")) for name, told in queues.items()}
        site_value: Callable[[Record], float] = partial(formula.site_value, queue_priority=priorities)
        # Asked in each cycle: an admin may switch the history on and off while the agent runs.
        history = (openpbs_jobs.WITH_ENDED_JOBS,) if server.get(openpbs_jobs.HISTORY) == "True" else ()

        def read() -> tuple[PbsJob, ...]:
            return jobs_of_json(self._commands.ask("qstat", *history, *openpbs_jobs.QSTAT_ARGUMENTS), site_value)

        return read_all_jobs(read, lambda: self._server()[1], server)

    def _holding_jobs(self) -> tuple[PbsJob, ...]:
        """Return the jobs that may have nodes: the order on one node shall not wait for a long queue."""
        server = self._seeing_server()

        def select() -> list[str]:
            return self._commands.ask("qselect", *openpbs_jobs.QSELECT_ON_NODES).decode().split()

        def read(names: Sequence[str]) -> tuple[PbsJob, ...]:
            return placed_jobs_of_text(self._commands.ask("qstat", "-f", *names))

        return read_all_jobs(
            lambda: read_holding_jobs(select, read), lambda: self._server()[1], server, without=STATES_WITHOUT_NODES
        )

    def _seeing_server(self) -> dict[str, str]:
        """Return the server's attributes; CannotAskPbs where it does not show us the jobs of others."""
        name, server = self._server()
        if blind := find_hidden_jobs(name, server, self._asker):
            raise CannotAskPbs(f"qstat: {blind[0]}", hint=blind[1])
        return server

    def _nodes(self, queues: AttributesByName, now_s: int) -> tuple[Node, ...]:
        return self._nodes_of(
            execution_queues(queues), self._commands.ask("pbsnodes", *openpbs_nodes.PBSNODES_ARGUMENTS), now_s
        )

    def _nodes_of(self, queues: Sequence[str], answer: bytes, now_s: int) -> tuple[Node, ...]:
        return nodes_of_json(answer, queues=queues, now_s=now_s, boot_s=self._settings.boot_s)
