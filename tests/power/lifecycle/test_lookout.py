"""What tells whether a node is up, or in standby: the node itself by ssh, and the meter of its BMC."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_node import fake_node
from served_room import planned, served_room

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.sweep import Evidence, make_poller, poll_once

pytestmark = pytest.mark.quick

STANDBY = SleepMethod(NodeOrder.STANDBY, ("bmc",), 60, 60, 25.0)


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_ports(1) as (port,):
        yield port


def hardware(folder: Path, bmc_port: int, ssh_port: int) -> Hardware:
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    ssh = Credential("nodes", "root", key_file=folder / "key", known_hosts=folder / "known_hosts")
    bmc = Credential("bmc", "admin", password)
    return Hardware("compute", "ipmi", bmc, bmc_port, ssh=ssh, ssh_port=ssh_port, sleep_methods=(STANDBY,))


def test_a_node_answers_draws_and_falls_silent(port: int, tmp_path: Path) -> None:
    with served_room(planned("n1")) as room:
        kind = hardware(tmp_path, room.plan.bmc_port, port)
        machine = InventoryNode("n1", kind, bmc=room.plan.bmc_hosts[0], ssh="127.0.0.1")

        async def reported() -> list[Evidence]:
            wire = Transport(timeout_s=10.0)
            async with fake_node(tmp_path, port) as node:
                lookout = make_poller([machine], wire)
                up = await lookout.evidence("n1")
                await node.vanish()
                silent = await lookout.evidence("n1")
            await wire.close()
            return [up, silent]

        assert asyncio.run(reported()) == [(True, 200.0, 0, None), (False, 200.0, None, None)]


def test_poll_has_no_ssh_answer_of_a_node_without_ssh(tmp_path: Path) -> None:
    machine = InventoryNode("n1", Hardware("compute", "ipmi", Credential("bmc", "admin", tmp_path)), bmc="127.0.0.1")
    assert asyncio.run(make_poller([machine], Transport()).evidence("n1")) == (None, None, None, None)


def test_a_node_that_nothing_switches_is_unknown_and_says_why() -> None:
    machine = InventoryNode("n1", Hardware("bare"))
    with pytest.raises(BadInventory):
        make_poller([machine], Transport())
    record = asyncio.run(poll_once([machine], {}, Transport()))["n1"]
    assert (str(record.observed.state), record.observed.problem) == ("unknown", "n1: no driver switches it")


def test_ssh_without_known_hosts_is_reported_beside_the_node(tmp_path: Path) -> None:
    machine = InventoryNode("n1", hardware(tmp_path, 623, 22), bmc="127.0.0.1", ssh="127.0.0.1")
    record = asyncio.run(poll_once([machine], {}, Transport()))["n1"]
    assert record.observed.problem.endswith("known_hosts: no such file")
