"""The folder of a virtual room: its passwords, and an inventory with which every other command finds the hardware."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from offpeak.errors import BadInput, CannotWrite
from offpeak.files import replacing
from offpeak.machines.credentials import read_secret
from offpeak.machines.node_sets import fold
from sim_backend.virtual.bmc import BmcUser
from sim_backend.virtual.logins import PduLogins, RoomLogins
from sim_backend.virtual.room_plan import RoomPlan

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


def room_logins(folder: Path) -> RoomLogins:
    """Return the logins whose passwords are in the folder, made if there are none; BadInput as `read_secret`."""
    password, community = _secret_in(folder, BMC_PASSWORD), _secret_in(folder, PDU_COMMUNITY)
    return RoomLogins({USER.encode(): BmcUser(password)}, PduLogins(community.decode()))


def write_inventory(folder: Path, plan: RoomPlan, *, node_class: str, made_by: str) -> Path:
    """Write the room's inventory and return its path. One that `made_by` wrote before is kept, with what was enrolled.

    BadInput if there is another inventory, which somebody may need.
    """
    _make(folder)
    path, text = folder / INVENTORY, _inventory(plan, node_class, made_by).encode()
    if not path.exists():
        with replacing(path) as file:
            file.write(text)
    elif path.read_bytes().partition(b"\n")[0] != text.partition(b"\n")[0]:
        hint = "give the same options as then, remove the file, or name another folder with --folder"
        raise BadInput(f"{path}: is there already, and of another room", hint=hint)
    return path


def _inventory(plan: RoomPlan, node_class: str, made_by: str) -> str:
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
    return "".join(parts)


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
        raise BadInput(f"{folder}: is no folder", hint="name another with --folder") from None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what the system says into CannotWrite, but for a file that is there."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as problem:
        hint = "choose a folder that you may write, with --folder"
        raise CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=hint) from None
