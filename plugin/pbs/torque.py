"""Torque's dialect of PBS: its jobs, its nodes, and their changes.

Each job is one record of `qstat -x -t`; the tasks of an array are jobs of their own. How jobs change their positions
depends on the scheduler that starts them and on its sort key. `qalter -a` sets the time before which a job does not
start: the server puts the job into the state W, which the scheduler ignores, and releases it by itself. A hold would
stay for ever if the agent died first, and could not be distinguished from a hold of the owner or of an admin.

Each node is one record of `pbsnodes -x`, read directly before its change: an admin's offline node stays.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from offpeak.model.limits import PriorityOrder, SiteLimits, SitePriority
from offpeak.model.orders import NodeChange, PowerState
from offpeak.model.request import Request
from offpeak.plugin.contract.pbs import TORQUE_RULES, PbsContract
from offpeak.plugin.pbs import commands as pbs
from offpeak.plugin.pbs import scheduler
from offpeak.plugin.pbs.jobs import PbsJob, array_of, chunks_of, job_reason, parse_tasks, with_memory
from offpeak.plugin.pbs.rights import SCHED_CONFIG
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking
from offpeak.settings.agent import PbsSettings

STATES = {
    "C": JobState.ENDED,
    "E": JobState.ENDS,
    "H": JobState.HELD,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    # It waits for its time; then the server itself releases it.
    "W": JobState.PENDING,
}


_COUNTED_RESOURCES = frozenset({"nodes", "procs", "ncpus"})
_WHOLE_NODE_POLICIES = frozenset({"singlejob", "singletask"})
_HINTS = re.compile(rf"(?:^|(?<!\\),){pbs.HINTS_VARIABLE}=((?:[^,\\]|\\.)*)", re.DOTALL)

AUTO = "auto"
PROC = Path("/proc")
OTHER_SCHEDULERS = ("maui", "moab")
"""Schedulers of their own, which do not read sched_config."""

_SORT_BY = re.compile(r"^\s*sort_by\s*:\s*(\w+)", re.MULTILINE)

LOWEST_PRIORITY, HIGHEST_PRIORITY = -1024, 1023
TOP_VALUE = 2**40
"""Positions in the queue are subtracted from it: the smallest position has the highest value."""
NO_METHOD = "Torque's scheduler sorts by neither priorities nor places"
QUEUE_MOVED = "the queue has changed meanwhile"

_NOTE = re.compile(rf"{OFFPEAK}: (asleep|withdrawn|wakes) since (\d+)")

DOWN, OFFLINE = "down", "offline"
USED = frozenset({"job-exclusive", "job-sharing", "busy"})
RESERVED = "reserve"
KNOWN = USED | {DOWN, OFFLINE, RESERVED, "free", "time-shared"}
RUNNING = "Running"

# 0-3/31.head,4/32[1].head, and one slot each before 6.0: 0/31.head, 1/31.head
_SLOTS = re.compile(r"\s*([\d,-]+)/([^,]+)")
_STATUS = re.compile(r"(?:^|,)(\w+)=([^=]*)(?=,\w+=|$)")


def jobs_of_xml(answer: bytes) -> tuple[PbsJob, ...]:
    """Return the jobs of qstat's answer. Raises CannotAskPbs if it is no XML."""
    return tuple(_job(element) for element in pbs.xml_records(answer, "Job", source="qstat -x"))


def request_of(record: Mapping[str, str], resources: Mapping[str, str], tasks: Mapping[str, str]) -> Request:
    """Return what a job requests by its Resource_List, else by its req_information."""
    request = None if _COUNTED_RESOURCES & resources.keys() else parse_tasks(tasks)
    if request is None:
        whole = resources.get("naccesspolicy", "").lower() in _WHOLE_NODE_POLICIES
        text, apart = _chunks_text(resources)
        request = Request((), chunks_of(text), apart, whole)
    memory, per_processor = (pbs.memory_mib(resources.get(name)) for name in ("mem", "pmem"))
    return request._replace(
        partitions=(record["queue"],) if record.get("queue") else (),
        chunks=with_memory(request.chunks, memory, per_processor),
        qos=resources.get("qos", ""),
    )


