"""What admins do to nodes by hand, at the scheduler, at a BMC or by `offpeak nodes`, the agent respects."""

import time
from collections.abc import Iterator

import pytest
from node_story import (
    FLAT,
    by_hand,
    for_a_while,
    is_up,
    offpeak,
    orders,
    wait_for_line,
    wait_for_sleep,
)
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS

pytestmark = [
    pytest.mark.usefixtures("nobody_suffers"),
    # Torque has the scenes in which power is taken from nodes.
    pytest.mark.parametrize("kind", ["slurm", OPENPBS], indirect=True, scope="module"),
]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=10))


def site(cluster: PoweredStage, capacity: str) -> str:
    return str(write_site(cluster, {"agent": {"capacity": capacity, "hands_off": "10min"}, **FLAT}))


@pytest.fixture(scope="module", autouse=True)
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    made = RunningAgent(cluster, ("agent", "--config", site(cluster, "always-on")), zygote.start)
    made.start()
    wait_for_line(made, "started")
    yield made
    made.stop()


def test_admins_and_nodes_that_stay_up(cluster: PoweredStage) -> None:
    cluster.admin.close("node1", "new DIMM")
    # Until the agent has looked at its nodes, it asks for the order once more.
    new_dimm = ("nodes", "node1", "sleep", "--reason", "new DIMM")
    cluster.wait(lambda: run_offpeak(cluster, *new_dimm).returncode == 0, what="the order to be taken")
    reported = ["node2"] if cluster.admin.power_down("node2") else []
    by_hand(cluster, "node3", "soft_off")
    cluster.wait(lambda: off(cluster) == {"node1", "node3", *reported}, what="these nodes to be off")
    wait_for_sleep(cluster, *reported)
    # The agent does not touch a node that somebody else has switched off, nor a drained node.
    for_a_while()
    assert cluster.admin.scheduler_state("node1") is SchedulerState.DRAINED
    assert (cluster.admin.scheduler_state("node3"), orders(cluster, "node3")) == (cluster.silent, ["soft_off"])
    offpeak(cluster, "nodes", "node1", "wake", "--reason", "it has its DIMM")
    by_hand(cluster, "node3", "on")
    for node in reported:
        cluster.admin.power_up(node)
    cluster.wait(lambda: not off(cluster), what="all to be up again")
    cluster.admin.open("node1")
    cluster.wait(lambda: all(is_up(cluster, node) for node in cluster.nodes), what="all to be idle")
    assert [orders(cluster, node) for node in ("node1", "node3", *reported)] == [["soft_off", "on"]] * (
        2 + len(reported)
    )


def test_an_open_node_that_an_admin_sends_to_sleep_is_closed_first_and_its_job_ends(cluster: PoweredStage) -> None:
    since_s = time.time()
    (job,) = cluster.jobs.submit(on="node9", seconds=300)
    cluster.wait(lambda: cluster.admin.scheduler_state("node9") is SchedulerState.BUSY, what="the job to run")
    for node in ("node9", "node10"):
        output = offpeak(cluster, "nodes", node, "sleep", "--reason", "a quiet night")
        assert (
            f"{node}: the agent has the order, closes it to jobs in the scheduler, and orders it when it has none"
            in output
        )
    cluster.wait(lambda: off(cluster) == {"node10"}, what="the idle node to be off")
    assert cluster.admin.is_shut("node9")
    for_a_while()
    assert cluster.admin.has_jobs("node9")
    assert orders(cluster, "node9", since_s) == []
    cluster.jobs.cancel([job])
    cluster.wait(lambda: off(cluster) == {"node9", "node10"}, what="the other one to be off")
    assert [orders(cluster, node, since_s) for node in ("node9", "node10")] == [["soft_off"]] * 2
    assert "no_job_now" not in offpeak(cluster, "ledger", "actions")
    wait_for_sleep(cluster, "node9", "node10")
    for node in ("node9", "node10"):
        offpeak(cluster, "nodes", node, "wake", "--reason", "morning")
    cluster.wait(lambda: all(is_up(cluster, node) for node in cluster.nodes), what="all to be idle")


def test_admins_and_nodes_that_may_sleep(cluster: PoweredStage, running: RunningAgent) -> None:
    cluster.admin.close("node4", "broken fan")
    offpeak(cluster, "nodes", "node5", "hold", "--reason", "a benchmark")
    (job,) = cluster.jobs.submit(on="node6", seconds=120)
    cluster.wait(lambda: cluster.admin.scheduler_state("node6") is SchedulerState.BUSY, what="the job to run")
    site(cluster, "timeout:2s")
    running.reread()
    wait_for_sleep(cluster, "node7", "node8")
    by_hand(cluster, "node7", "on")
    offpeak(cluster, "nodes", "node8", "wake", "--reason", "a login")
    cluster.wait(lambda: not {"node7", "node8"} & off(cluster), what="both to be up")
    assert orders(cluster, "node5") == []
    offpeak(cluster, "nodes", "node5", "release")
    wait_for_sleep(cluster, "node5")
    # The agent leaves a node that somebody else has switched on alone for a while; held nodes do not change.
    assert orders(cluster, "node7") == ["soft_off", "on"]
    assert [orders(cluster, node) for node in ("node4", "node6")] == [[], []]
    assert cluster.admin.scheduler_state("node4") is SchedulerState.DRAINED
    cluster.jobs.cancel([job])


def test_a_hold_is_in_force_when_its_command_returns(cluster: PoweredStage, running: RunningAgent) -> None:
    site(cluster, "always-on")
    running.reread()
    cluster.wait(lambda: is_up(cluster, "node10") or cluster.admin.sleeps("node10"), what="node10 to be settled")
    # Until the agent has looked at its nodes, it asks for the order once more.
    wake = ("nodes", "node10", "wake", "--reason", "a look")
    cluster.wait(lambda: run_offpeak(cluster, *wake).returncode == 0, what="the order to be taken")
    cluster.wait(lambda: is_up(cluster, "node10"), what="node10 to be up")
    # The agent is about to put it to sleep; at which moment the hold comes is left to chance.
    since_s = time.time()
    site(cluster, "timeout:2s")
    running.reread()
    cluster.wait(lambda: cluster.admin.is_shut("node10"), what="node10 to be closed")
    output = offpeak(cluster, "nodes", "node10", "hold", "--reason", "a benchmark")
    assert "node10: held by " in output
    before = orders(cluster, "node10", since_s)
    for_a_while()
    assert orders(cluster, "node10", since_s) == before
    offpeak(cluster, "nodes", "node10", "release")
    wait_for_sleep(cluster, "node10")


def off(cluster: PoweredStage) -> set[str]:
    """Return the nodes that are off."""
    return {name for name, node in cluster.nodes.items() if node.state is NodeState.OFF}
