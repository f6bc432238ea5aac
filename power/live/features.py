"""Nodes of a kind that a waiting job asks for stay awake: another kind would not help it."""

import re

from plugin.scheduler.job import Job
from power.live.pool_state import PoolState

WORD = re.compile(r"[\w.-]+")


def kept_for_features(pool: PoolState) -> frozenset[str]:
    """Return the idle nodes that jobs without a plan ask for by their features, as many as the jobs want."""
    known = {feature for node in pool.pool.nodes for feature in node.features}
    kept: set[str] = set()
    for job in pool.waiting if known else ():
        asked = _asked(job, known)
        if asked and not job.hosts:
            kept.update(_idle_with(pool, asked, kept)[: pool.nodes_of(job)])
    return frozenset(kept)


def _asked(job: Job, known: set[str]) -> frozenset[str]:
    """Return the features that the job's needs name."""
    return frozenset(WORD.findall(job.needs)) & known


def _idle_with(pool: PoolState, asked: frozenset[str], kept: set[str]) -> list[str]:
    nodes = zip(pool.pool.nodes, pool.is_idle, strict=True)
    return [node.name for node, idle in nodes if idle and node.name not in kept and asked <= set(node.features)]
