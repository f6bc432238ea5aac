"""A small site for tests of plans: nodes, jobs of queue_site, prices by the hour."""

from typing import Any

from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, plain_cluster, prices

from offpeak.model.facility import PowerCap, facility_named
from offpeak.model.orders import PowerState
from offpeak.plugin.day_plan.inputs import PlanFacility, PlanInputs
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

ROOM = PlanFacility(facility_named("air", full_power_w=4000.0), idle_w=50.0, revenue_per_core_h=0.1, outside_c=15.0)
CHEAP_AT_NIGHT = prices(*([100.0] * 22 + [20.0] * 8 + [100.0] * 18))


def a_node(name: str, **fields: Any) -> Node:
    """Return a node that is free and up."""
    node = Node(
        name=name,
        native_state="IDLE",
        use=NodeUse.FREE,
        power=PowerState.ON,
        closed=False,
        failed=False,
        responds=True,
        reserved=False,
        planned=False,
        reason="",
        reason_by="",
        reason_s=None,
        partitions=("batch",),
        features=(),
        cpus=8,
        cpus_used=0,
        memory_mib=1024,
        boot_s=None,
        idle_since_s=None,
    )
    return node._replace(**fields)


def a_running(number: int, hosts: str, **fields: Any) -> Job:
    """Return a job that has run for half an hour, of an hour."""
    times = {"start_s": NOW_S - HOUR_S // 2, "hosts": hosts, "nodes": 1, "state": JobState.RUNNING, **fields}
    return a_job(number, **times)


def make_inputs(
    jobs: tuple[Job, ...],
    *,
    nodes: int = 4,
    now_s: int = NOW_S,
    watts: float = 400.0,
    caps: tuple[PowerCap, ...] = (),
    rules: QueueRules = RULES,
    **facts: Any,
) -> PlanInputs:
    """Return the inputs of a plan: so many nodes, all jobs drawing `watts` on each node."""
    queue_facts = {
        "peak": Peak.ON_PEAK,
        "prices": CHEAP_AT_NIGHT,
        "node_power_w": {job.job_id: watts for job in jobs},
        "cluster": plain_cluster(jobs),
        **facts,
    }
    queue = QueueFacts(now_s, jobs, Ranking.VALUE, **queue_facts)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    used = {host for job in jobs if job.hosts for host in job.hosts.split(",")}
    uses = [NodeUse.USED if name in used else NodeUse.FREE for name in names]
    stand = tuple(a_node(name, use=use) for name, use in zip(names, uses, strict=True))
    return PlanInputs(queue, rules, stand, shared_nodes=False, room=ROOM, caps=caps)


__all__ = ["HOUR_S", "NOW_S", "RULES", "Site", "a_job", "a_node", "a_running", "make_inputs", "prices"]
