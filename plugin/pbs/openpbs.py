"""OpenPBS's dialect of PBS: its jobs, its nodes, and their changes.

Each job is one record of `qstat -t -f -F json`; the tasks of an array are jobs of their own. The record of a task that
waits does not name its array: only the job's name shows it. qstat prints no JSON at all if a variable of one job is
unusual, such as one without "="; the text of `qstat -t -f` is read then.

Each node is one record of `pbsnodes -a -F json`, read directly before its change: what an admin set offline stays as it
is. A closed node is in the state `sleep` already: it gets no new job, and its jobs go on. When it is off and its daemon
registers again, the server itself ends that state. A change adds or removes the state `sleep`, and only where that
changes something: `state = sleep` and `state = free` overwrite the whole state, also the server's own `down`, which the
server does not notice a second time.
"""

import logging
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from offpeak.model.orders import NodeChange, PowerState
from offpeak.model.request import Request
from offpeak.plugin.contract.pbs import OPENPBS_RULES, PbsContract
from offpeak.plugin.pbs import scheduler
from offpeak.plugin.pbs.accounting import openpbs_home
from offpeak.plugin.pbs.commands import (
    HINTS_VARIABLE,
    CannotAskPbs,
    PbsCommands,
    PbsIsSilent,
    Record,
    as_int,
    as_text,
    as_time_s,
    change_by_value,
    ctime_s,
    has_dependency,
    hints_comment,
    hosts_of,
    invalid_job_numbers,
    json_part,
    json_records,
    limit_s,
    memory_mib,
    one_line,
    parse_json,
    requeue_permit,
)
from offpeak.plugin.pbs.jobs import ALWAYS_MANAGER, PbsJob, array_of, chunks_of, job_reason, with_memory
from offpeak.plugin.pbs.openpbs_server import (
    BEGIN_RESOURCE,
    DEFAULT_SCHEDULER,
    FORMULA_SCALE,
    NODE_RESOURCE,
    OUR_RESOURCES,
    PRIORITY_RESOURCE,
    hook_failures,
    parse_formula,
    parse_hooks,
    parse_resources,
    parse_schedulers,
)
from offpeak.plugin.pbs.reservations import (
    EXCLUSIVE,
    RSTAT,
    UNDER_MAINTENANCE,
    PbsReservation,
    ReservedNodes,
    apply_reservations,
    parse_reservations,
    reservation_names,
)
from offpeak.plugin.pbs.rights import EACH_JOB, SCHED_CONFIG, order_keys, read_fair_share_entity
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking

LOG = logging.getLogger("offpeak")

USUAL_IDLE_LIMIT_S = 1800
"""The node_idle_limit of the hook PBS_power, which only root can read."""

STATES = {
    # An array of which some tasks have begun.
    "B": JobState.RUNNING,
    "E": JobState.ENDS,
    "F": JobState.ENDED,
    "H": JobState.HELD,
    "M": JobState.ENDED,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
    # It waits for its time; then the server itself releases it.
    "W": JobState.PENDING,
    "X": JobState.ENDED,
}


_JOB_ID = re.compile(r"^Job Id: (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^    (\S+) = (.*)$", re.MULTILINE)
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NO_ESCAPE = re.compile(r"(?<!\\),")

SiteValue = Callable[[Record], float]
"""The value of the site's own formula for a job's record, without our term."""

_MARK = re.compile(rf"({'|'.join(scheduler.MarkKind)})\.(\d+)")

DOWN, OFFLINE, SLEEP, UNKNOWN = "down", "offline", "sleep", "state-unknown"
FAILED = frozenset({DOWN, "stale", "unresolvable"})
USED = frozenset({"job-busy", "job-exclusive", "busy"})
RESERVED = frozenset({EXCLUSIVE, UNDER_MAINTENANCE})
KNOWN = FAILED | USED | RESERVED | {OFFLINE, SLEEP, "free"}

VARIOUS = "<various>"
"""What a host's record shows for values in which its virtual nodes differ."""
SEVERAL_VNODES = "several vnodes"
"""Added to the state of a host with several virtual nodes: no known state, so that such a host is never switched."""

# These resources are amounts or names, not kinds of nodes.
_NO_FEATURES = OUR_RESOURCES | {"arch", "host", "vnode", "mem", "vmem", "ncpus", "accelerator_memory", "hbmem"}


