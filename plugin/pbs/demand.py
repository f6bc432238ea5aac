"""What a job requests, and the waiting jobs for which sleeping nodes have to be woken.

A request is a sum of chunks: so many times so many processors on nodes of a kind. PBS itself gives no job a sleeping
node. Therefore a job that could start if some sleeping nodes were up gets these nodes as its planned hosts, now, which
is how other schedulers publish their plans. Where OpenPBS has estimated a start, its estimate stays, except for a start
within the next ten minutes: OpenPBS counts a sleeping node as up ten minutes after each of its cycles, and that moment
may never come.

`qsub -L tasks=4:lprocs=2:place=node` of Torque 6 is shown in a job's req_information. Its fields are numbered by
request: task_count.0, lprocs.0 and so on, as src/lib/Libattr/req.cpp of Torque 6.1 writes them. Jobs of `-l nodes=`
have such fields too, derived from that option: the option takes precedence.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from offpeak.model.orders import PowerState
from plugin.pbs.commands import as_int
from plugin.pbs.jobs import PbsJob
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse

CPU_RESOURCES = frozenset({"ppn", "ncpus"})
_PLAIN_VALUE = re.compile(r"[\w.-]+")
# These resources are amounts that a job consumes, not kinds of nodes.
CONSUMED_RESOURCES = frozenset(
    {"ncpus", "ppn", "mem", "vmem", "mpiprocs", "ompthreads", "gpus", "ngpus", "mics", "nmics"}
)


class PbsChunk(NamedTuple):
    """`times` nodes with `cpus` processors and these features each; the node named `host`, if that is set."""

    times: int
    cpus: int
    features: tuple[str, ...] = ()
    host: str = ""


@lru_cache(maxsize=8192)
def chunks_of(request: str) -> tuple[PbsChunk, ...]:
    """Return the chunks of Torque's `2:ppn=4:fast+n004:ppn=2` or OpenPBS's `2:ncpus=4:mem=4gb:kind=fast+1`."""
    return tuple(_parse_chunk(part.split(":")) for part in request.split("+") if part)


def _parse_chunk(terms: list[str]) -> PbsChunk:
    count, cpus, host, features = 1, 1, "", []
    if terms[0].isdecimal():
        count = int(terms[0])
    elif "=" not in terms[0]:
        host = terms[0]
    else:
        terms = ["1", *terms]
    for term in terms[1:]:
        name, sign, value = term.partition("=")
        if name in CPU_RESOURCES:
            cpus = int(value) if value.isdecimal() else 1
        elif name in ("host", "vnode"):
            host = value
        elif name not in CONSUMED_RESOURCES:
            features += _feature(name, sign, value)
    return PbsChunk(count, cpus, tuple(features), host)


def _feature(name: str, sign: str, value: str) -> list[str]:
    """Return the node feature of a term: Torque's property, the name of a True value, or the value of a text."""
    if not sign:
        return [name]
    if value.lower() in ("true", "t", "y", "1"):
        return [name]
    return [value] if _PLAIN_VALUE.fullmatch(value) and not value.isdecimal() and value.lower() != "false" else []


def cpu_count(chunks: tuple[PbsChunk, ...]) -> int:
    """Return how many processors the chunks request."""
    return sum(chunk.times * chunk.cpus for chunk in chunks)


ALL_PROCESSORS = "all"
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


class TaskRequest(NamedTuple):
    """`request` has the syntax of `chunks_of`. `apart`: each chunk gets its own node; `whole`: the whole node."""

    request: str
    apart: bool
    whole: bool


def parse_tasks(information: Mapping[str, str]) -> TaskRequest | None:
    """Return the request of a job's req_information, None where it has none."""
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
    return TaskRequest("+".join(map(_task_chunk, requests)), apart, whole)


def _is_whole(fields: Mapping[str, str]) -> bool:
    return fields.get("lprocs") == ALL_PROCESSORS or "node" in fields or fields.get("single_job_access") == "true"


