"""Sleeping nodes are up before they are needed: by a reservation, a job put off for a cheap hour, a planned start."""

import time

import pytest
from node_story import came_up_s, dear_until, is_up, local, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.constants import DAY_S

BOOT_S, ASLEEP_S, RESERVED_AFTER_S = 3.0, 60, 25
"""A boot, the time by which all are asleep, and a reservation's begin after that."""

ALL = {f"node{number}" for number in range(1, 7)}

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=BOOT_S))


def test_nodes_are_up_before_they_are_needed(cluster: PoweredCluster, zygote: Zygote) -> None:
    begin_s = time.time()
    edge_s = int(begin_s + ASLEEP_S + 59) // 60 * 60
    settings = write_site(
        cluster, {"agent": {"longest_delay": "1h", "cycle": "4s"}, "prices": {"tariff": dear_until(edge_s)}}
    )
    with agent(cluster, settings, by=zygote.start):
        put_off = submit_to_be_put_off(cluster, edge_s)
        # Busy until after the edge, by a job that outlives its limit: the wide one is planned before it can start.
        limit_min = int(edge_s - time.time()) // 60 + 1
        cluster.jobs.submit(on="node1", limit_min=limit_min, seconds=60 * limit_min + 40)
        # A node of a distant reservation sleeps like any other.
        reserve(cluster, "node5", int(begin_s) + DAY_S, name="tomorrow")
        wait_for_sleep(cluster, "node2", "node3", "node4", "node5", "node6")
        reserved_s = int(time.time()) + RESERVED_AFTER_S
        reserve(cluster, "node6", reserved_s)
        (wide,) = cluster.jobs.submit(on="node[1-3]", limit_min=1, nodes=3, seconds=1)
        cluster.wait(lambda: is_up(cluster, "node6"), what="node6 to be up")
        assert came_up_s(cluster, "node6", begin_s, time.time()) < reserved_s, cluster.describe_state()
        both_s = 60 * limit_min + 100
        cluster.wait(lambda: {put_off, wide} <= set(cluster.jobs.started()), what="both to start", seconds=both_s)
    starts = {entry.job: entry for entry in cluster.jobs.trace() if entry.what == "start"}
    first, second = starts[put_off], starts[wide]
    assert came_up_s(cluster, first.nodes, begin_s, first.at_s) < edge_s <= first.at_s, cluster.describe_state()
    # A node that is woken for a job takes until its boot and Slurm's next look have passed: these were up before.
    for node in ("node2", "node3"):
        assert came_up_s(cluster, node, begin_s, second.at_s) < second.at_s - 1


def reserve(cluster: PoweredCluster, node: str, begin_s: int, *, name: str = "course") -> None:
    arguments = (f"reservationname={name}", f"nodes={node}", f"starttime={local(begin_s)}", "duration=10", "users=root")
    cluster.run("scontrol", "create", "reservation", *arguments)


def submit_to_be_put_off(cluster: PoweredCluster, edge_s: int) -> str:
    """Return a job that is put off to the edge; Slurm would start it before the agent has seen it."""
    cluster.run("scontrol", "update", "partitionname=batch", "state=down")
    (job,) = cluster.jobs.submit(user_hint="delay=20min", limit_min=2, seconds=1)
    cluster.wait(lambda: begin_of(cluster, job) == edge_s, what="the job to be put off")
    cluster.run("scontrol", "update", "partitionname=batch", "state=up")
    return job


def begin_of(cluster: PoweredCluster, job: str) -> float:
    """Return when the job may start at the earliest."""
    shown = cluster.run("scontrol", "--oneliner", "show", "job", job)
    (text,) = [term.partition("=")[2] for term in shown.split() if term.startswith("EligibleTime=")]
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) if text != "Unknown" else 0
