"""The agent offers as few nodes as keep the slowdown SLA: jobs wait, and nodes come back when the SLA is in danger."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from node_story import FLAT, for_a_while, is_up, offpeak, orders, wait_for_line
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PATIENCE_S
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.orders import NodeState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS

ALL = ("node1", "node2", "node3", "node4")
OTHERS = ALL[1:]

pytestmark = [
    pytest.mark.usefixtures("nobody_suffers"),
    # Torque has the scenes in which power is taken from nodes.
    pytest.mark.parametrize("kind", ["slurm", OPENPBS], indirect=True, scope="module"),
]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=len(ALL)))


def site(cluster: PoweredStage, **agent: Any) -> str:
    limited = {"capacity": "ols:2s:1.8", "limit_capacity": True, "hands_off": "10min"}
    return str(write_site(cluster, {"agent": limited | agent, **FLAT}))


@pytest.fixture
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    """An agent, and a job on node1 for whose sake only that node is on offer."""
    (blocker,) = cluster.jobs.submit(on="node1", seconds=600)
    cluster.wait(lambda: cluster.admin.has_jobs("node1"), what="the job on node1")
    made = RunningAgent(cluster, ("agent", "--config", site(cluster)), zygote.start)
    made.start()
    cluster.wait(lambda: withdrawn(cluster) == set(OTHERS), what="the other nodes to be withdrawn")
    yield made
    made.stop()
    cluster.jobs.cancel([job for job, state in cluster.jobs.states().items() if state in ("PENDING", "RUNNING")])
    cluster.wait(lambda: not cluster.admin.has_jobs("node1"), what="node1 to be free")
    assert blocker in cluster.jobs.states()


def withdrawn(cluster: PoweredStage) -> set[str]:
    """Return the nodes that are off, and that no job wakes."""
    off = [name for name, node in cluster.nodes.items() if node.state is NodeState.OFF]
    return {name for name in off if cluster.admin.is_withdrawn(name)}


def open_nodes(cluster: PoweredStage) -> set[str]:
    return {name for name in cluster.nodes if not cluster.admin.is_shut(name)}


def test_a_job_waits_until_more_jobs_put_the_sla_in_danger(cluster: PoweredStage, running: RunningAgent) -> None:
    since_s = time.time()
    (first,) = cluster.jobs.submit(seconds=1)
    # Its wait, as long as a job, leaves the mean slowdown of both at 1.5.
    for_a_while()
    assert cluster.jobs.states()[first] == "PENDING"
    assert [orders(cluster, node, since_s) for node in OTHERS] == [[]] * len(OTHERS)
    assert "cap: offpeak lets jobs use 1 of 4 nodes now (ols:2s:1.8)" in offpeak(cluster, "why", first)
    assert "capacity: " in offpeak(cluster, "nodes", "node2", "show")
    more = cluster.jobs.submit(count=3, seconds=1)
    cluster.wait(
        lambda: all(cluster.jobs.states()[job] == "COMPLETED" for job in (first, *more)), what="the jobs to end"
    )
    assert ["on"] in [orders(cluster, node, since_s)[:1] for node in OTHERS]
    cluster.wait(lambda: withdrawn(cluster) == set(OTHERS), what="the other nodes to be withdrawn again")
    assert running.runs


def test_a_killed_agent_leaves_nodes_that_are_given_back(cluster: PoweredStage, running: RunningAgent) -> None:
    running.kill9()
    for_a_while(2)
    assert withdrawn(cluster) == set(OTHERS)
    run_offpeak(cluster, "agent", "--restore")
    assert open_nodes(cluster) == set(ALL)
    running.start()
    cluster.wait(lambda: withdrawn(cluster) == set(OTHERS), what="the nodes to be withdrawn again")
    running.restart()
    wait_for_line(running, "started")
    for_a_while()
    assert withdrawn(cluster) == set(OTHERS)
    # A job that needs one of them gets it.
    (job,) = cluster.jobs.submit(on="node3", seconds=1)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job on node3")
    # A node that the agent no longer manages is open. On a busy machine the job may have endangered the SLA.
    cluster.wait(lambda: "node4" in withdrawn(cluster), what="node4 to be withdrawn")
    site(cluster, nodes="node[1-3]")
    running.reread()
    cluster.wait(lambda: not cluster.admin.is_shut("node4"), what="node4 to be open")
    assert running.process is not None
    running.process.terminate()
    running.process.wait(PATIENCE_S)
    assert open_nodes(cluster) == set(ALL)


def test_admins_and_settings_give_nodes_back(cluster: PoweredStage, running: RunningAgent) -> None:
    offpeak(cluster, "nodes", "node2", "wake", "--reason", "to look at it")
    cluster.wait(lambda: is_up(cluster, "node2"), what="node2 to be up and open")
    offpeak(cluster, "nodes", "node3", "hold", "--reason", "repair")
    cluster.wait(lambda: not cluster.admin.is_shut("node3"), what="node3 to be open")
    cluster.admin.close("node4", "new DIMM")
    for_a_while()
    assert is_up(cluster, "node2")
    assert open_nodes(cluster) & {"node2", "node3", "node4"} == {"node2", "node3"}
    site(cluster, mode="shadow")
    running.reread()
    wait_for_line(running, "mode shadow")
    for_a_while()
    # What an admin has closed stays closed.
    assert open_nodes(cluster) == set(ALL) - {"node4"}
    offpeak(cluster, "nodes", "node3", "release")
    cluster.admin.open("node4")


def test_a_plan_of_the_queue_wakes_as_few_nodes_as_its_jobs_lack(cluster: PoweredStage, zygote: Zygote) -> None:
    made = RunningAgent(cluster, ("agent", "--config", site(cluster, capacity="planned:2s")), zygote.start)
    made.start()
    cluster.wait(lambda: withdrawn(cluster) == set(ALL), what="all nodes to be withdrawn")
    since_s = time.time()
    (wide,) = cluster.jobs.submit(nodes=2, seconds=1)
    cluster.wait(lambda: cluster.jobs.states()[wide] == "COMPLETED", what="the job on two nodes")
    assert sorted(orders(cluster, node, since_s)[:1] for node in ALL) == [[], [], ["on"], ["on"]]
    cluster.wait(lambda: withdrawn(cluster) == set(ALL), what="all nodes to be withdrawn again")
    made.stop()
