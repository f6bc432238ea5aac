"""When OpenPBS reckons to start the first job that waits, as it tells with `strict_ordering` and the hook PBS_power.

Of a node in state sleep it reckons that it is up ten minutes from now, in each of its cycles anew.
"""

from dataclasses import replace
from typing import NamedTuple

from sim_backend.pbs_standin.pbs import Pbs
from sim_backend.scheduler.cluster import ON_NODES, SLEEP
from sim_backend.scheduler.sim_job import SimJob
from sim_backend.scheduler.sim_node import SimNode

POWER = "power_provisioning"
"""The server's attribute that is True while the hook PBS_power is enabled."""
WAKES_IN_S = 600


class Estimate(NamedTuple):
    """From when [Unix s] the first job that waits has which processors, by node."""

    job: SimJob
    start_s: float
    placed: dict[str, int]


def estimate_of(pbs: Pbs, now_s: float) -> Estimate | None:
    """Return when the first job that waits is to start, and where; None where the server does not say or know."""
    waiting = pbs.cluster.pending(now_s) if pbs.attributes.get(POWER) == "True" else []
    if not waiting:
        return None
    ends_s = {
        job.job_id: (job.start_s or now_s) + job.longest_s for job in pbs.cluster.jobs.values() if job.state in ON_NODES
    }
    for at_s in sorted({now_s, now_s + WAKES_IN_S, *(max(end_s, now_s) for end_s in ends_s.values())}):
        nodes = {name: _then(node, at_s, now_s, ends_s) for name, node in pbs.cluster.nodes.items()}
        placed = replace(pbs.cluster, nodes=nodes).place(waiting[0])
        if placed:
            return Estimate(waiting[0], at_s, placed)
    return None


def _then(node: SimNode, at_s: float, now_s: float, ends_s: dict[str, float]) -> SimNode:
    used = {job: cpus for job, cpus in node.used.items() if ends_s.get(job, now_s) > at_s}
    if SLEEP in node.shut and at_s >= now_s + WAKES_IN_S:
        return replace(node, used=used, shut=node.shut - {SLEEP}, alive=True)
    return replace(node, used=used)
