"""Which jobs compete for which nodes: pools of nodes that no job of another pool can have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from plugin.queue_hook.facts import QueueFacts
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse


@dataclass(frozen=True)
class Pool:
    """Nodes, the jobs that wait for them in the site's order, and those that have some of them."""

    nodes: tuple[Node, ...]
    waiting: tuple[Job, ...]
    holding: tuple[Job, ...]


def pools_of(
    facts: QueueFacts, nodes: Iterable[Node], ordered: Iterable[Job]
) -> tuple[tuple[Pool, ...], dict[str, str]]:
    """Return the pools, and why a job that waits is in none; `ordered` are the jobs that wait, the first in line first.

    Where partitions share some of their nodes, but not all, the one for which most jobs wait is planned.
    """
    usable = {node.name: node for node in nodes if is_usable(node)}
    left_out: dict[str, str] = {}
    lines: dict[frozenset[str], list[Job]] = defaultdict(list)
    nodes_of = cache(lambda partitions: _nodes_of(partitions, usable))
    for job in ordered:
        why, where = not_understood(job, facts), nodes_of(job.partitions)
        why = why or _too_large(job, len(where))
        if why:
            left_out[job.job_id] = why
        else:
            lines[where].append(job)
    pools = []
    for where, waiting in _apart(lines, left_out):
        holding = [job for job in facts.jobs if job.state in HOLDING and not where.isdisjoint(hosts_of(job))]
        pools.append(Pool(tuple(usable[name] for name in sorted(where)), tuple(waiting), tuple(holding)))
    return tuple(pools), left_out


def is_usable(node: Node) -> bool:
    """Whether jobs can count on the node within the plan: a sleeping one is woken, one that we closed is opened."""
    kept = node.closed and not node.closed_by_us
    return not (node.failed or node.reserved or kept or node.use is NodeUse.UNKNOWN)


def not_understood(job: Job, facts: QueueFacts) -> str:
    """Return why a job that waits cannot be planned, "" if it can."""
    if job.state is not JobState.PENDING:
        return "it is held"
    if not job.plain:
        return "it is an array, or hangs on other jobs"
    if job.reservation:
        return f"it waits for the reservation {job.reservation}"
    if job.job_id not in facts.node_power_w:
        return "its draw is not known"
    return "" if run_s_of(job, facts) else "nobody says how long it runs"


def _too_large(job: Job, usable: int) -> str:
    """Return that there are too few nodes for the job, "" where there are enough."""
    if not usable:
        return f"no usable node is in {','.join(job.partitions)}"
    return f"it asks for more than the {usable} usable nodes of its partition" if job.nodes > usable else ""


def run_s_of(job: Job, facts: QueueFacts) -> int | None:
    """Return for how long the job is expected to run, its limit at most; None where nobody says."""
    return min((each for each in (facts.expected_run_s.get(job.job_id), job.limit_s) if each), default=None)


def hosts_of(job: Job) -> tuple[str, ...]:
    """Return the nodes that a job has."""
    if not job.hosts:
        return ()
    try:
        return expand(job.hosts)
    except BadInput:
        return ()


def _nodes_of(partitions: tuple[str, ...], usable: Mapping[str, Node]) -> frozenset[str]:
    return frozenset(name for name, node in usable.items() if not set(node.partitions).isdisjoint(partitions))


def _apart(
    lines: Mapping[frozenset[str], list[Job]], left_out: dict[str, str]
) -> list[tuple[frozenset[str], list[Job]]]:
    """Return the lines for nodes that do not overlap, the longest first; what is beside them is left out."""
    chosen: list[tuple[frozenset[str], list[Job]]] = []
    for where, waiting in sorted(lines.items(), key=lambda line: (-len(line[1]), sorted(line[0]))):
        if all(where.isdisjoint(other) for other, _ in chosen):
            chosen.append((where, waiting))
        else:
            why = "its partition shares some nodes with another for which more jobs wait"
            left_out |= {job.job_id: why for job in waiting}
    return chosen