def _chunks_text(resources: Mapping[str, str]) -> tuple[str, bool]:
    """Return the chunks of a Resource_List, and whether each needs a node of its own."""
    if "nodes" in resources and not resources["nodes"].startswith("ALL"):
        return resources["nodes"], True
    if "procs" in resources:
        return f"{pbs.as_int(resources['procs']) or 1}:ppn=1", False
    return f"1:ppn={pbs.as_int(resources.get('ncpus')) or 1}", True


def _job(element: ElementTree.Element) -> PbsJob:
    record = pbs.xml_fields(element)
    resources, tasks = _below(element, "Resource_List"), _below(element, "req_information")
    state = STATES.get(record.get("job_state", ""), JobState.OTHER)
    request = request_of(record, resources, tasks)
    hosts = pbs.hosts_of(record.get("exec_host", ""))
    limit = pbs.limit_s(resources.get("walltime"))
    start_s = pbs.as_time_s(record.get("start_time")) if state in HOLDING or state is JobState.ENDED else 0
    end_s = pbs.as_time_s(record.get("comp_time")) or (start_s + limit if start_s and limit else 0)
    depend = record.get("depend", "")
    job = Job(
        job_id=record.get("Job_Id", ""),
        state=state,
        native_state=record.get("job_state", ""),
        reason=job_reason(state, depend, record.get("Hold_Types", ""), record.get("comment", "")),
        user=record.get("euser") or record.get("Job_Owner", "").partition("@")[0],
        account=record.get("Account_Name", ""),
        name=record.get("Job_Name", ""),
        comment=_comment(record.get("Variable_List", "")),
        partitions=request.partitions,
        request=request,
        reservation="",
        qos=request.qos,
        priority=pbs.as_int(record.get("Priority")),
        offset=0,
        nodes=len(hosts) or pbs.as_int(resources.get("nodect")) or request.least_nodes,
        cpus=request.cores,
        whole_nodes=request.whole_nodes,
        limit_s=limit,
        submit_s=pbs.as_time_s(record.get("ctime")),
        begin_s=pbs.as_time_s(record.get("Execution_Time")) or None,
        start_s=start_s or None,
        end_s=end_s or None,
        hosts=",".join(hosts),
        plain=not (pbs.has_dependency(depend) or "[" in record.get("Job_Id", "")),
        array_id=array_of(record.get("Job_Id", "")),
    )
    return PbsJob(job, pbs.as_int(record.get("queue_rank")), pbs.requeue_permit(job.job_id, record))


def _below(element: ElementTree.Element, name: str) -> dict[str, str]:
    found = element.find(name)
    return {} if found is None else pbs.xml_fields(found)


def _comment(variables: str) -> str:
    # Most jobs have no hints, and an environment may be long.
    if f"{pbs.HINTS_VARIABLE}=" not in variables:
        return ""
    match = _HINTS.search(variables)
    return pbs.hints_comment(match[1].replace("\\", "")) if match else ""


class ReorderMethod(StrEnum):
    """PRIORITY: `qalter -p`. SWAP: `qorder`, which exchanges two positions in the queue. NONE: no job is moved."""

    PRIORITY = "priority"
    SWAP = "swap"
    NONE = "none"


COMMANDS = {ReorderMethod.PRIORITY: "qalter -p", ReorderMethod.SWAP: "qorder", ReorderMethod.NONE: "nothing"}
# The sort keys of pbs_sched: with other keys the position depends on the job's size, and neither method changes it.
METHOD_OF_SORT = {"high_priority_first": ReorderMethod.PRIORITY, "no_sort": ReorderMethod.SWAP}


class ReorderFinding(NamedTuple):
    """The method that works here, the evidence, and a hint if no method works."""

    method: ReorderMethod
    why: str
    hint: str = ""

    @property
    def description(self) -> str:
        """The command and the reason for it, as `offpeak check` prints them."""
        return f"{COMMANDS[self.method]}, as {self.why}"


