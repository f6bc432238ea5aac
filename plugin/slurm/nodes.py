"""Parses Slurm's nodes and reservations, finds whether a job holds a node, and counts the nodes of the machine.

The text is `scontrol --all --oneliner show nodes` and `... show reservations`, one record a line. The JSON is
`scontrol show ... --json`, `sinfo --json` before 23.02, and slurmrestd's. The state of a node is one base and any
number of flags in any combination. A node is free only if squeue's answer and the node's own record agree on it.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from offpeak.errors import BadInput, SchedulerError
from offpeak.machines.node_sets import expand
from offpeak.model.orders import PowerState
from offpeak.plugin.contract.slurm_exclusions import parse_suspend_s
from offpeak.plugin.contract.slurm_rights import SlurmRights
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse, Reservation
from offpeak.plugin.scheduler.port import NodeUses
from offpeak.plugin.slurm.commands import (
    NOT_SHOWN,
    NOT_SHOWN_HINT,
    CannotAskSlurm,
    Record,
    ask,
    count,
    get_list,
    get_number,
    get_text,
    get_time_s,
    json_records,
    parse_config,
    parts,
    plain,
    require_no_unended,
    rows_of_squeue,
    scontrol_shows_jobs,
    unix_s,
)
from offpeak.plugin.slurm.jobs import job_state
from offpeak.plugin.slurm.requests import parse_node_gres

BASE_STATES = {"IDLE": NodeUse.FREE, "DOWN": NodeUse.FREE, "ALLOCATED": NodeUse.USED, "MIXED": NodeUse.USED}

# The first flag that a node has counts.
_POWERS = (
    ("POWERING_DOWN", PowerState.POWERING_OFF),
    ("POWERING_UP", PowerState.POWERING_ON),
    ("POWER_DOWN", PowerState.OFF_REQUESTED),
    ("POWER_UP", PowerState.ON_REQUESTED),
    ("POWERED_DOWN", PowerState.OFF),
)
_FAILED = frozenset({"DOWN", "FAIL", "INVALID_REG"})
_RESERVED = frozenset({"RESERVED", "MAINT", "MAINTENANCE"})
_OTHERS = frozenset({"DRAIN", "NOT_RESPONDING", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM"})
_OTHERS |= {"DYNAMIC_FUTURE", "BLOCKED", "PERFCTRS", "RESUME", "EXTERNAL", "POWER_DRAIN"}
# REBOOT_REQUESTED and REBOOT_ISSUED are missing on purpose: an admin works on that node.
_KNOWN = _OTHERS | _RESERVED | _FAILED | {flag for flag, _ in _POWERS} | set(BASE_STATES)

NODES_ARGUMENTS = ("--all", "--oneliner", "show", "nodes")

_NODE_STARTS = re.compile(r"^NodeName=", re.MULTILINE)
_FIELD = re.compile(r"(?:^|\s)([A-Z]\w+)=(\S*)")
# The free texts of admins come last, in this order.
_FREE_TEXT = re.compile(r"(?:^|\s)Reason=(.*?)(?=\sComment=|\sExtra=|$)|(?:^|\s)Comment=(.*?)(?=\sExtra=|$)", re.DOTALL)
_BY = re.compile(r"(.*) \[([^\]@]*)@([^\]@]*)\]", re.DOTALL)
_FREE_TEXT_STARTS = re.compile(r"\s(?:Reason|Comment|Extra)=")

RESERVATIONS_ARGUMENTS = ("--all", "--oneliner", "show", "reservations")

IN_USE_TIMEOUT_S = 20.0
EVERY_JOB_ARGUMENTS = ("--all", "--local", "--states=all", "--format=%A %T %N")
_UNKNOWN_NODE = re.compile(r"scontrol: Node (\S+) not found")

# The fields of a node's record that show allocations, and their values without any.
NOTHING_GIVEN = {"CPUAlloc": "0", "AllocMem": "0", "AllocTRES": ""}

MACHINE_TIMEOUT_S = 60.0


class SlurmNodeState(NamedTuple):
    """What a node's state means, as in offpeak.plugin.scheduler.node.Node."""

    use: NodeUse
    power: PowerState
    closed: bool
    failed: bool
    responds: bool
    reserved: bool
    planned: bool


@lru_cache(maxsize=1024)
def parse_node_state(native_state: str, busy: bool) -> SlurmNodeState:
    """Return the meaning of a state such as IDLE+DRAIN+POWERED_DOWN; `busy`: jobs have processors of the node."""
    flags = frozenset(native_state.split("+"))
    use = _parse_use(flags, busy)
    return SlurmNodeState(
        use=use,
        power=_parse_power(flags, use),
        closed="DRAIN" in flags,
        failed=bool(flags & _FAILED),
        responds="NOT_RESPONDING" not in flags,
        reserved=bool(flags & _RESERVED),
        planned="PLANNED" in flags,
    )


