"""A machine room: what stands in it, where it listens, and what it refuses."""

import asyncio
import resource
from dataclasses import replace

import pytest
from served_room import LOGINS, planned

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.machine_room import machine_room
from offpeak.sim_backend.virtual.room_plan import RoomPlan

pytestmark = pytest.mark.quick


async def opened(plan: RoomPlan) -> list[tuple[str, list[str]]]:
    """Return each PDU of a room with the nodes on its outlets."""
    async with machine_room(plan, LOGINS) as room:
        assert list(room.bmcs) == list(room.nodes) == list(plan.nodes)
        return [(pdu.name, [node.name for node in pdu.outlets.values() if node]) for pdu in room.pdus.values()]


def test_every_rack_has_a_pdu() -> None:
    plan = planned("n[01-30]")
    assert asyncio.run(opened(plan)) == [
        ("rack1", [f"n{number:02}" for number in range(1, 25)]),
        ("rack2", [f"n{number:02}" for number in range(25, 31)]),
    ]
    assert (len(set(plan.bmc_hosts)), len(set(plan.pdu_hosts))) == (30, 2)


def test_a_room_leaves_its_addresses_free() -> None:
    plan = planned("n[1-3]")
    for _ in range(2):
        asyncio.run(opened(plan))


async def opened_twice(plan: RoomPlan) -> None:
    async with machine_room(plan, LOGINS), machine_room(plan, LOGINS):
        pass


def test_two_rooms_cannot_have_one_address() -> None:
    with pytest.raises(BadInput, match="cannot listen: Address already in use") as caught:
        asyncio.run(opened_twice(planned("n[1-3]")))
    assert "another room is running" in caught.value.hint


def test_a_room_too_large_for_the_process_says_so() -> None:
    few, many = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, many))
    try:
        with pytest.raises(BadInput, match="cannot listen: Too many open files") as caught:
            asyncio.run(opened(planned("n[1-250]")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, many))
    assert "ulimit" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bmc_host": "0.0.0.0"}, "0.0.0.0: 3 addresses from there on are not all on loopback"),
        ({"bmc_host": "192.168.1.10"}, "are not all on loopback"),
        ({"bmc_host": "127.255.255.254"}, "are not all on loopback"),
        ({"pdu_host": "10.0.0.1"}, "10.0.0.1: 1 addresses from there on are not all on loopback"),
        ({"pdu_host": "localhost"}, "'localhost' is no IPv4 address"),
        ({"node_class": replace(bundled_node_class("server"), depths=())}, "cannot be switched off"),
    ],
)
def test_invalid_room_plan_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        asyncio.run(opened(planned("n[1-3]", **changes)))