def find_reorder_method(settings: PbsSettings, *, processes: Path = PROC) -> ReorderFinding:
    """Return the method of the settings, else of the scheduler that runs here, else of sched_config."""
    if settings.torque_order != AUTO:
        return ReorderFinding(ReorderMethod(settings.torque_order), "torque_order says")
    if other := find_other_scheduler(processes):
        hint = 'set torque_order below [pbs]: "priority" if its USERPRIOWEIGHT is not 0, else "none"'
        return ReorderFinding(ReorderMethod.NONE, f"{other} runs here", hint)
    return _method_of_config(settings.home / SCHED_CONFIG)


def find_other_scheduler(processes: Path) -> str:
    """Return which of OTHER_SCHEDULERS runs on this machine, "" for none, or where processes of others are hidden."""
    for file in processes.glob("[0-9]*/comm"):
        try:
            name = file.read_text(errors="replace").strip()
        except OSError:
            continue
        if name in OTHER_SCHEDULERS:
            return name
    return ""


def _method_of_config(file: Path) -> ReorderFinding:
    try:
        found = _SORT_BY.findall(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as problem:
        hint = "let offpeak's user read it, and see `home`; or set torque_order below [pbs], as under Maui or Moab"
        return ReorderFinding(ReorderMethod.NONE, f"{file}: {problem.strerror}", hint)
    hint = f"write `sort_by: high_priority_first ALL` into {file} and restart pbs_sched; under Maui or Moab, where"
    hint += ' priorities count, set torque_order = "priority" below [pbs]'
    # In prime time there may be another one.
    sort_by = " and ".join(dict.fromkeys(found)) or "nothing"
    if sort_by in METHOD_OF_SORT:
        return ReorderFinding(METHOD_OF_SORT[sort_by], f"pbs_sched sorts by {sort_by}")
    return ReorderFinding(ReorderMethod.NONE, f"pbs_sched sorts jobs by {sort_by}", hint)


def set_priorities(commands: pbs.PbsCommands, values: Mapping[str, int]) -> dict[str, str]:
    """Set priorities; return why not, by job."""
    refused = pbs.invalid_job_numbers(values)
    refused |= {
        job: f"priority {value} is none"
        for job, value in values.items()
        if not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY
    }
    texts = {job: str(value) for job, value in values.items() if job not in refused}
    return refused | pbs.change_by_value(commands, "qalter", "-p", texts)


def position_value(rank: int) -> int:
    """Return a position in the queue as a priority, larger first."""
    return TOP_VALUE - rank


def swap_positions(commands: pbs.PbsCommands, values: Mapping[str, int], jobs: Sequence[PbsJob]) -> dict[str, str]:
    """Exchange positions until each job has its value's position, if all these positions are theirs; return why not."""
    waiting = {pbs_job.job.job_id: pbs_job for pbs_job in jobs if pbs_job.job.state is JobState.PENDING}
    present = {job: position_value(waiting[job].rank) for job in values if job in waiting}
    wanted = {job: values[job] for job in present}
    if set(wanted.values()) != set(present.values()):
        return dict.fromkeys(wanted, QUEUE_MOVED)
    for one, other in plan_swaps(present, wanted):
        refusals = pbs.change_jobs(commands, "qorder", (), (one, other))
        if refusals:
            # The remaining swaps assume that this one was made: the next cycle starts again.
            return dict.fromkeys(wanted, next(iter(refusals.values())))
    return {}


def plan_swaps(present: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield pairs of jobs that exchange positions, never a job with itself, until all are where they should be."""
    at = {value: job for job, value in present.items()}
    has = dict(present)
    for job in sorted(wanted, key=lambda name: -wanted[name]):
        other = at[wanted[job]]
        if other != job:
            yield job, other
            at[has[job]], at[wanted[job]] = other, job
            has[other], has[job] = has[job], wanted[job]


def qalter_time(at_s: int) -> str:
    """Return a Unix second as CCYYMMDDhhmm.SS in UTC, which is the time zone of our commands."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d%H%M.%S")


def format_torque_note(mark: scheduler.NodeMark) -> str:
    """Return the note of a node that is asleep, withdrawn from jobs, or wakes."""
    return f"{OFFPEAK}: {mark.kind} since {mark.since_s}"


def parse_torque_note(note: str) -> scheduler.NodeMark | None:
    """Return offpeak's mark in a note, None if there is none. The server may append errors to the note."""
    if match := _NOTE.match(note):
        return scheduler.NodeMark(scheduler.MarkKind(match[1]), int(match[2]))
    return (
        scheduler.NodeMark(scheduler.MarkKind.CLOSED, 0) if note == OFFPEAK or note.startswith(f"{OFFPEAK}:") else None
    )


def nodes_of_xml(answer: bytes, queues: Collection[str], now_s: int, boot_s: int) -> tuple[Node, ...]:
    """Return the nodes of pbsnodes' answer, which belong to all queues. Raises CannotAskPbs if it is no XML."""
    found = pbs.xml_records(answer, "Node", source="pbsnodes -x")
    return tuple(_node(pbs.xml_fields(element), tuple(queues), now_s, boot_s) for element in found)


def assigned_of_xml(answer: bytes, nodes: Collection[str]) -> dict[str, scheduler.Assigned]:
    """Return what each node's record shows; it is not clear in an unknown state."""
    records = map(pbs.xml_fields, pbs.xml_records(answer, "Node", source="pbsnodes -x"))
    by_name = {fields.get("name"): fields for fields in records}
    return {node: _assigned(node, by_name.get(node, {})) for node in nodes}


def _assigned(node: str, record: Mapping[str, str]) -> scheduler.Assigned:
    state, jobs = record.get("state", ""), record.get("jobs")
    states = frozenset(state.split(","))
    if not states <= KNOWN:
        return scheduler.unclear_record(node, state)
    found = [f"state {name}" for name in sorted(states & (USED | {RESERVED}))]
    return found + ([f"jobs {jobs}"] if jobs else [])


def jobs_on(field: str) -> dict[str, int]:
    """Return how many slots each job has of a node's field `jobs`."""
    slots: dict[str, int] = {}
    for places, job in _SLOTS.findall(field):
        slots[job] = slots.get(job, 0) + sum(_count(place) for place in places.split(",") if place)
    return slots


def _count(place: str) -> int:
    first, _, last = place.partition("-")
    return int(last or first) - int(first) + 1


def status_of(field: str) -> dict[str, str]:
    """Return the last report of a node's daemon: a list with commas, of values with commas and spaces."""
    return dict(_STATUS.findall(field))


def _node(record: dict[str, str], queues: tuple[str, ...], now_s: int, boot_s: int) -> Node:
    states = frozenset(record.get("state", "").split(","))
    slots, status = jobs_on(record.get("jobs", "")), status_of(record.get("status", ""))
    note, mark = record.get("note", ""), parse_torque_note(record.get("note", ""))
    reported_s = pbs.as_int(status.get("rectime"))
    derived = scheduler.derive_node_state(
        mark,
        closed=OFFLINE in states,
        down=DOWN in states,
        registered=mark is not None and reported_s > mark.since_s and record.get("power_state", RUNNING) == RUNNING,
        overdue=mark is not None and now_s - mark.since_s > boot_s,
    )
    power = derived.power
    if power is PowerState.ON and mark is None and record.get("power_state", RUNNING) != RUNNING:
        # Another user's `pbsnodes -m` sent it to sleep: Torque shows it as free and gives it no job.
        power = PowerState.OFF
    use = NodeUse.USED if record.get("jobs") or states & USED else NodeUse.FREE
    return Node(
        name=record.get("name", ""),
        native_state=record.get("state", ""),
        use=use if states and states <= KNOWN else NodeUse.UNKNOWN,
        power=power,
        closed=derived.closed,
        failed=derived.failed,
        responds=DOWN not in states,
        reserved=RESERVED in states,
        # It was woken, has registered, and only must be opened.
        planned=derived.closed and mark is not None and mark.kind is scheduler.MarkKind.WAKES,
        reason=note or _own_reason(states),
        reason_by="",
        reason_s=mark.since_s if mark and mark.kind is not scheduler.MarkKind.CLOSED else None,
        partitions=queues,
        features=tuple(name for name in record.get("properties", "").split(",") if name),
        cpus=pbs.as_int(record.get("np")),
        cpus_used=sum(slots.values()),
        memory_mib=pbs.memory_mib(status.get("physmem")),
        boot_s=None,
        idle_since_s=None,
        gpus=(("", gpus),) if (gpus := pbs.as_int(record.get("gpus"))) else (),
    )


def _own_reason(states: frozenset[str]) -> str:
    return "its daemon does not answer" if DOWN in states else ("set offline" if OFFLINE in states else "")


def node_commands(node: Node, change: NodeChange, reason: str, now_s: int) -> list[scheduler.Command]:
    """Return the command for a change of a node: pbsnodes does not report which of several nodes it refuses."""
    if mark := scheduler.mark_of_sleeping(node, change, now_s):
        return [("pbsnodes", "-o", "-N", format_torque_note(mark), node.name)]
    match change:
        case NodeChange.CLOSE | NodeChange.WITHDRAW:
            arguments = ("-o", "-N", pbs.one_line(reason))
        case NodeChange.POWER_DOWN:
            arguments = ("-o", "-N", format_torque_note(scheduler.NodeMark(scheduler.MarkKind.ASLEEP, now_s)))
        case NodeChange.POWER_UP:
            arguments = ("-o", "-N", format_torque_note(scheduler.NodeMark(scheduler.MarkKind.WAKES, now_s)))
        case NodeChange.OPEN | NodeChange.RESUME:
            arguments = ("-c", "-N", "")
    return [("pbsnodes", *arguments, node.name)]


class TorqueScheduler(scheduler.PbsScheduler):
    """Torque, read as XML. `rank` sets priorities or exchanges positions, by what the site's scheduler sorts by."""

    dialect = scheduler.Dialect(
        name="torque",
        ranking=Ranking.VALUE,
        rules=TORQUE_RULES,
        closed_states=frozenset({OFFLINE}),
        open_message="is not offline: a job may start there",
        pbsnodes_all=("-x",),
        pbsnodes_one=("-x",),
        # qselect does not take the letter S of suspended jobs.
        qselect_holding=("-s", ".ne.CHQW"),
        qstat_holding=("-x", "-t"),
        parse_holding_jobs=jobs_of_xml,
        parse_nodes=nodes_of_xml,
        parse_assigned=assigned_of_xml,
        node_commands=node_commands,
    )

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities, or exchange positions, as the scheduler sorts; return why not, by job."""
        match find_reorder_method(self.settings).method:
            case ReorderMethod.PRIORITY:
                return set_priorities(self.commands, values)
            case ReorderMethod.SWAP:
                return swap_positions(self.commands, values, self._jobs(self._read_server()))
            case ReorderMethod.NONE:
                return dict.fromkeys(values, NO_METHOD)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set the earliest start of each job, 0 for now; return why not, by job."""
        refused, now_s = pbs.invalid_job_numbers(begin_s), int(self.clock())
        # A time that has passed ends a wait; PBS takes no time of 1970.
        times = {job: qalter_time(max(at_s, now_s)) for job, at_s in begin_s.items() if job not in refused}
        return refused | pbs.change_by_value(self.commands, "qalter", "-a", times)

    def _limits(self) -> SiteLimits:
        """Return that positions in the queue are no rights, where jobs exchange these."""
        is_swap = find_reorder_method(self.settings).method is ReorderMethod.SWAP
        return SiteLimits(priority=SitePriority(PriorityOrder.SUBMISSION) if is_swap else None)

    def _sched_config(self) -> Path:
        return self.settings.home / SCHED_CONFIG

    def _complete(self, contract: PbsContract) -> tuple[str, PbsContract]:
        found = find_reorder_method(self.settings)
        return found.description, replace(contract, reorder_problem=(found.why, found.hint) if found.hint else None)

    def _read_jobs(self, _server: scheduler.PbsServer) -> tuple[PbsJob, ...]:
        return jobs_of_xml(self.commands.query("qstat", "-x", "-t"))

    def _jobs(self, server: scheduler.PbsServer) -> tuple[PbsJob, ...]:
        """Return all jobs; where jobs exchange positions, with their position as the priority."""
        jobs = super()._jobs(server)
        if find_reorder_method(self.settings).method is not ReorderMethod.SWAP:
            return jobs
        return tuple(
            # No command moves an array in the queue: its tasks stay single jobs.
            pbs_job._replace(job=pbs_job.job._replace(priority=position_value(pbs_job.rank), array_id=""))
            for pbs_job in jobs
        )