def parse_jobs(
    parse: Callable[[bytes, SiteValue], tuple[PbsJob, ...]], answer: bytes, server: scheduler.PbsServer
) -> tuple[PbsJob, ...]:
    """Return the jobs of qstat's answer, with the values of the site's own formula."""
    formula = parse_formula(server.attributes.get("job_sort_formula", ""))
    priorities = {name: as_int(attributes.get("Priority")) for name, attributes in server.queues.items()}
    jobs = parse(answer, partial(formula.site_value, queue_priority=priorities))
    if "job_priority" not in formula.site:
        return jobs
    # The value of the formula has it already.
    return tuple(each._replace(job=each.job._replace(priority_class="")) for each in jobs)


def jobs_of_json(answer: bytes, site_value: SiteValue) -> tuple[PbsJob, ...]:
    """Return the jobs of qstat's answer. Raises CannotAskPbs if it is no JSON."""
    return _jobs_of_records(json_records(parse_json(answer, source="qstat -f -F json"), "Jobs"), site_value)


def jobs_of_text(answer: bytes, site_value: SiteValue) -> tuple[PbsJob, ...]:
    """Return the jobs of the answer to `qstat -f`.

    A user can put lines into the environment that look like those of another job. Therefore the first of several values
    counts, but each place adds nodes, and a job with two states may have nodes.
    """
    pieces = _JOB_ID.split(answer.decode(errors="replace").replace("\n\t", ""))[1:]
    records: dict[str, dict[str, Any]] = {}
    for name, rest in zip(pieces[::2], pieces[1::2], strict=True):
        record = records.setdefault(name, {"Resource_List": {}, "estimated": {}})
        for field, value in _FIELD.findall(rest):
            whole, _, part = field.partition(".")
            if field in ("exec_vnode", "exec_host"):
                record["exec_vnode"] = f"{record.get('exec_vnode', '')}+{value}"
            elif field == "job_state":
                record[field] = value if record.get(field, value) == value else ""
            elif field == "Variable_List":
                record.setdefault(field, dict(_variables(value)))
            elif part and whole in ("Resource_List", "estimated"):
                record[whole].setdefault(part, float(value) if _NUMBER.fullmatch(value) else value)
            else:
                record.setdefault(field, value)
    return _jobs_of_records(records, site_value)


def _variables(value: str) -> Iterator[tuple[str, str]]:
    for entry in _NO_ESCAPE.split(value):
        name, sign, text = entry.partition("=")
        if sign:
            yield name, text.replace("\\,", ",")


def _jobs_of_records(found: Mapping[str, Record], site_value: SiteValue) -> tuple[PbsJob, ...]:
    split = {array_of(name) for name in found}
    # The server lists an array once more as a whole if it lists its tasks; only that record shows the limit of tasks.
    limits = {name: as_int(found[name].get("max_run_subjobs")) for name in split & found.keys()}
    pbs_jobs = (_job(name, record, site_value) for name, record in found.items() if name not in split)
    return tuple(
        each._replace(job=each.job._replace(task_limit=limits.get(each.job.array_id, 0))) if each.job.array_id else each
        for each in pbs_jobs
    )


def request_of(record: Record) -> Request:
    """Return what a job requests."""
    resources = json_part(record, "Resource_List")
    select, place = as_text(record.get("schedselect") or resources.get("select")), as_text(resources.get("place"))
    chunks = chunks_of(select or f"1:ncpus={as_int(resources.get('ncpus')) or 1}")
    return Request(
        partitions=(as_text(record["queue"]),) if "queue" in record else (),
        chunks=with_memory(chunks, 0 if select else memory_mib(resources.get("mem"))),
        apart="scatter" in place,
        whole_nodes="excl" in place,
    )


