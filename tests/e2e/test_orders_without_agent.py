"""Orders by hand while no agent runs: the command takes the steps of the agent, the scheduler first."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from node_story import FLAT, offpeak, orders
from powered_fixtures import StartStage
from powered_stage import PoweredStage

from benchmarks.local_slurm.agent import run_offpeak, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.scheduler.node import SchedulerState

ALL = ("node1", "node2", "node3", "node4")

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=len(ALL)))


def closed(cluster: PoweredStage) -> list[str]:
    """Return the nodes that take no jobs."""
    return [node for node in ALL if cluster.admin.is_shut(node)]


def test_an_order_to_sleep_without_an_agent_closes_the_node_first(cluster: PoweredStage) -> None:
    cluster.wait(
        lambda: {cluster.admin.scheduler_state(node) for node in ALL} == {SchedulerState.UP}, what="idle nodes"
    )
    sleep = ("sleep", "--reason", "a quiet night")
    # What a rule refuses is opened again.
    write_site(cluster, {"agent": {"min_on": len(ALL)}, **FLAT})
    refused = run_offpeak(cluster, "nodes", "node3", *sleep)
    assert (refused.returncode, "(rule min_on)" in refused.stderr) == (1, True), refused.stderr
    assert closed(cluster) == []
    write_site(cluster, FLAT)
    (busy,) = cluster.jobs.submit(on="node2", seconds=300)
    cluster.wait(lambda: cluster.admin.scheduler_state("node2") is SchedulerState.BUSY, what="the job to run")
    refused = run_offpeak(cluster, "nodes", "node2", *sleep)
    assert refused.returncode == 1
    assert "nothing was sent to it, and it is closed to new jobs now" in refused.stderr
    assert closed(cluster) == ["node2"]
    assert "open to jobs again" in offpeak(cluster, "nodes", "node2", "wake")
    assert (closed(cluster), cluster.admin.has_jobs("node2")) == ([], True)
    with ThreadPoolExecutor(1) as other:
        order = other.submit(run_offpeak, cluster, "nodes", "node1", *sleep)
        cluster.wait(lambda: "node1" in closed(cluster) or order.done(), what="the node to be closed")
        # A job that wants the node while it is on its way.
        (late,) = cluster.jobs.submit(on="node1", seconds=300)
        done = order.result(timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "closed to jobs; `offpeak nodes node1 wake` opens it again" in done.stdout
    assert [orders(cluster, node) for node in ALL] == [["soft_off"], [], [], []]
    assert not cluster.admin.has_jobs("node1")
    # OpenPBS opens a node that boots by itself.
    offpeak(cluster, "nodes", "node1", "wake")
    up = (SchedulerState.UP, SchedulerState.BUSY)
    cluster.wait(lambda: cluster.admin.scheduler_state("node1") in up, what="the node to come up")
    # Without an agent a server of PBS looks at the late job when the next one is submitted.
    (next_one,) = cluster.jobs.submit(on="node2", seconds=300)
    cluster.wait(lambda: cluster.admin.scheduler_state("node1") is SchedulerState.BUSY, what="the late job to run")
    cluster.jobs.cancel([busy, late, next_one])
