"""A job as a PBS server shows it, whether the server shows all jobs, the nodes that jobs hold, and job comments.

If the server hid jobs, nodes of other users would look free and waiting jobs of others would be unknown. A server shows
all jobs to its managers and operators, and to all users if query_other_jobs is set. Root at the server's own host is
always a manager. A suspended job is not among a node's jobs, and still holds the node. A job's comment shows our text
to its owner until the scheduler writes its own in its next cycle.

A request is a sum of chunks: a number of chunks with processors on nodes of a kind. `qsub -L
tasks=4:lprocs=2:place=node` of Torque 6 is shown in a job's req_information. Its fields are numbered by request:
task_count.0, lprocs.0 and so on, as src/lib/Libattr/req.cpp of Torque 6.1 writes them. Jobs of `-l nodes=` have such
fields too: the option takes precedence.
"""

import os
import pwd
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import lru_cache
from typing import NamedTuple

from offpeak.model.request import Chunk, Request
from offpeak.plugin.pbs import commands as pbs
from offpeak.plugin.scheduler.job import HOLDING, MOST_COUNT, MOST_MEMORY_MIB, Job, JobState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.plugin.scheduler.port import RequeuePermit

ALWAYS_MANAGER = "root"
MANAGER_HINT = "make {user} a manager: qmgr -c 'set server managers += {user}@{host}', or set query_other_jobs = True"

ENDED_STATES = frozenset({"Complete", "Completed", "Finished", "Moved", "Expired"})
NOT_LISTED = ENDED_STATES | {"Begun"}
"""States that are not counted: the server counts the subjobs of an array that has begun one by one, too."""
STATES_WITHOUT_NODES = NOT_LISTED | {"Queued", "Held", "Waiting"}
_COUNT = re.compile(r"(\w+):(\d+)")

READ_ATTEMPTS = 3

QSTAT_CHUNK = 500
"""The number of jobs in one call of qstat: their names fit on a command line."""

_TASK = re.compile(r"\[\d+\]")

NO_COMMENT = "nothing more to say"
"""PBS takes no empty comment."""

CPU_RESOURCES = frozenset({"ppn", "ncpus"})
GPU_RESOURCES = frozenset({"gpus", "ngpus"})
# These terms are amounts that a job consumes or modes of its GPUs, not kinds of nodes.
_NO_KINDS = frozenset({"vmem", "mpiprocs", "ompthreads", "mics", "nmics"}) | {
    *("shared", "exclusive", "exclusive_thread", "exclusive_process", "default")
}
_PLAIN_VALUE = re.compile(r"[\w.-]+")
_AMOUNT = re.compile(r"\d+([kmgtp]?[bw])?", re.IGNORECASE)

ALL_PROCESSORS = "all"
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


class PbsJob(NamedTuple):
    """A job, and its `rank`: its position in the server's own queue, smaller first.

    `permit` tells whether it is rerunnable, None for an interactive job.
    """

    job: Job
    rank: int
    permit: RequeuePermit | None = None


def job_reason(state: JobState, depend: str, hold_types: str, comment: str) -> str:
    """Return why a job waits: its dependency or its holds, else the scheduler's comment."""
    if state is not JobState.HELD:
        return comment
    return f"Dependency: {depend}" if pbs.has_dependency(depend) else f"JobHeld: {hold_types or '?'}"


class PbsUser(NamedTuple):
    """A user and a host, as in the server's lists of managers and operators."""

    user: str
    host: str


def current_user() -> PbsUser:
    """Return the user of this process in the server's view."""
    return PbsUser(pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname())


def find_hidden_jobs(server: str, attributes: Mapping[str, str], user: PbsUser) -> tuple[str, str] | None:
    """Return what hides jobs from the user, as message and hint, else None; a missing attribute counts as not set."""
    if attributes.get("query_other_jobs") == "True" or is_manager(server, attributes, user):
        return None
    message = f"{user.user} is not a manager, and query_other_jobs is not set: {user.user} sees no jobs of others"
    return message, MANAGER_HINT.format(user=user.user, host=user.host)


def is_manager(server: str, attributes: Mapping[str, str], user: PbsUser) -> bool:
    """Whether the user is a manager or an operator: root is one on the server's host."""
    listed = [entry.strip() for name in ("managers", "operators") for entry in attributes.get(name, "").split(",")]
    is_root = user.user == ALWAYS_MANAGER and _same_host(user.host, attributes.get("server_host", server))
    return is_root or any(_is_listed(user, entry) for entry in listed if entry)


def contradiction_error(node: str, assigned: Sequence[str], user: PbsUser) -> pbs.CannotAskPbs:
    """Return the error for a node whose record shows use while no job is shown there."""
    message = f"pbsnodes: {node} has {'; '.join(assigned)}, but qstat shows no job there"
    hint = f"has {user.user} lost its right to see all jobs, or is the node reserved? " + MANAGER_HINT
    return pbs.CannotAskPbs(message, hint=hint.format(user=user.user, host=user.host))