def _job(name: str, record: Record, site_value: SiteValue) -> PbsJob:
    resources, estimated = json_part(record, "Resource_List"), json_part(record, "estimated")
    state = STATES.get(as_text(record.get("job_state")), JobState.OTHER)
    request = request_of(record)
    hosts = hosts_of(as_text(record.get("exec_vnode") or record.get("exec_host")))
    limit = limit_s(resources.get("walltime", resources.get("max_walltime")))
    waits_until_s = ctime_s(as_text(record.get("Execution_Time"))) or 0
    has_started = state in HOLDING or state is JobState.ENDED
    start_s = ctime_s(as_text(record.get("stime"))) if has_started else None
    end_s = ctime_s(as_text(record.get("obittime"))) or (start_s + limit if start_s and limit else None)
    if state is JobState.PENDING and estimated:
        start_s, hosts = ctime_s(as_text(estimated.get("start_time"))), hosts_of(as_text(estimated.get("exec_vnode")))
    depend, offset, array_id = as_text(record.get("depend")), _offset(resources), array_of(name)
    job = Job(
        job_id=name,
        state=state,
        native_state=as_text(record.get("job_state")),
        reason=job_reason(state, depend, as_text(record.get("Hold_Types")), as_text(record.get("comment"))),
        user=as_text(record.get("euser")) or as_text(record.get("Job_Owner")).partition("@")[0],
        account=as_text(record.get("Account_Name")),
        name=as_text(record.get("Job_Name")),
        comment=hints_comment(as_text(json_part(record, "Variable_List").get(HINTS_VARIABLE))),
        partitions=request.partitions,
        request=request,
        reservation=as_text(record.get("reserve_ID")),
        qos="",
        priority=_scaled(site_value(record)) + offset,
        offset=offset,
        nodes=len(hosts) or as_int(resources.get("nodect")) or 1,
        cpus=as_int(resources.get("ncpus")) or request.cores,
        whole_nodes=request.whole_nodes,
        limit_s=limit,
        submit_s=ctime_s(as_text(record.get("ctime"))) or 0,
        begin_s=max(as_time_s(resources.get(BEGIN_RESOURCE)), waits_until_s) or None,
        start_s=start_s,
        end_s=end_s,
        hosts=",".join(hosts),
        plain=not (has_dependency(depend) or array_id or "array" in record),
        array_id=array_id,
        priority_class=str(as_int(record.get("Priority"))),
    )
    return PbsJob(job, as_int(record.get("queue_rank")), requeue_permit(name, record))


def _offset(resources: Record) -> int:
    value = resources.get(PRIORITY_RESOURCE)
    return _scaled(value) if isinstance(value, int | float) else 0


def _scaled(value: float) -> int:
    """Return a value of the site's formula as a whole number, 0 for one that is none."""
    product = value * FORMULA_SCALE
    return as_int(round(product)) if math.isfinite(product) else 0


def format_openpbs_mark(mark: scheduler.NodeMark) -> str:
    """Return the mark as the resource's value."""
    return f"{mark.kind}.{mark.since_s}"


def parse_openpbs_mark(value: str) -> scheduler.NodeMark | None:
    """Return the mark that a resource's value means, None for none."""
    match = _MARK.fullmatch(value)
    return scheduler.NodeMark(scheduler.MarkKind(match[1]), int(match[2])) if match else None


def nodes_of_json(answer: bytes, queues: Mapping[str, str], now_s: int, boot_s: int) -> tuple[Node, ...]:
    """Return the nodes of pbsnodes' answer. Raises CannotAskPbs if it is no JSON.

    A node without a queue is in all of its partition that have no nodes of their own; `queues` have their partitions.
    A host with several virtual nodes is one node in an unknown state, which is never switched: its record sums them up,
    and `state += sleep` would close only one.
    """
    found = json_records(parse_json(answer, source="pbsnodes -a -F json"), "nodes")
    own = {as_text(record.get("queue")) for record in found.values()}
    others: dict[str, list[str]] = {}
    for queue, partition in queues.items():
        if queue not in own:
            others.setdefault(partition, []).append(queue)
    return tuple(
        _node(name, record, tuple(others.get(as_text(record.get("partition")), ())), now_s, boot_s)
        for name, record in found.items()
    )


def assigned_of_json(answer: bytes, nodes: Collection[str]) -> dict[str, scheduler.Assigned]:
    """Return what each node's own record shows; it is not clear without assigned resources, or in an unknown state."""
    records = json_records(parse_json(answer, source="pbsnodes -a -F json"), "nodes")
    return {node: _assigned(node, records.get(node, {})) for node in nodes}


