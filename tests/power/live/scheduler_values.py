"""Nodes, jobs and records for the tests of the power loop, with what matters given and the rest as usual."""

from offpeak.door.effect import AGENT
from offpeak.model.orders import NodeState, PowerState
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.power.lifecycle.node_record import SETTLED, Instant, NodeRecord, ObservedState

NOW_S = 1_800_000_000
NOW = Instant(5000.0, float(NOW_S))


def node_of(name: str = "n1", **given) -> Node:
    """Return a node that is free and up since long ago."""
    usual = {
        "name": name, "native_state": "IDLE", "use": NodeUse.FREE, "power": PowerState.ON, "closed": False,
        "failed": False, "responds": True, "reserved": False, "planned": False, "reason": "", "reason_by": "",
        "reason_s": None, "partitions": ("batch",), "features": (), "cpus": 4, "cpus_used": 0, "memory_mib": 1000,
        "boot_s": None, "idle_since_s": NOW_S - 10_000,
    }  # fmt: skip
    return Node(**(usual | given))


def job_of(job_id: str = "1", **given) -> Job:
    """Return a pending job of one whole node for an hour."""
    usual = {
        "job_id": job_id, "state": JobState.PENDING, "native_state": "PENDING", "reason": "Resources", "user": "u",
        "account": "a", "name": "j", "comment": "", "partitions": ("batch",), "request": None, "reservation": "",
        "qos": "", "priority": 100, "offset": 0, "nodes": 1, "cpus": 4, "whole_nodes": True, "limit_s": 3600,
        "submit_s": NOW_S - 300, "begin_s": None, "start_s": None, "end_s": None, "hosts": "", "plain": True,
    }  # fmt: skip
    return Job(**(usual | given))


def running(job_id: str = "1", hosts: str = "n1", **given) -> Job:
    """Return a job that runs since ten minutes."""
    usual = {"state": JobState.RUNNING, "hosts": hosts, "start_s": NOW_S - 600, "end_s": NOW_S + 3000}
    return job_of(job_id, **(usual | given))


def record_of(node: str = "n1", state: NodeState = NodeState.ON, **given) -> NodeRecord:
    """Return the record of a node to which nothing else has happened."""
    known = state if state in SETTLED else None
    observed = ObservedState(state, float(NOW_S), 5000.0, float(NOW_S - 20_000), AGENT, known)
    return NodeRecord(node, **({"observed": observed} | given))