def count_jobs(attributes: Mapping[str, str], without: frozenset[str] = NOT_LISTED) -> int:
    """Return how many jobs the server's attribute state_count has in other states than `without`."""
    counts = _COUNT.findall(attributes.get("state_count", ""))
    return sum(int(count) for state, count in counts if state not in without)


Listing = tuple[tuple[PbsJob, ...], int]
"""Jobs, and how many of those that the server counts they are."""


def read_all_jobs(
    read: Callable[[], Listing],
    server: Callable[[], Mapping[str, str]],
    before: Mapping[str, str],
    without: frozenset[str] = NOT_LISTED,
) -> tuple[PbsJob, ...]:
    """Return the jobs that are read. Raises CannotAskPbs if each of several readings shows fewer than are counted.

    `before` are the server's attributes from before the first reading; jobs in the states `without` do not count. A
    suspended job is in no other answer of the server.
    """
    counted, shown = count_jobs(before, without), 0
    for _ in range(READ_ATTEMPTS):
        jobs, shown = read()
        # Jobs begin and end between the answers.
        earlier, counted = counted, count_jobs(server(), without)
        if shown >= min(earlier, counted):
            return jobs
    message = f"qstat: shows {f'{shown} jobs' if shown else 'no job'}, and the server counts {counted}"
    raise pbs.CannotAskPbs(message, hint="compare `qstat -t` with `qstat -B`; nothing is done until both agree")


def _is_listed(user: PbsUser, entry: str) -> bool:
    """Whether an entry such as ann@head, ann or *@*.site.org is the user."""
    name, _, host = entry.partition("@")
    return fnmatch(user.user, name) and (not host or fnmatch(user.host, host) or _same_host(user.host, host))


def _same_host(one: str, other: str) -> bool:
    """Whether both names are the same host, where one of them may lack its domain."""
    first, second = one.lower().split("."), other.lower().split(".")
    return first[: len(second)] == second[: len(first)]


def read_holding_jobs(
    select: Callable[[], Sequence[str]], read: Callable[[Sequence[str]], tuple[PbsJob, ...]]
) -> Listing:
    """Return the jobs that `select` names, as `read` shows them, and how many they are.

    A long queue is not read for one node. A job that ends between the two answers makes qstat fail: both commands are
    run again. Raises CannotAskPbs if a job is not shown after three attempts.
    """
    for attempt in range(READ_ATTEMPTS):
        try:
            return _read_selected(select(), read)
        except pbs.PbsIsSilent:
            raise
        except pbs.CannotAskPbs:
            if attempt == READ_ATTEMPTS - 1:
                raise
    raise AssertionError


def _read_selected(names: Sequence[str], read: Callable[[Sequence[str]], tuple[PbsJob, ...]]) -> Listing:
    jobs = [job for at in range(0, len(names), QSTAT_CHUNK) for job in read(names[at : at + QSTAT_CHUNK])]
    shown = {pbs_job.job.job_id for pbs_job in jobs}
    # An array represents its subjobs.
    shown |= {_TASK.sub("[]", name) for name in shown}
    if missing := [name for name in names if name not in shown]:
        message = f"qstat: does not show {', '.join(missing)}, which qselect names"
        raise pbs.CannotAskPbs(message, hint=f"compare `qselect` with `qstat -f {missing[0]}`")
    # Other names come from lines in a user's environment that look like those of a job.
    return tuple(jobs), sum(
        name in names or _TASK.sub("[]", name) in names for name in {job.job_id for job, *_ in jobs}
    )


def array_of(name: str) -> str:
    """Return the array `3[].head` of the task `3[2].head`, "" for a job that is no task."""
    array, tasks = _TASK.subn("[]", name, count=1)
    return array if tasks else ""


def holders(jobs: Iterable[PbsJob]) -> dict[str, list[Job]]:
    """Return the jobs that have, or may have, each node."""
    found: dict[str, list[Job]] = {}
    for job, *_ in jobs:
        if job.state in HOLDING and job.hosts:
            for node in job.hosts.split(","):
                found.setdefault(node, []).append(job)
    return found


def with_holders(nodes: Iterable[Node], jobs: Iterable[PbsJob]) -> tuple[Node, ...]:
    """Return the nodes; one that a job holds counts as used.

    A node's record shows no suspended job, and no job that has started since the record was read.
    """
    held_by = holders(jobs)
    return tuple(
        node._replace(use=NodeUse.USED, cpus_used=max(node.cpus_used, _count_cpus(held_by[node.name], node)))
        if node.use is NodeUse.FREE and node.name in held_by
        else node
        for node in nodes
    )