def _assigned(node: str, record: Record) -> scheduler.Assigned:
    state, jobs = _state_of(record), record.get("jobs")
    states, resources = frozenset(state.split(",")), record.get("resources_assigned")
    if not states <= KNOWN or not isinstance(resources, dict):
        return scheduler.unclear_record(node, state, f", with resources_assigned {resources!r}")
    found = [f"state {name}" for name in sorted(states & (USED | RESERVED))]
    found += [f"jobs {jobs}"] if jobs else []
    return found + [f"resources_assigned.{name} {value}" for name, value in resources.items() if not _is_nothing(value)]


def _is_nothing(value: object) -> bool:
    return re.fullmatch(r"0+(\.0*)?([kmgtp]?[bw])?", as_text(value), re.IGNORECASE) is not None


def _node(name: str, record: Record, queues: tuple[str, ...], now_s: int, boot_s: int) -> Node:
    native_state = _state_of(record)
    states = frozenset(native_state.split(","))
    available, assigned = json_part(record, "resources_available"), json_part(record, "resources_assigned")
    comment, mark = as_text(record.get("comment")), parse_openpbs_mark(as_text(available.get(NODE_RESOURCE)))
    is_our_comment = comment.startswith(f"{OFFPEAK}:")
    derived = scheduler.derive_node_state(
        # A node that an admin has also set offline is the admin's.
        None if OFFLINE in states else mark,
        closed=bool(states & {SLEEP, OFFLINE}),
        down=bool(states & FAILED),
        # The server itself ends the state `sleep` when the node's daemon registers again.
        registered=False,
        overdue=mark is not None and now_s - mark.since_s > boot_s,
    )
    use = NodeUse.USED if record.get("jobs") or states & USED or as_int(assigned.get("ncpus")) else NodeUse.FREE
    # The server opens a node whose daemon registers, also one that was ordered down and has not gone: our mark stays.
    is_reopened = mark is not None and mark.kind is scheduler.MarkKind.CLOSED
    ours = mark is not None and (SLEEP in states or is_reopened) and OFFLINE not in states
    # After its restart the server shows a node as unknown until its daemon registers, which it cannot before it is up.
    is_not_up = derived.power in (PowerState.OFF, PowerState.POWERING_ON) and DOWN in states
    is_known = states <= KNOWN | ({UNKNOWN} if is_not_up else set())
    return Node(
        name=name,
        native_state=native_state,
        use=use if is_known else NodeUse.UNKNOWN,
        power=derived.power,
        closed=derived.closed,
        failed=derived.failed,
        responds=not states & FAILED,
        reserved=bool(states & RESERVED) or bool(record.get("resv")),
        planned=False,
        # The server overwrites our comment when the node goes down; it stays when the node is back.
        reason=(comment if is_our_comment else OFFPEAK)
        if ours
        else _their_reason("" if is_our_comment else comment, states),
        reason_by="",
        reason_s=mark.since_s if ours and mark is not None else None,
        partitions=_partitions(as_text(record.get("queue")), queues, differ=SEVERAL_VNODES in states),
        features=tuple(
            name for key, value in available.items() if key not in _NO_FEATURES for name in _features(key, value)
        ),
        cpus=as_int(available.get("ncpus")),
        cpus_used=as_int(assigned.get("ncpus")),
        memory_mib=memory_mib(available.get("mem")),
        boot_s=None,
        idle_since_s=as_int(record.get("last_used_time")) or None if use is NodeUse.FREE else None,
        gpus=(("", gpus),) if (gpus := as_int(available.get("ngpus"))) else (),
        suspend_s=USUAL_IDLE_LIMIT_S if as_text(record.get("poweroff_eligible")) == "True" else None,
    )


def _state_of(record: Record) -> str:
    state = as_text(record.get("state"))
    is_several = state and as_text(json_part(record, "resources_available").get("vnode")) == VARIOUS
    return f"{state},{SEVERAL_VNODES}" if is_several else state


def _partitions(own_queue: str, queues: tuple[str, ...], *, differ: bool) -> tuple[str, ...]:
    """Return the queues of a node; the virtual nodes of a host may `differ`, and one of their queues is shown."""
    if not own_queue or own_queue == VARIOUS:
        return queues
    return (own_queue, *queues) if differ else (own_queue,)


