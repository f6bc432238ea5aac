"""Which nodes jobs hold: a suspended job is not among a node's jobs, and still has it."""

from collections.abc import Iterable

from plugin.pbs.told_job import ToldJob
from plugin.scheduler.job import HOLDING, JobState
from plugin.scheduler.node import Node, NodeUse


def holders(jobs: Iterable[ToldJob]) -> dict[str, list[str]]:
    """Return the jobs that have, or may have, each node."""
    found: dict[str, list[str]] = {}
    for told in jobs:
        if told.job.state in HOLDING:
            for node in told.job.hosts.split(",") if told.job.hosts else ():
                found.setdefault(node, []).append(told.job.job_id)
    return found


def with_holders(nodes: Iterable[Node], jobs: Iterable[ToldJob]) -> tuple[Node, ...]:
    """Return the nodes, those used that a suspended job has."""
    suspended = holders(each for each in jobs if each.job.state is JobState.SUSPENDED)
    return tuple(
        node._replace(use=NodeUse.USED) if node.name in suspended and node.use is NodeUse.FREE else node
        for node in nodes
    )
