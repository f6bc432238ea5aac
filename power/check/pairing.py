"""Whether a BMC is that of the node with which the inventory pairs it: by what the BMC says of itself.

A BMC may know the host name of its system (Redfish HostName; IPMI v2.0, section 22.14a, System Name), and knows the
UUID, by Redfish the serial number, too, that the node reads from its firmware (DMI). A wrong pair would switch off
another node.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from offpeak.errors import BadInventory, DeviceError, WrongDevice
from offpeak.files import read_bytes
from offpeak.machines.inventory import InventoryNode
from offpeak.power.drivers.ipmi.bmc import address_of
from offpeak.power.drivers.ipmi.requests import read_system_name
from offpeak.power.drivers.redfish import RedfishService, find_system
from offpeak.power.drivers.transport import Transport

LEAST_SERIAL = 4
"""Shorter serial numbers, and those that several nodes have, prove nothing."""
LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)")


@dataclass(frozen=True)
class BmcClaims:
    """What a BMC says of its system; "" for what it does not say."""

    host_name: str = ""
    serial: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class NodeFirmware:
    """What a node reads from its own firmware."""

    uuid: str
    serial: str = ""


async def read_claims(machine: InventoryNode, identity: str, wire: Transport) -> BmcClaims:
    """Return what the BMC says; `identity` is the UUID of one that is not queried by Redfish. Never raises."""
    try:
        if machine.hardware.driver == "ipmi":
            ask = partial(wire.sessions.ask, address_of(machine))
            return BmcClaims(await read_system_name(ask), uuid=identity)
        if machine.hardware.driver == "redfish":
            service = RedfishService(machine, logins=wire.logins, timeout_s=wire.timeout_s)
            try:
                system = await service.get(await find_system(service, machine))
            finally:
                await service.close()
            texts = (system.get(key) for key in ("HostName", "SerialNumber", "UUID"))
            return BmcClaims(*(text.strip() if isinstance(text, str) else "" for text in texts))
    except DeviceError:
        pass
    return BmcClaims(uuid=identity)


def prove_pair(
    machine: InventoryNode, claims: BmcClaims, nodes: Collection[str], firmware: Mapping[str, NodeFirmware]
) -> str:
    """Return by what the pair is proven, "" if by nothing. Raises WrongDevice if the BMC is that of another node.

    `firmware` is what nodes read of themselves, {} if it is not known.
    """
    proofs = {}
    host = _short(claims.host_name)
    for node in nodes:
        if host and host == _short(node):
            proofs[node] = f"host name {claims.host_name}"
    serials = [each.serial for each in firmware.values()]
    for node, read in firmware.items():
        if _byte_orders(claims.uuid) & _byte_orders(read.uuid):
            proofs[node] = f"UUID {claims.uuid}"
        elif len(claims.serial) >= LEAST_SERIAL and claims.serial == read.serial and serials.count(read.serial) == 1:
            proofs[node] = f"serial number {claims.serial}"
    others = [node for node in proofs if node != machine.node]
    if others:
        raise WrongDevice(
            f"{machine.node}: {machine.bmc} is the BMC of {others[0]} by its {proofs[others[0]]}",
            hint="pair them anew in the inventory: bmc = of their [[machines]]",
        )
    return proofs.get(machine.node, "")


def read_firmware(path: Path) -> dict[str, NodeFirmware]:
    """Return what a file says of the nodes: a line has a node, its UUID and, if known, its serial number.

    Raises BadInventory, with the line, for anything else.
    """
    found = dict[str, NodeFirmware]()
    for number, line in enumerate(read_bytes(path, BadInventory).decode(errors="replace").splitlines(), 1):
        node, _, rest = line.strip().partition(" ")
        uuid, _, serial = rest.strip().partition(" ")
        if not node:
            continue
        if not _byte_orders(uuid) or node in found:
            problem = "stands twice" if node in found else f"has no UUID, but {uuid!r}"
            hint = "write lines of node, UUID and serial number, from /sys/class/dmi/id/product_uuid and product_serial"
            raise BadInventory(f"{path}:{number}: {node} {problem}", hint=hint)
        found[node] = NodeFirmware(uuid, serial.strip())
    return found


def pair_lines(bmc_of: Mapping[str, str]) -> list[str]:
    """Return a line for each run of nodes and BMCs whose last numbers rise together, and for each other pair."""
    lines = []
    pairs = list(bmc_of.items())
    begin = 0
    for at in range(1, len(pairs) + 1):
        if at < len(pairs) and all(_follows(*texts) for texts in zip(pairs[at - 1], pairs[at], strict=True)):
            continue
        (node, bmc), (last_node, last_bmc) = pairs[begin], pairs[at - 1]
        run = at - begin > 1
        lines.append(f"{node} to {last_node}: {bmc} to {last_bmc}, one by one" if run else f"{node}: {bmc}")
        begin = at
    return lines


def _follows(before: str, after: str) -> bool:
    """Tell whether two texts differ by one in their last number only."""
    parts = [LAST_NUMBER.fullmatch(text) for text in (before, after)]
    if parts[0] is None or parts[1] is None:
        return False
    one, other = parts[0].groups(), parts[1].groups()
    return (one[0], one[2]) == (other[0], other[2]) and int(other[1]) == int(one[1]) + 1


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _byte_orders(text: str) -> frozenset[UUID]:
    """Return the UUIDs that are meant, as firmware and BMCs write the bytes in different orders; none for no UUID."""
    try:
        uuid = UUID(text)
    except ValueError:
        return frozenset()
    if uuid.int in (0, (1 << 128) - 1):
        return frozenset()
    return frozenset({uuid, UUID(bytes=uuid.bytes_le), UUID(bytes=uuid.bytes[::-1]), UUID(bytes=uuid.bytes_le[::-1])})
