"""The packet that wakes a node: what is in it, where it goes, and that it claims nothing about the node."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wake_listener import wake_listener

from offpeak.door.door import Guard
from offpeak.errors import BadInventory, NoAnswer, NotSupported, OrderTooLate
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.wake_on_lan import WakeOnLanDriver, magic_packet, parse_mac

pytestmark = pytest.mark.quick

MAC, OTHER_MAC = "52:54:00:12:34:56", "52:54:00:12:34:57"
BYTES = bytes.fromhex("525400123456")
macs = st.binary(min_size=6, max_size=6)


def machine(via: str, mac: str | None = MAC) -> InventoryNode:
    return InventoryNode("n001", Hardware("compute"), mac=mac, wol_via=via)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.255.255"])
def test_the_packet_reaches_a_host_and_a_broadcast_address(address: str) -> None:
    with wake_listener(address) as card:
        asyncio.run(WakeOnLanDriver(machine(card.via)).send(NodeOrder.ON))
        assert card.packet() == b"\xff" * 6 + BYTES * 16


def test_an_order_that_is_refused_after_the_name_was_found_sends_nothing() -> None:
    async def confirm() -> Guard:
        return refuse

    with wake_listener() as card:
        with pytest.raises(OrderTooLate):
            asyncio.run(WakeOnLanDriver(machine(card.via)).send(NodeOrder.ON, confirm))
        asyncio.run(WakeOnLanDriver(machine(card.via, OTHER_MAC)).send(NodeOrder.ON))
        assert card.packet() == magic_packet(parse_mac(OTHER_MAC))


def refuse() -> None:
    raise OrderTooLate("the lease is over")


@given(macs)
def test_a_packet_holds_the_address_sixteen_times_after_its_sign(mac: bytes) -> None:
    packet = magic_packet(mac)
    assert len(packet) == 102
    assert packet[:6] == b"\xff" * 6
    assert {packet[start : start + 6] for start in range(6, 102, 6)} == {mac}


@given(macs, st.sampled_from([":", "-", "", "."]), st.booleans())
def test_addresses_are_read_as_every_tool_writes_them(mac: bytes, sign: str, upper: bool) -> None:
    text = mac.hex(sign, 2) if sign == "." else mac.hex(sign) if sign else mac.hex()
    assert parse_mac(text.upper() if upper else text) == mac


@pytest.mark.parametrize(
    "text", ["", "52:54:00:12:34", "52:54:00:12:34:5g", "52:54-00:12:34:56", "52:54:00:12:34:56\n"]
)
def test_invalid_mac_address_is_refused(text: str) -> None:
    with pytest.raises(BadInventory, match="is not a MAC address"):
        parse_mac(text)


def test_state_of_the_node_is_unknown() -> None:
    observed = asyncio.run(WakeOnLanDriver(machine("127.0.0.1")).query())
    assert observed.state is PowerState.UNKNOWN
    assert asyncio.run(WakeOnLanDriver(machine("127.0.0.1")).identity()) is None


def test_driver_offers_wake_only() -> None:
    with pytest.raises(NotSupported, match="n001: wake-on-LAN can only wake, not soft_off"):
        asyncio.run(WakeOnLanDriver(machine("127.0.0.1")).send(NodeOrder.SOFT_OFF))


def test_a_packet_that_cannot_leave_is_reported() -> None:
    with pytest.raises(NoAnswer, match=r"n001: no packet sent to no-such-host\.invalid: ") as caught:
        asyncio.run(WakeOnLanDriver(machine("no-such-host.invalid")).send(NodeOrder.ON))
    assert "wol_via" in caught.value.hint


@pytest.mark.parametrize("via", [":9", "host:", "host:99999", "host:x"])
def test_an_address_with_a_strange_port_is_refused(via: str) -> None:
    with pytest.raises(BadInventory, match="is not an address"):
        WakeOnLanDriver(machine(via))


def test_a_node_without_an_address_cannot_be_woken() -> None:
    with pytest.raises(BadInventory, match="n001: has no mac"):
        WakeOnLanDriver(machine("127.0.0.1", mac=None))