def _count_cpus(jobs: Iterable[Job], node: Node) -> int:
    """Return the processors of a node that jobs have there in equal shares, apart from suspended jobs."""
    cpus = [
        node.cpus if job.whole_nodes else -(-job.cpus // (job.hosts.count(",") + 1))
        for job in jobs
        if job.state is not JobState.SUSPENDED
    ]
    return min(sum(cpus), node.cpus)


def notify_owners(
    commands: pbs.PbsCommands, comments: Mapping[str, str], jobs: Callable[[], Iterable[PbsJob]]
) -> dict[str, str]:
    """Write for each job the notice that its owner sees; return why not, by job.

    "" removes our comment, if the job still has one: a comment that the scheduler has written since stays.
    """
    refused = pbs.invalid_job_numbers(comments)
    texts = {
        job: f'comment="{OFFPEAK}: {pbs.one_line(text)}"'
        for job, text in comments.items()
        if text and job not in refused
    }
    if any(not text for text in comments.values()):
        noticed = [pbs_job.job for pbs_job in jobs() if pbs_job.job.reason.startswith(f"{OFFPEAK}:")]
        ours = {name for job in noticed for name in (job.job_id, job.array_id)}
        texts |= {job: f'comment="{NO_COMMENT}"' for job, text in comments.items() if not text and job in ours}
    return refused | pbs.change_by_value(commands, "qalter", "-W", texts)


@lru_cache(maxsize=8192)
def chunks_of(request: str) -> tuple[Chunk, ...]:
    """Return the chunks of Torque's `2:ppn=4:fast+n004:ppn=2` or OpenPBS's `2:ncpus=4:mem=4gb:kind=fast+1`."""
    return tuple(_parse_chunk(part.split(":")) for part in request.split("+") if part)


def _parse_chunk(terms: list[str]) -> Chunk:
    copies, cores, memory, gpus, host, features = 1, 1, 0, 0, "", []
    if terms[0].isdecimal():
        copies = _counted(terms[0])
    elif "=" not in terms[0]:
        host = terms[0]
    else:
        terms = ["1", *terms]
    for term in terms[1:]:
        name, sign, value = term.partition("=")
        if name in CPU_RESOURCES:
            cores = _counted(value) if value.isdecimal() else 1
        elif name in GPU_RESOURCES:
            gpus = _counted(value) if value.isdecimal() else 1
        elif name == "mem":
            memory = pbs.memory_mib(value)
        elif name in ("host", "vnode"):
            host = value
        elif name not in _NO_KINDS:
            features += _feature(name, sign, value)
    return Chunk(copies, cores, memory, gpus, features=(frozenset(features),) if features else (), host=host)


def _counted(digits: str) -> int:
    return min(pbs.as_int(digits), MOST_COUNT) if len(digits) <= pbs.LONGEST_NUMBER else MOST_COUNT


def _feature(name: str, sign: str, value: str) -> list[str]:
    """Return the node feature of a term: Torque's property, the name of a True value, or the value of a text."""
    if not sign:
        return [name]
    if value.lower() in ("true", "t", "y", "1"):
        return [name]
    is_text = _PLAIN_VALUE.fullmatch(value) and not _AMOUNT.fullmatch(value) and value.lower() != "false"
    return [value] if is_text else []


def parse_tasks(information: Mapping[str, str]) -> Request | None:
    """Return the request of a job's req_information, None if it has none."""
    numbered: dict[str, dict[str, str]] = {}
    for name, value in information.items():
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(match[2], {})[match[1]] = value
    requests = [
        fields for _, fields in sorted(numbered.items(), key=lambda item: int(item[0])) if "task_count" in fields
    ]
    if not requests:
        return None
    whole = any(map(_is_whole, requests))
    apart = whole or any("maxtpn" in fields for fields in requests)
    return Request((), tuple(map(_task_chunk, requests)), apart, whole)


def _is_whole(fields: Mapping[str, str]) -> bool:
    return fields.get("lprocs") == ALL_PROCESSORS or "node" in fields or fields.get("single_job_access") == "true"


def _task_chunk(fields: Mapping[str, str]) -> Chunk:
    """Return the chunk of one request: its tasks, in groups as large as maxtpn allows."""
    tasks, cpus = _positive(fields["task_count"]), _positive(fields.get("lprocs"))
    together = min(_positive(fields.get("maxtpn")), tasks)
    copies = min(-(-tasks // together) * _positive(fields.get("node")), MOST_COUNT)
    features = frozenset(_task_features(fields.get("features", "")))
    return Chunk(
        copies,
        min(cpus * together, MOST_COUNT),
        min(pbs.memory_mib(fields.get("memory")) * together, MOST_MEMORY_MIB),
        min(max(pbs.as_int(fields.get("gpus")), 0) * together, MOST_COUNT),
        features=(features,) if features else (),
    )


def _positive(field: str | None) -> int:
    return max(min(pbs.as_int(field), MOST_COUNT), 1)


def _task_features(field: str) -> list[str]:
    """Return the features that a node needs; of alternatives the first."""
    return [feature for feature in re.split(r"[&,:+\s]+", field.partition("|")[0]) if feature]


def with_memory(chunks: tuple[Chunk, ...], total_mib: int, per_processor_mib: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks with their shares of the job's memory, where they name none themselves."""
    if not (total_mib or per_processor_mib) or any(chunk.memory_mib for chunk in chunks):
        return chunks
    copies = sum(chunk.copies for chunk in chunks) or 1
    return tuple(
        chunk._replace(memory_mib=min(max(-(-total_mib // copies), per_processor_mib * chunk.cores), MOST_MEMORY_MIB))
        for chunk in chunks
    )