def _parse_use(flags: frozenset[str], busy: bool) -> NodeUse:
    if flags - _KNOWN or not flags & BASE_STATES.keys():
        return NodeUse.UNKNOWN
    # A slurmctld that was killed has forgotten that the job ended. Before an order to the node, squeue
    # shows that job.
    if busy or ("COMPLETING" in flags and not ({"IDLE", "NOT_RESPONDING"} <= flags)):
        return NodeUse.USED
    return next(use for base, use in BASE_STATES.items() if base in flags)


def _parse_power(flags: frozenset[str], use: NodeUse) -> PowerState:
    power = next((power for flag, power in _POWERS if flag in flags), PowerState.ON)
    # A job has been allocated the node: Slurm is about to wake it.
    return PowerState.ON_REQUESTED if power is PowerState.OFF and use is NodeUse.USED else power


def nodes_of_text(text: bytes) -> tuple[Node, ...]:
    """Return the nodes of scontrol's answer, each once; a missing field counts as empty."""
    return _as_nodes(map(_node_of_text, _records(text)))


def _as_nodes(records: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes, each once, without reasons of offpeak that are left over.

    slurmctld keeps the reason of a node that it powers down, and of one that was opened, until the node gets a job.
    """
    return tuple(
        {
            node.name: node._replace(reason="", reason_by="", reason_s=None)
            if node.is_marked and not node.closed and not node.failed
            else node
            for node in records
        }.values()
    )


class ClosedReasons:
    """The reasons of the nodes that are closed, as they were last shown.

    Before 23.11 slurmctld clears the reason of a drained node that registers although it counts as powered down, as
    after a power cut. It lets nobody drain a node without a reason, so the one that was shown before is still right.
    """

    def __init__(self) -> None:
        self._closed: dict[str, Node] = {}

    def restore(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the nodes, those that are closed without a reason with the one that they had."""
        restored = tuple(
            node._replace(reason=last.reason, reason_by=last.reason_by, reason_s=last.reason_s)
            if node.closed and not node.reason and (last := self._closed.get(node.name))
            else node
            for node in nodes
        )
        self._closed = {node.name: node for node in restored if node.closed}
        return restored


def _records(text: bytes) -> list[str]:
    return _NODE_STARTS.split(text.decode(errors="replace"))[1:]


def _free_text_at(record: str) -> int:
    return match.start() if (match := _FREE_TEXT_STARTS.search(record)) else len(record)


def _node_of_text(record: str) -> Node:
    name, _, rest = record.rstrip().partition(" ")
    free_at = _free_text_at(rest)
    fields = dict(_FIELD.findall(rest[:free_at]))
    reason, by, at, comment = _parse_free_text(rest[free_at:])
    cpus_used = count(fields.get("CPUAlloc", ""))
    gpus, others = parse_node_gres(fields.get("Gres", ""))
    state = fields.get("State", "").rstrip("*")
    parsed = parse_node_state(state, cpus_used > 0)
    return Node(
        name,
        state,
        *parsed,
        reason=reason,
        reason_by=by,
        reason_s=at,
        partitions=parts(fields.get("Partitions", "")),
        features=(*parts(fields.get("AvailableFeatures", "")), *others),
        cpus=count(fields.get("CPUTot", "")),
        cpus_used=cpus_used,
        memory_mib=count(fields.get("RealMemory", "")),
        boot_s=unix_s(fields.get("BootTime", "")),
        idle_since_s=unix_s(fields.get("LastBusyTime", "")) if parsed.use is NodeUse.FREE else None,
        comment=comment,
        gpus=gpus,
        suspend_s=parse_suspend_s(fields.get("SuspendTime", "")),
    )


def _parse_free_text(text: str) -> tuple[str, str, int | None, str]:
    """Return the reason, its user, its time, and the comment."""
    reason = comment = ""
    for match in _FREE_TEXT.finditer(text):
        reason, comment = match[1] or reason, match[2] or comment
    signed = _BY.fullmatch(reason)
    if not signed:
        return plain(reason), "", None, comment
    return signed[1], signed[2], unix_s(signed[3]), comment


def nodes_of_json(answer: bytes, *, source: str) -> tuple[Node, ...]:
    """Return the nodes of the answer, each once. Raises CannotAskSlurm as in `json_records`."""
    return _as_nodes(map(_node_of_json, json_records(answer, "nodes", source=source)))


def reservations_of_json(answer: bytes, *, source: str) -> tuple[Reservation, ...]:
    """Return the reservations of the answer. Raises CannotAskSlurm as in `json_records`."""
    return tuple(map(_reservation_of_json, json_records(answer, "reservations", source=source)))


def _node_of_json(record: Record) -> Node:
    state = "+".join(flag.upper() for flag in (*get_list(record, "state"), *get_list(record, "state_flags")))
    cpus_used = get_number(record, "alloc_cpus") or 0
    parsed = parse_node_state(state, cpus_used > 0)
    reason = plain(get_text(record, "reason"))
    gpus, others = parse_node_gres(get_text(record, "gres"))
    return Node(
        get_text(record, "name"),
        state,
        *parsed,
        reason=reason,
        reason_by=get_text(record, "reason_set_by_user") if reason else "",
        reason_s=get_time_s(record, "reason_changed_at") if reason else None,
        partitions=get_list(record, "partitions"),
        features=(*get_list(record, "features"), *others),
        cpus=get_number(record, "cpus") or 0,
        cpus_used=cpus_used,
        memory_mib=get_number(record, "real_memory") or 0,
        boot_s=get_time_s(record, "boot_time"),
        idle_since_s=get_time_s(record, "last_busy") if parsed.use is NodeUse.FREE else None,
        comment=get_text(record, "comment"),
        gpus=gpus,
        suspend_s=_suspend_s_of_json(record.get("suspend_time")),
    )


def _suspend_s_of_json(value: object) -> float | None:
    """Return the SuspendTime of a node, None if Slurm shows none: before 26.05."""
    if not isinstance(value, dict):
        return None
    return math.inf if value.get("infinite") else get_number({"": value}, "")


def _reservation_of_json(record: Record) -> Reservation:
    nodes = get_text(record, "node_list")
    return Reservation(
        get_text(record, "name"),
        get_time_s(record, "start_time") or 0,
        get_time_s(record, "end_time") or 0,
        expand(nodes) if nodes else (),
        "MAINT" in get_list(record, "flags"),
    )


def reservations_of_text(text: bytes) -> tuple[Reservation, ...]:
    """Return the reservations of scontrol's answer."""
    lines = text.decode(errors="replace").splitlines()
    return tuple(
        _reservation_of_text(dict(_FIELD.findall(line))) for line in lines if line.startswith("ReservationName=")
    )


def _reservation_of_text(fields: dict[str, str]) -> Reservation:
    nodes = plain(fields.get("Nodes", ""))
    return Reservation(
        fields["ReservationName"],
        unix_s(fields.get("StartTime", "")) or 0,
        unix_s(fields.get("EndTime", "")) or 0,
        expand(nodes) if nodes else (),
        "MAINT" in parts(fields.get("Flags", "")),
    )


def with_suspended_jobs(nodes: tuple[Node, ...], jobs: Iterable[Job]) -> tuple[Node, ...]:
    """Return the nodes with those as used that only a suspended job holds, which has no processors of them now.

    A node whose suspended job will go on must not be closed: a job of a higher partition may need it meanwhile.
    """
    held = set[str]()
    for job in jobs:
        if job.state is JobState.SUSPENDED:
            held.update(job.known_hosts)
    return tuple(
        node._replace(use=NodeUse.USED) if node.name in held and node.use is NodeUse.FREE else node for node in nodes
    )


def find_node_uses(
    nodes: Sequence[str], find_rights: Callable[[], SlurmRights], *, timeout_s: float = IN_USE_TIMEOUT_S
) -> NodeUses:
    """Return why each node is not free, "" if it is: drained, no job holds it, and nothing of it is allocated.

    The use is unknown if Slurm does not know the node, this program does not know a state or a record, or an allocated
    node has no visible job. Raises CannotAskSlurm if it is unknown of all: if Slurm does not answer, or hides jobs.
    """
    require_no_unended()
    # A suspended job has no processors of its node: the node's record alone does not show the job. All jobs are read,
    # because an answer without any is believed only if scontrol shows none, either; then those of the nodes alone,
    # because a list that ends between two rows looks complete.
    rows = rows_of_squeue(ask("squeue", *EVERY_JOB_ARGUMENTS, timeout_s=timeout_s))
    jobs = _jobs_by_node(rows, nodes)
    named = ",".join(nodes)
    # At once, because the door takes no answer that is two seconds old; and after the list: rights that this user has
    # then, it had for it, and a node that is drained and free then gets no job afterwards.
    with ThreadPoolExecutor(4) as queries:
        jobs_query = None if rows else queries.submit(scontrol_shows_jobs, timeout_s)
        rights_query = queries.submit(find_rights)
        records_query = queries.submit(ask, "scontrol", "--oneliner", "show", "node", named, timeout_s=timeout_s)
        own_query = queries.submit(ask, "squeue", *EVERY_JOB_ARGUMENTS, f"--nodelist={named}", timeout_s=timeout_s)
    if jobs_query is not None and jobs_query.result():
        raise CannotAskSlurm(NOT_SHOWN, hint=NOT_SHOWN_HINT)
    rights = rights_query.result()
    rights.require_all_jobs()
    try:
        answer = records_query.result()
    except CannotAskSlurm as problem:
        unknown = _UNKNOWN_NODE.fullmatch(str(problem))
        if unknown is None or nodes == (unknown[1],):
            raise
        others = tuple(node for node in nodes if node != unknown[1])
        return {unknown[1]: problem, **find_node_uses(others, find_rights, timeout_s=timeout_s)}
    jobs = _jobs_by_node(rows_of_squeue(own_query.result()), nodes) | jobs
    records = {record.partition(" ")[0]: record for record in _records(answer)}
    if sorted(records) != sorted(nodes) or len(_records(answer)) > len(nodes):
        raise CannotAskSlurm(f"scontrol: shows no node {named}", hint=f"`scontrol show node {named}`; {rights.hint}")
    return {
        node: f"runs {', '.join(jobs[node])}" if node in jobs else _use_by_record(node, record, rights)
        for node, record in records.items()
    }


def _jobs_by_node(rows: Sequence[bytes], nodes: Sequence[str]) -> dict[str, list[str]]:
    """Return the jobs that hold, or may hold, each of these nodes; one whose nodes are not clear may be on any."""
    found: dict[str, list[str]] = {}
    for row in rows:
        job, _, rest = row.decode(errors="replace").partition(" ")
        native_state, _, hosts = rest.partition(" ")
        state = job_state(native_state, "", 1)
        if state is JobState.ENDED or not (hosts or state in HOLDING):
            continue
        try:
            holds = set(expand(hosts)) if hosts else set(nodes)
        except BadInput:
            holds = set(nodes)
        for node in holds.intersection(nodes):
            found.setdefault(node, []).append(job)
    return found


def _use_by_record(node: str, text: str, rights: SlurmRights) -> str | SchedulerError:
    record, fields = _node_of_text(text), dict(_FIELD.findall(text[: _free_text_at(text)]))
    if not record.closed:
        return "is not drained: a job may start there"
    missing = [name for name in NOTHING_GIVEN if name not in fields]
    if record.use is NodeUse.UNKNOWN or missing:
        defect = f"without {', '.join(missing)}" if missing else f"in the unknown state {record.native_state}"
        return CannotAskSlurm(f"scontrol: shows {node} {defect}", hint=f"look at it: scontrol show node {node}")
    given = [f"{name}={fields[name]}" for name, nothing in NOTHING_GIVEN.items() if plain(fields[name]) != nothing]
    if given or record.use is NodeUse.USED:
        state = " ".join([f"{node} is {record.native_state}", *given])
        hint = f"PrivateData=jobs, or a lost AdminLevel of {rights.user}, hides jobs: run `offpeak check`"
        return CannotAskSlurm(f"scontrol: {state}, but squeue shows no job there", hint=hint)
    return "is reserved: see `scontrol show reservation`" if record.reserved else ""


@dataclass(frozen=True)
class SlurmMachine:
    """A cluster: each node counts once, in any state and in any number of partitions.

    `processors_per_node` is the most frequent number of Slurm's CPUs, None if Slurm shows none; `unlike` is how many
    nodes have another number.
    """

    cluster: str
    nodes: int
    processors_per_node: int | None
    unlike: int


def read_machine(*, timeout_s: float = MACHINE_TIMEOUT_S) -> SlurmMachine:
    """Return the cluster of this machine. Raises CannotAskSlurm without one, SlurmIsSilent if slurmctld is down."""
    nodes = ask("scontrol", *NODES_ARGUMENTS, timeout_s=timeout_s)
    return parse_machine(nodes, ask("scontrol", "show", "config", timeout_s=timeout_s))


def parse_machine(nodes: bytes, config: bytes) -> SlurmMachine:
    """Return the machine that the answers to `scontrol --oneliner show nodes` and `show config` describe."""
    processors = [node.cpus or None for node in nodes_of_text(nodes)]
    if not processors:
        hint = "`scontrol show nodes` shows why; with PrivateData=nodes in slurm.conf run it as root"
        raise CannotAskSlurm("scontrol: Slurm shows no node", hint=hint)
    counts = Counter(number for number in processors if number)
    usual = max(counts, key=counts.__getitem__, default=None)
    return SlurmMachine(
        cluster=parse_config(config).get("ClusterName", ""),
        nodes=len(processors),
        processors_per_node=usual,
        unlike=sum(number != usual for number in processors),
    )
