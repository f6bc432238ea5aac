"""A node of a running slurmctld goes down, is woken by a job, fails to come up, and is tried again."""

import os
import signal
from collections.abc import Iterator

import pytest
from slurm_fixtures import sleeping_slurm
from slurm_queue import submit

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster, slurmd
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.slurm.scheduler import SlurmScheduler


@pytest.fixture
def one_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster whose only node nobody ever boots."""
    with sleeping_slurm("priority/basic", nodes=1) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        yield cluster


def test_node_is_powered_down_and_up(one_node: SlurmCluster, slurm: SlurmScheduler) -> None:
    def node() -> Node:
        return slurm.view().nodes[0]

    def change(what: NodeChange) -> dict[str, str]:
        return slurm.change_nodes(["node1"], what, reason="offpeak: sleeps")

    def becomes(power: PowerState) -> None:
        wait_until(lambda: node().power is power, what=f"node1 to be {power}")

    assert change(NodeChange.CLOSE) == {}
    assert change(NodeChange.POWER_DOWN) == {}
    assert node().power in (PowerState.OFF_REQUESTED, PowerState.POWERING_OFF)
    assert change(NodeChange.POWER_DOWN) == {}
    becomes(PowerState.POWERING_OFF)
    assert change(NodeChange.POWER_UP) == {"node1": "still powers down, and Slurm would forget the order"}
    becomes(PowerState.OFF)
    os.kill(int((one_node.folder / "node1.pid").read_text()), signal.SIGKILL)
    # Slurm opens it with that and keeps the reason, which means nothing any more.
    assert (node().reason, node().use, node().failed) == ("", NodeUse.FREE, False)
    job = submit(one_node)
    assert change(NodeChange.OPEN) == {}
    becomes(PowerState.POWERING_ON)
    assert node().use is NodeUse.USED
    assert slurm.view().jobs[0].state is JobState.STARTS
    # slurmctld would requeue the job.
    (refused,) = change(NodeChange.WITHDRAW).values()
    assert refused.endswith(": Slurm waits for it")
    assert slurm.view().jobs[0].state is JobState.STARTS
    # Nobody boots it, so it fails; and is tried again.
    wait_until(lambda: node().failed, what="the node to fail")
    assert node().reason == "ResumeTimeout reached"
    one_node.run("scancel", job)
    assert change(NodeChange.RESUME) == {}
    assert (node().failed, node().power) == (False, PowerState.OFF)
    assert change(NodeChange.POWER_UP) == {}
    becomes(PowerState.POWERING_ON)


def test_a_node_that_slurmctld_took_down_as_silent_is_powered_down_by_us(
    one_node: SlurmCluster, slurm: SlurmScheduler
) -> None:
    """Else its reason would say that it did not come up, and it would be left down although it only sleeps."""
    one_node.run("scontrol", "update", "nodename=node1", "state=down", "reason=Not responding")
    os.kill(int((one_node.folder / "node1.pid").read_text()), signal.SIGKILL)
    assert slurm.change_nodes(["node1"], NodeChange.POWER_DOWN, reason="offpeak: it is off") == {}
    assert slurm.view().nodes[0].reason == "offpeak: it is off"
    wait_until(lambda: slurm.view().nodes[0].power is PowerState.OFF, what="node1 to be off")
    assert slurm.change_nodes(["node1"], NodeChange.RESUME, reason="offpeak") == {}
    node = slurm.view().nodes[0]
    assert (node.failed, node.power, node.reason) == (False, PowerState.OFF, "")


@pytest.mark.parametrize(
    ("reason", "refusal"), [("offpeak: sleeps", {}), ("new DIMM", {"node1": "was closed by root: new DIMM"})]
)
def test_a_node_that_is_switched_on_by_hand_keeps_the_reason_why_it_is_closed(
    one_node: SlurmCluster, slurm: SlurmScheduler, reason: str, refusal: dict[str, str]
) -> None:
    """As after a power cut: Slurm before 23.11 clears the reason, and nobody would open the node any more."""
    assert slurm.change_nodes(["node1"], NodeChange.POWER_DOWN, reason="offpeak: sleeps") == {}
    wait_until(lambda: slurm.view().nodes[0].power is PowerState.OFF, what="node1 to be off")
    one_node.run("scontrol", "update", "nodename=node1", "state=drain", f"reason={reason}")
    assert slurm.view().nodes[0].reason == reason
    os.kill(int((one_node.folder / "node1.pid").read_text()), signal.SIGKILL)
    with slurmd(one_node, 1):
        wait_until(lambda: slurm.view().nodes[0].power is PowerState.ON, what="node1 to register")
        node = slurm.view().nodes[0]
        assert (node.closed, node.reason) == (True, reason)
        assert slurm.change_nodes(["node1"], NodeChange.OPEN, reason="") == refusal
