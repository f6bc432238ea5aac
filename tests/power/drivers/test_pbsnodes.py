"""Torque's own way to a node's power, against the stand-in, and against what real servers of several versions said."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin

from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.model.orders import NodeChange, NodeOrder, PowerState
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.power.drivers.pbsnodes import PbsnodesDriver
from offpeak.settings.agent import PbsSettings

pytestmark = pytest.mark.quick

CAPTURES = "data/captures/torque"
Play = Callable[..., PbsnodesDriver]
"""Makes pbsnodes print a recording; takes the file of nodes, that of a complaint of -m, and the node."""


@pytest.fixture
def torque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        yield running


def driver(name: str = "node1") -> PbsnodesDriver:
    return PbsnodesDriver(InventoryNode("n1", Hardware("torque", driver="pbsnodes"), bmc=name), timeout_s=20)


def state(way: PbsnodesDriver) -> PowerState:
    return asyncio.run(way.query()).state


def send(way: PbsnodesDriver, order: NodeOrder) -> None:
    asyncio.run(way.send(order))


def power_order(torque: StandIn) -> str:
    return torque.do(lambda pbs: pbs.cluster.nodes["node1"].power_order)


def test_a_node_goes_down_and_comes_back_though_the_server_says_it_failed(torque: StandIn) -> None:
    way, scheduler = driver(), TorqueScheduler(PbsSettings(timeout_s=300))

    def change(what: NodeChange) -> None:
        assert scheduler.change_nodes(["node1"], what, reason="offpeak: nobody needs it") == {}

    assert asyncio.run(way.identity()) == "node1"
    assert state(way) is PowerState.ON
    change(NodeChange.CLOSE)
    send(way, NodeOrder.SOFT_OFF)
    assert power_order(torque) == "shutdown"
    # The server has not noticed yet.
    assert state(way) is PowerState.ON
    torque.do(lambda pbs: pbs.cluster.goes_down("node1", 0))
    assert state(way) is PowerState.OFF
    assert state(driver()) is PowerState.UNKNOWN
    change(NodeChange.POWER_DOWN)
    # An agent that was started since goes by the note.
    assert state(driver()) is PowerState.OFF
    change(NodeChange.POWER_UP)
    send(way, NodeOrder.ON)
    assert power_order(torque) == "running"
    torque.do(lambda pbs: pbs.cluster.comes_up("node1", 2_000_000_000))
    assert state(way) is PowerState.ON


def test_a_daemon_that_is_silent_by_itself_is_not_taken_for_off(torque: StandIn) -> None:
    torque.do(lambda pbs: pbs.cluster.goes_down("node1", 0))
    seen = asyncio.run(driver().query())
    assert seen.state is PowerState.UNKNOWN
    assert "offpeak did not shut it down" in str(seen.error)
    with pytest.raises(BadAnswer, match="does not answer"):
        send(driver(), NodeOrder.ON)


def test_a_node_with_a_job_is_refused_by_the_server(torque: StandIn) -> None:
    torque.run("qsub", "-l", "nodes=3:ppn=8", user="alice", stdin="sleep 1000\n")
    with pytest.raises(BadAnswer, match="node1: pbsnodes -m shutdown: Can't change power state on a node which has"):
        send(driver(), NodeOrder.SOFT_OFF)
    assert power_order(torque) == ""


def test_order_is_not_sent_if_the_node_is_already_there(torque: StandIn) -> None:
    send(driver(), NodeOrder.ON)
    assert power_order(torque) == ""
    with pytest.raises(NotSupported, match="does not support hard_off"):
        send(driver(), NodeOrder.HARD_OFF)


def test_a_server_that_is_gone_and_a_node_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        with pytest.raises(BadAnswer, match="node9: pbsnodes: Unknown node"):
            asyncio.run(driver("node9").identity())
    assert isinstance(asyncio.run(driver().query()).error, NoAnswer)


def test_a_machine_without_a_name() -> None:
    with pytest.raises(BadInventory, match="has no name in Torque"):
        PbsnodesDriver(InventoryNode("n1", Hardware("torque", driver="pbsnodes")))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path) -> Play:
    """Return what makes pbsnodes print a recording of nodes, and with -m what another one complained of."""

    def play(nodes: str, complaint: str = "", node: str = "n003") -> PbsnodesDriver:
        text = re.findall("<Node>.*?</Node>", (shared / CAPTURES / nodes).read_text())
        (tmp_path / "nodes").write_text(f"<Data>{next(each for each in text if f'<name>{node}<' in each)}</Data>")
        refused = f'[ "$1" = -m ] && {{ cat {shared / CAPTURES / complaint} >&2; exit 0; }}\n' if complaint else ""
        program = tmp_path / "pbsnodes"
        program.write_text(f"#!/bin/sh\n{refused}exec cat {tmp_path / 'nodes'}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return driver(node)

    return play


@pytest.mark.parametrize(
    ("nodes", "node", "expected"),
    [
        ("C_power_two_pbsnodes_x.xml", "n002", PowerState.ON),
        ("C_power_two_pbsnodes_x.xml", "n003", PowerState.OFF),
        # In standby, by somebody else's order: it has power, and is of no use.
        ("C_power_two_pbsnodes_x.xml", "n004", PowerState.UNKNOWN),
        ("F_momdown_pbsnodes_x.xml", "n002", PowerState.UNKNOWN),
        ("v4.2.10/pbsnodes_x.xml", "n002", PowerState.UNKNOWN),
    ],
)
def test_recorded_states(nodes: str, node: str, expected: PowerState, recorded: Play) -> None:
    way = recorded(nodes, "", node)
    assert state(way) is expected
    assert asyncio.run(way.identity()) == node


def test_a_node_that_has_never_reported_is_nobody(recorded: Play) -> None:
    assert asyncio.run(recorded("A_pbsnodes_x.xml", "", "n005").identity()) is None


@pytest.mark.parametrize(
    ("complaint", "kind", "reply"),
    [
        ("Cbug_unpatched_power_lowtolow.txt.err", None, ""),
        ("C_power_lowtolow.txt.err", BadAnswer, "Host is down"),
        ("C_power_refused_jobs.txt.err", BadAnswer, "has running jobs"),
        ("C_power_user_denied.txt.err", AccessRefused, "Unauthorized Request"),
        ("v4.2.10/pbsnodes_m_standby.txt.err", NotSupported, "has no -m"),
    ],
)
def test_recorded_complaints(complaint: str, kind: type[DeviceError] | None, reply: str, recorded: Play) -> None:
    way = recorded("C_power_standby_pbsnodes_x.xml", complaint)
    if kind is None:
        send(way, NodeOrder.SOFT_OFF)
        return
    with pytest.raises(kind, match=reply) as caught:
        send(way, NodeOrder.SOFT_OFF)
    assert caught.value.hint


def test_a_torque_without_that_way_gets_no_order(recorded: Play) -> None:
    with pytest.raises(NotSupported, match="reports no power_state and has no -m") as caught:
        send(recorded("v4.2.10/pbsnodes_x.xml"), NodeOrder.SOFT_OFF)
    assert "ipmi" in caught.value.hint