def _their_reason(comment: str, states: frozenset[str]) -> str:
    is_away = states & (FAILED | {OFFLINE, SLEEP})
    return comment or (f"state {','.join(sorted(states))}" if is_away else "")


def _features(key: str, value: object) -> list[str]:
    if value in ("True", True):
        return [key]
    return [name for name in as_text(value).split(",") if name] if isinstance(value, str) and value != "False" else []


def node_commands(node: Node, change: NodeChange, reason: str, now_s: int) -> list[scheduler.Command]:
    """Return the commands for a change of a node; qmgr executes each completely or not at all."""
    sleeps = SLEEP in node.native_state.split(",")
    if sleeps and (mark := scheduler.mark_of_sleeping(node, change, now_s)):
        text = f'comment = "{one_line(reason)}"'
        return [("qmgr", "-c", f"set node {node.name} {_mark_assignment(mark.kind, mark.since_s)}, {text}")]
    return [("qmgr", "-c", line) for line in qmgr_directives(node.name, change, reason, now_s, sleeps=sleeps)]


def qmgr_directives(node: str, change: NodeChange, reason: str, now_s: int, *, sleeps: bool) -> tuple[str, ...]:
    """Return qmgr's directives for a change, in order; each is done wholly or not. `sleeps`: the state has `sleep`."""
    comment = f'comment = "{one_line(reason)}"'
    close = "" if sleeps else f", state += {SLEEP}"
    match change:
        case NodeChange.CLOSE | NodeChange.WITHDRAW:
            return (f"set node {node} {_mark_assignment(scheduler.MarkKind.CLOSED, now_s)}, {comment}{close}",)
        case NodeChange.POWER_DOWN:
            return (f"set node {node} {_mark_assignment(scheduler.MarkKind.ASLEEP, now_s)}, {comment}{close}",)
        case NodeChange.POWER_UP:
            return (f"set node {node} {_mark_assignment(scheduler.MarkKind.WAKES, now_s)}, {comment}",)
        case NodeChange.OPEN | NodeChange.RESUME:
            opens = (f"set node {node} state -= {SLEEP}",) if sleeps else ()
            return (*opens, f"unset node {node} resources_available.{NODE_RESOURCE}, comment")


def _mark_assignment(kind: scheduler.MarkKind, now_s: int) -> str:
    return f"resources_available.{NODE_RESOURCE} = {format_openpbs_mark(scheduler.NodeMark(kind, now_s))}"


