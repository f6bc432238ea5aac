"""The plan of a virtual machine room: devices, addresses, logins, and its folder.

The folder holds the room's passwords, and an inventory with which every other command finds the hardware.
"""

import ipaddress
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from offpeak.errors import BadInput, CannotWrite
from offpeak.files import is_there, replacing
from offpeak.machines.credentials import read_secret
from offpeak.machines.node_sets import fold
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import OFF
from offpeak.sim_backend.virtual.node import BmcUser

OUTLETS = 24
"""The number of outlets of a virtual PDU, as of the model that it reports."""

USER = "admin"
BMC_PASSWORD, PDU_COMMUNITY, INVENTORY = "bmc.password", "pdu.community", "inventory.toml"

HEAD = """\
# Virtual hardware: {made_by}

[credentials.bmc]
user = "{user}"
password_file = "{password}"

[credentials.pdu]
password_file = "{community}"

[hardware.virtual]
driver = "ipmi"
credential = "bmc"
port = {port}
cipher_suite = 17
node_class = "{node_class}"
cap_by = "bmc"
cap_curve = "v100"

[hardware.virtual.soft_off]
wake = ["bmc"]
"""
MACHINES = """
[[machines]]
nodes = "{nodes}"
hardware = "virtual"
bmc = "{bmcs}"
"""
PDU = """
[pdus.rack{number}]
host = "{host}"
port = {port}
version = "2c"
family = "apc"
credential = "pdu"

[pdus.rack{number}.outlets]
"{outlets}" = "{nodes}"
"""


@dataclass(frozen=True)
class SnmpUser:
    """A user of SNMPv3: `authentication` is SHA or SHA-256, privacy is AES-128."""

    name: str
    authentication: str
    password: str = field(repr=False)
    privacy_password: str = field(repr=False)


@dataclass(frozen=True)
class PduLogins:
    """The clients that may read a PDU: those that know the community, and users of SNMPv3."""

    community: str = field(repr=False)
    users: tuple[SnmpUser, ...] = ()


@dataclass(frozen=True)
class RoomLogins:
    """Who may log in to every BMC of a room, by user name, and to every PDU."""

    bmc: Mapping[bytes, BmcUser]
    pdu: PduLogins


@dataclass(frozen=True)
class RoomPlan:
    """Nodes of a class, a BMC each with addresses from `bmc_host` up, a PDU a rack with addresses from `pdu_host` up.

    Time runs `clock_factor` times as fast as outside. The outlets deliver `loss_factor` times what nodes draw. `seed`
    is that of failures, which are as frequent as the class says. Raises BadInput for a class that cannot be switched
    off, and for addresses that are not on loopback.
    """

    nodes: tuple[str, ...]
    node_class: NodeClass
    bmc_host: str = "127.0.40.1"
    bmc_port: int = 623
    pdu_host: str = "127.0.41.1"
    pdu_port: int = 1161
    clock_factor: float = 1.0
    loss_factor: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.node_class.find_depth(OFF) is None:
            hint = "name one that has [off], such as server"
            raise BadInput(f"{self.node_class.name}: nodes of this class cannot be switched off", hint=hint)
        for addresses in (self.bmc_hosts, self.pdu_hosts):
            if not all(ipaddress.IPv4Address(address).is_loopback for address in addresses):
                hint = "virtual hardware is open to whoever reaches it: give an address such as 127.0.40.1"
                problem = f"{addresses[0]}: {len(addresses)} addresses from there on are not all on loopback"
                raise BadInput(problem, hint=hint)

    @property
    def racks(self) -> tuple[tuple[str, ...], ...]:
        """The nodes rack by rack, as many as a PDU has outlets."""
        return tuple(self.nodes[at : at + OUTLETS] for at in range(0, len(self.nodes), OUTLETS))

    @property
    def bmc_hosts(self) -> tuple[str, ...]:
        """The addresses of the BMCs, in the order of the nodes."""
        return _addresses(self.bmc_host, len(self.nodes))

    @property
    def pdu_hosts(self) -> tuple[str, ...]:
        """The addresses of the PDUs, rack by rack."""
        return _addresses(self.pdu_host, len(self.racks))


def _addresses(first: str, count: int) -> tuple[str, ...]:
    try:
        start = ipaddress.IPv4Address(first)
        return tuple(str(start + number) for number in range(count))
    except ValueError:
        raise BadInput(f"{first!r} is no IPv4 address", hint="write it like 127.0.40.1") from None


def room_logins(folder: Path) -> RoomLogins:
    """Return the logins whose passwords are in the folder, made if there are none.

    Raises BadInput like `read_secret`.
    """
    password, community = _secret_in(folder, BMC_PASSWORD), _secret_in(folder, PDU_COMMUNITY)
    return RoomLogins({USER.encode(): BmcUser(password)}, PduLogins(community.decode()))


def write_inventory(folder: Path, plan: RoomPlan, *, node_class: str, made_by: str) -> Path:
    """Write the room's inventory and return its path. One that `made_by` wrote before is kept, with what was enrolled.

    Raises BadInput if there is another inventory, which may be in use.
    """
    _make(folder)
    head = HEAD.format(
        made_by=made_by,
        user=USER,
        password=BMC_PASSWORD,
        community=PDU_COMMUNITY,
        port=plan.bmc_port,
        node_class=node_class,
    )
    parts, hosts = [head], list(plan.bmc_hosts)
    for number, (nodes, pdu) in enumerate(zip(plan.racks, plan.pdu_hosts, strict=True), 1):
        bmcs = [hosts.pop(0) for _ in nodes]
        parts.append(MACHINES.format(nodes=fold(nodes), bmcs=fold(bmcs)))
        outlets = f"1-{len(nodes)}" if len(nodes) > 1 else "1"
        parts.append(PDU.format(number=number, host=pdu, port=plan.pdu_port, outlets=outlets, nodes=fold(nodes)))
    path, text = folder / INVENTORY, "".join(parts).encode()
    if not is_there(path):
        with replacing(path) as file:
            file.write(text)
    elif path.read_bytes().partition(b"\n")[0] != text.partition(b"\n")[0]:
        hint = "give the same options as then, remove the file, or name another folder with --folder"
        raise BadInput(f"{path}: is there already, and of another room", hint=hint)
    return path


def _secret_in(folder: Path, name: str) -> bytes:
    """Return the secret in that file, made if there is none."""
    _make(folder)
    path = folder / name
    with suppress(FileExistsError), _writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(8)}\n")
    return read_secret(path).value


def _make(folder: Path) -> None:
    try:
        with _writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise BadInput(f"{folder}: is not a folder", hint="name another with --folder") from None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise CannotWrite for an error of the system, except for a file that exists."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as problem:
        hint = "choose a folder that you may write, with --folder"
        raise CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=hint) from None