def _task_chunk(fields: Mapping[str, str]) -> str:
    """Return the chunk of one request: its tasks, in groups as large as maxtpn allows."""
    tasks, cpus = as_int(fields["task_count"]) or 1, as_int(fields.get("lprocs")) or 1
    together = min(as_int(fields.get("maxtpn")) or 1, tasks)
    nodes = -(-tasks // together) * (as_int(fields.get("node")) or 1)
    return ":".join([str(nodes), f"ppn={cpus * together}", *_task_features(fields.get("features", ""))])


def _task_features(field: str) -> list[str]:
    """Return the features that a node needs; of alternatives the first."""
    return [feature for feature in re.split(r"[&,:+\s]+", field.partition("|")[0]) if feature]


def fewest_nodes(tasks: TaskRequest) -> int:
    """Return the smallest number of nodes for the request, whatever their size."""
    return sum(chunk.times for chunk in chunks_of(tasks.request)) if tasks.apart else 1


MOST_JOBS = 500
"""Only the first jobs of the queue count: nodes are woken for jobs that can start next."""
COUNTS_AS_UP_IN_S = 660
"""OpenPBS counts a sleeping node as up ten minutes after its cycle; one minute more for clocks. A later estimate has
another cause than a sleeping node."""
UNKNOWN_END_S = sys.maxsize
"""The end of a job without a limit."""
NO_NODE_HELPS = ("limit", "hold", "license", "dependency", "fairshare")


@dataclass
class NodeCapacity:
    """The free processors of a node while jobs are placed. `sleeps`: the node has to be woken first."""

    node: Node
    cpus: int
    sleeps: bool


def with_demand(jobs: Sequence[PbsJob], nodes: Sequence[Node], now_s: int) -> tuple[Job, ...]:
    """Return the jobs, with planned hosts for which nodes are to be woken or to stay awake."""
    capacities = [capacity for capacity in map(_node_capacity, nodes) if capacity is not None]
    waiting = [pbs_job for pbs_job in jobs if _could_start(pbs_job.job, now_s)]
    waiting.sort(key=lambda pbs_job: (-pbs_job.job.priority, pbs_job.rank))
    if not any(capacity.sleeps for capacity in capacities) and all(pbs_job.job.start_s is None for pbs_job in waiting):
        return tuple(pbs_job.job for pbs_job in jobs)
    held_until_s = _held_until_s(pbs_job.job for pbs_job in jobs)
    planned = {
        pbs_job.job.job_id: _plan_job(pbs_job, capacities, held_until_s, now_s) for pbs_job in waiting[:MOST_JOBS]
    }
    return tuple(planned.get(pbs_job.job.job_id, pbs_job.job) for pbs_job in jobs)


def _plan_job(pbs_job: PbsJob, capacities: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int) -> Job:
    """Return the job with the sleeping nodes that it needs, and when; unchanged if it needs none."""
    job = pbs_job.job
    if job.start_s is not None:
        return job._replace(start_s=_free_s(pbs_job, job.start_s, capacities, held_until_s, now_s))
    found = _place_job(pbs_job, capacities)
    hosts = ",".join(dict.fromkeys(capacity.node.name for capacity in found))
    return job._replace(start_s=now_s, hosts=hosts) if any(capacity.sleeps for capacity in found) else job


def _free_s(
    pbs_job: PbsJob, estimated_s: int, capacities: Sequence[NodeCapacity], held_until_s: Mapping[str, int], now_s: int
) -> int:
    """Return from when no other job has the nodes of an estimate, awake or not [Unix s]; never later than estimated."""
    hosts = pbs_job.job.hosts.split(",")
    named = [capacity for capacity in capacities if capacity.node.name in hosts]
    if len(named) < len(hosts) or estimated_s > now_s + COUNTS_AS_UP_IN_S:
        return estimated_s
    if _place_job(pbs_job, named):
        return min(estimated_s, now_s)
    if all(capacity.node.power is PowerState.ON for capacity in named):
        return estimated_s
    return min(estimated_s, max(now_s, *(held_until_s.get(capacity.node.name, now_s) for capacity in named)))


def _held_until_s(jobs: Iterable[Job]) -> dict[str, int]:
    """Return when the last job on each node will have reached its limit [Unix s]."""
    found: dict[str, int] = {}
    for job in jobs:
        if job.state in HOLDING:
            end_s = UNKNOWN_END_S if job.end_s is None else job.end_s
            found |= {host: max(end_s, found.get(host, 0)) for host in job.hosts.split(",")}
    return found


def _node_capacity(node: Node) -> NodeCapacity | None:
    """Return what a node still has for jobs; None where it gets no jobs."""
    opens = node.closed_by_us and node.planned
    if (node.closed and not opens) or node.failed or node.reserved or node.use is NodeUse.UNKNOWN:
        return None
    if node.power is PowerState.ON:
        return NodeCapacity(node, node.cpus - node.cpus_used, sleeps=False) if node.responds else None
    if node.use is NodeUse.USED:
        return None
    return NodeCapacity(node, node.cpus, sleeps=node.power is PowerState.OFF)


def _could_start(job: Job, now_s: int) -> bool:
    if job.state is not JobState.PENDING or job.reservation or (job.begin_s or 0) > now_s:
        return False
    reason = job.reason.lower()
    return not any(cause in reason for cause in NO_NODE_HELPS)


def _place_job(pbs_job: PbsJob, capacities: Iterable[NodeCapacity]) -> list[NodeCapacity]:
    """Return the nodes for each chunk of the job, nodes that are up first; [] if there are not enough.

    The processors that were found are subtracted: the next job gets the rest.
    """
    job = pbs_job.job
    open_to = [capacity for capacity in capacities if set(job.partitions) & set(capacity.node.partitions)]
    open_to.sort(key=lambda capacity: capacity.sleeps)
    taken: list[tuple[NodeCapacity, int]] = []
    for chunk in chunks_of(pbs_job.request):
        for _ in range(chunk.times):
            used = {id(capacity) for capacity, _ in taken} if pbs_job.apart or job.whole_nodes else set()
            capacity = next(
                (capacity for capacity in open_to if id(capacity) not in used and _fits(capacity, chunk, job)), None
            )
            if capacity is None:
                for capacity, cpus in taken:
                    capacity.cpus += cpus
                return []
            cpus = capacity.cpus if job.whole_nodes else chunk.cpus
            capacity.cpus -= cpus
            taken.append((capacity, cpus))
    return [capacity for capacity, _ in taken]


def _fits(capacity: NodeCapacity, chunk: PbsChunk, job: Job) -> bool:
    wanted = capacity.node.cpus if job.whole_nodes else chunk.cpus
    if capacity.cpus < wanted or (chunk.host and chunk.host != capacity.node.name):
        return False
    return set(chunk.features) <= set(capacity.node.features)