class OpenPbsScheduler(scheduler.PbsScheduler):
    """OpenPBS, read as JSON. `rank` adds a value to the site's own formula, `defer` sets a time for the runjob hook."""

    dialect = scheduler.Dialect(
        name="openpbs",
        ranking=Ranking.TERM,
        rules=OPENPBS_RULES,
        closed_states=frozenset({SLEEP, OFFLINE}),
        open_message="is neither asleep nor offline: a job may start there",
        pbsnodes_all=("-a", "-F", "json"),
        pbsnodes_one=("-F", "json"),
        # The states that may have nodes, also of subjobs. With -T the server takes no other operator.
        qselect_holding=("-T", "-s", "ERSTU"),
        qstat_holding=("-f",),
        # With -F json qstat prints the first of several jobs only.
        parse_holding_jobs=lambda answer: jobs_of_text(answer, lambda _: 0.0),
        parse_nodes=nodes_of_json,
        parse_assigned=assigned_of_json,
        node_commands=node_commands,
    )

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set the value that is added to the site's formula; return the errors by job."""
        formula = parse_formula(self._server()[1].get("job_sort_formula", ""))
        if not formula.ours or formula.problem:
            return dict.fromkeys(values, formula.problem or "our term is not in job_sort_formula")
        added = {job: f"{PRIORITY_RESOURCE}={value / FORMULA_SCALE:.3f}" for job, value in values.items()}
        return _set_resources(self.commands, added)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set the time before which the runjob hook starts no such job, 0 for now; return the errors by job."""
        return _set_resources(self.commands, {job: f"{BEGIN_RESOURCE}={at_s}" for job, at_s in begin_s.items()})

    def _read_jobs(self, server: scheduler.PbsServer) -> tuple[PbsJob, ...]:
        """Return the jobs of the JSON, else of the text: a single job of a user can make all JSON impossible."""
        # A server without job history shows no job at all with -x, not even a running one.
        ended = ("-x",) if server.attributes.get("job_history_enable") == "True" else ()
        arguments = (*ended, "-t", "-f", "-F", "json")
        try:
            return parse_jobs(jobs_of_json, self.commands.query("qstat", *arguments), server)
        except PbsIsSilent:
            raise
        except CannotAskPbs as problem:
            answer = self.commands.query("qstat", *(each for each in arguments if each not in ("-F", "json")))
            _log_once(str(problem))
            return parse_jobs(jobs_of_text, answer, server)

    def _with_reservations(self, nodes: tuple[Node, ...], pbsnodes: bytes, now_s: int) -> ReservedNodes:
        """Return the nodes and the reservations; pbs_rstat runs only if a node has one."""
        named = reservation_names(pbsnodes)
        known = self._read_reservations()[0] if named else {}
        return apply_reservations(nodes, named, known, now_s)

    def _read_reservations(self) -> tuple[dict[str, PbsReservation], list[tuple[str, str]]]:
        """Return the reservations that are known, and why others are not."""
        hint = "the nodes of such a reservation neither sleep nor wake: run `pbs_rstat -f` as the agent's user"
        try:
            known, unclear = parse_reservations(self.commands.query(*RSTAT))
        except PbsIsSilent:
            raise
        except CannotAskPbs as problem:
            return {}, [(str(problem), hint)]
        return known, [(f"pbs_rstat: the times of {', '.join(unclear)} are not clear", hint)] if unclear else []

    def _sched_config(self) -> Path:
        return openpbs_home() / SCHED_CONFIG

    def _share_entity(self, server: scheduler.PbsServer) -> str:
        """Return the entity of fair share; no job is moved where jobs are, or may be, ordered by more than the formula.

        What offpeak adds to the formula counts before fair share and sort keys: a moved job would pass all others.
        """
        config = self._read_sched_config()
        if parse_formula(server.attributes.get("job_sort_formula", "")).site:
            return read_fair_share_entity(config)
        return EACH_JOB if config is None or order_keys(config) else ""

    def _complete(self, contract: PbsContract) -> tuple[str, PbsContract]:
        resources = parse_resources(self.commands.query("qmgr", "-c", "list resource"))
        failures = (*hook_failures(), *self._read_reservations()[1])
        method = f"qalter -l {PRIORITY_RESOURCE}, a term of job_sort_formula"
        dead = tuple(name for name, attributes in self._schedulers().items() if attributes.get("state") == "down")
        return method, replace(
            contract, resources=resources, hooks=self._hooks(), failures=failures, dead_schedulers=dead
        )

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        """Start a cycle of each scheduler: the server's attribute starts that of the default one only."""
        if refused := super().start_cycle(jobs):
            return refused
        for name, attributes in self._schedulers().items():
            if name != DEFAULT_SCHEDULER and attributes.get("scheduling") == "True":
                # Its jobs wait for its next cycle if it refuses.
                self._run([("qmgr", "-c", f"set sched {name} scheduling = true")])
        return {}

    def _schedulers(self) -> Mapping[str, Mapping[str, str]]:
        """Return the schedulers of the server; older servers do not show them."""
        try:
            return parse_schedulers(self.commands.query("qmgr", "-c", "list sched"))
        except PbsIsSilent:
            raise
        except CannotAskPbs:
            return {}

    def _hooks(self) -> frozenset[str] | None:
        """Return the enabled hooks; None if the server does not show them: only root at its host sees them.

        The resource that a hook uses then shows that the hook is there: one command makes both.
        """
        if self.user.user != ALWAYS_MANAGER:
            return None
        try:
            return parse_hooks(self.commands.query("qmgr", "-c", "list hook"))
        except PbsIsSilent:
            raise
        except CannotAskPbs:
            return None


@lru_cache(maxsize=16)
def _log_once(problem: str) -> None:
    LOG.warning("qstat prints no JSON, perhaps because of one job's Variable_List; its text is read: %s", problem)


def _set_resources(commands: PbsCommands, values: Mapping[str, str]) -> dict[str, str]:
    refused = invalid_job_numbers(values)
    accepted = {job: value for job, value in values.items() if job not in refused}
    return refused | change_by_value(commands, "qalter", "-l", accepted)
