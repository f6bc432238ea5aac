"""A virtual machine room on loopback: nodes of a class, a BMC each, and PDUs with the nodes on their outlets."""

import ipaddress
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from offpeak.errors import BadInput
from offpeak.node_class import NodeClass
from offpeak.node_states import OFF
from sim_backend.virtual.bmc import BmcUser, VirtualBmc
from sim_backend.virtual.live_node import Clock, LiveNode, clock_of
from sim_backend.virtual.node import VirtualNode
from sim_backend.virtual.pdu import VirtualPdu
from sim_backend.virtual.rmcp.server import serve
from sim_backend.virtual.snmp_agent import PduLogins, SnmpAgent

OUTLETS = 24
"""Outlets of a virtual PDU, as of the model that it says it is."""


@dataclass(frozen=True)
class RoomPlan:
    """What stands in a room. BMCs have addresses from `bmc_host` up, PDUs from `pdu_host`; both are on loopback.

    Time runs `clock_factor` times as fast as outside. The outlets deliver `loss_factor` times what nodes draw.
    """

    nodes: tuple[str, ...]
    node_class: NodeClass
    users: Mapping[bytes, BmcUser] = field(repr=False)
    pdu_logins: PduLogins = field(repr=False)
    bmc_host: str = "127.0.40.1"
    bmc_port: int = 623
    pdu_host: str = "127.0.41.1"
    pdu_port: int = 1161
    clock_factor: float = 1.0
    loss_factor: float = 1.0
    seed: int = 1


@dataclass(frozen=True)
class MachineRoom:
    """A running room: nodes, and the BMC of each, by node; PDUs by their names, rack1, rack2 and so on."""

    plan: RoomPlan
    nodes: Mapping[str, LiveNode]
    bmcs: Mapping[str, VirtualBmc]
    pdus: Mapping[str, VirtualPdu]


@asynccontextmanager
async def machine_room(plan: RoomPlan) -> AsyncIterator[MachineRoom]:
    """Run a room until the block ends; BadInput where the plan cannot be, or its addresses cannot be had."""
    room = _furnished(plan)
    async with AsyncExitStack() as open_ends:
        for host, bmc in zip(bmc_hosts(plan), room.bmcs.values(), strict=True):
            with _listening(host, plan.bmc_port):
                open_ends.callback((await serve(bmc, host, plan.bmc_port)).close)
        for host, pdu in zip(pdu_hosts(plan), room.pdus.values(), strict=True):
            agent = SnmpAgent(pdu, plan.pdu_logins)
            open_ends.callback(agent.close)
            with _listening(host, plan.pdu_port):
                await agent.start(host, plan.pdu_port)
        yield room


def bmc_hosts(plan: RoomPlan) -> tuple[str, ...]:
    """Return the addresses of the BMCs, in the order of the nodes; BadInput if one is not on loopback."""
    return _addresses(plan.bmc_host, len(plan.nodes))


def pdu_hosts(plan: RoomPlan) -> tuple[str, ...]:
    """Return the addresses of the PDUs, rack by rack; BadInput if one is not on loopback."""
    return _addresses(plan.pdu_host, len(racks(plan)))


def racks(plan: RoomPlan) -> tuple[tuple[str, ...], ...]:
    """Return the nodes rack by rack, as many as a PDU has outlets."""
    return tuple(plan.nodes[at : at + OUTLETS] for at in range(0, len(plan.nodes), OUTLETS))


def _furnished(plan: RoomPlan) -> MachineRoom:
    if plan.node_class.find_depth(OFF) is None:
        hint = "name one that has, such as server"
        raise BadInput(f"{plan.node_class.name}: nodes of this class cannot be switched off", hint=hint)
    clock, chance = clock_of(plan.clock_factor), random.Random(plan.seed)
    nodes = {name: LiveNode(name, clock, chance, VirtualNode(plan.node_class)) for name in plan.nodes}
    bmcs = {name: VirtualBmc(node, plan.users) for name, node in nodes.items()}
    pdus = {f"rack{number}": _pdu(plan, number, nodes, clock) for number in range(1, len(racks(plan)) + 1)}
    return MachineRoom(plan, nodes, bmcs, pdus)


def _pdu(plan: RoomPlan, number: int, nodes: Mapping[str, LiveNode], clock: Clock) -> VirtualPdu:
    rack = dict(enumerate(racks(plan)[number - 1], 1))
    outlets = {outlet: nodes[rack[outlet]] if outlet in rack else None for outlet in range(1, OUTLETS + 1)}
    return VirtualPdu(f"rack{number}", clock, outlets, plan.loss_factor)


def _addresses(first: str, count: int) -> tuple[str, ...]:
    try:
        start = ipaddress.IPv4Address(first)
    except ValueError:
        raise BadInput(f"{first!r} is no IPv4 address", hint="write it like 127.0.40.1") from None
    addresses = [start + number for number in range(count)]
    if not all(address.is_loopback for address in addresses):
        hint = "virtual hardware has no real security: it only listens on addresses such as 127.0.40.1"
        raise BadInput(f"{first}: {count} addresses from there on are not all on loopback", hint=hint)
    return tuple(map(str, addresses))


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise BadInput(f"{host}:{port}: only root may listen there", hint="choose ports above 1023") from None
    except OSError as problem:
        hint = "another room is running, or choose another port or address"
        raise BadInput(f"{host}:{port}: {problem.strerror}", hint=hint) from None
