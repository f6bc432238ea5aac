"""Pools: nodes that compete for the same jobs, connected by partitions, and by jobs that may go to several of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node

ALIVE = HOLDING | {JobState.PENDING}


@dataclass(frozen=True)
class Pool:
    """Nodes in the order in which the scheduler tells of them, and the jobs that have or want some of them."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]


def pools_of(nodes: Sequence[Node], jobs: Iterable[Job]) -> tuple[Pool, ...]:
    """Return the pools, each named after its partitions. Nodes without a partition are in none."""
    alive = [job for job in jobs if job.state in ALIVE and job.partitions]
    root = _roots({*(node.partitions for node in nodes), *(job.partitions for job in alive)})
    nodes_of: dict[str, list[Node]] = {}
    jobs_of: dict[str, list[Job]] = {}
    for node in nodes:
        if node.partitions:
            nodes_of.setdefault(root[node.partitions[0]], []).append(node)
    for job in alive:
        jobs_of.setdefault(root[job.partitions[0]], []).append(job)
    names = {top: ",".join(sorted(each for each in root if root[each] == top)) for top in nodes_of}
    return tuple(Pool(names[top], tuple(found), tuple(jobs_of.get(top, ()))) for top, found in nodes_of.items())


def _roots(together: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Return one partition for each that is connected with it, the same for all of them."""
    root: dict[str, str] = {}
    for partitions in together:
        for each in partitions:
            root.setdefault(each, each)
        tops = {root[each] for each in partitions}
        first = min(tops, default="")
        root = {each: first if top in tops else top for each, top in root.items()} if len(tops) > 1 else root
    return root
