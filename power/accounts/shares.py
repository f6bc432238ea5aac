"""Which share of its nodes a job has: all of those that are its own, else by the processors that it holds.

What no job holds of a node is nobody's: it counts as idle. So the shares of all jobs and of nobody are the whole node.
"""

from collections.abc import Mapping

from plugin.scheduler.job import Job


def share_of(job: Job, cpus: int | None) -> float:
    """Return the job's share of one of its nodes, which has so many processors; None: not known, then it has all.

    Schedulers say how many processors a job has in all: they are taken to be spread evenly.
    """
    if job.whole_nodes or not cpus:
        return 1.0
    return min(1.0, job.cpus / max(1, job.nodes) / cpus)


def shares(job: Job, nodes: tuple[str, ...], cpus: Mapping[str, int]) -> dict[str, float]:
    """Return the job's share of each of these nodes, 0..1."""
    return {node: share_of(job, cpus.get(node)) for node in nodes}
