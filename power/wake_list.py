"""The list for waking nodes while the agent is dead: how to wake each node, its password file, and the pace.

`deploy/slurm/offpeak-resume` reads the file; its keys are the words below. It never contains a password.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.files import replacing
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.model.constants import MINUTE_S
from offpeak.model.orders import NodeOrder
from offpeak.power.door.node_orders import find_power_steps
from offpeak.power.drivers.ipmi.bmc import IPMI_PORT
from offpeak.power.interlocks.rate_limits import count_burst, find_groups
from offpeak.settings.agent import AgentSettings

FILE = "wake.json"
PACE = "[pace]"
"""The key of the pace among the keys of nodes; no node can have this name."""
IPMI = ("ipmi", "ipmitool", "ipmipower")

WakeMethod = dict[str, Any]


def make_wake_list(inventory: Inventory, *, credentials: Path | None = None) -> dict[str, WakeMethod]:
    """Return how to wake each node, by node; nodes with neither BMC nor MAC address are left out.

    `credentials` is $CREDENTIALS_DIRECTORY, which disappears with the agent. For its files, the list names the copies
    beside the inventory.
    """
    ways = {machine.node: _wake_method(machine) for machine in inventory.machines}
    return {node: _with_lasting_file(way, inventory, credentials) for node, way in ways.items() if way}


def make_wake_pace(settings: AgentSettings, inventory: Inventory) -> WakeMethod:
    """Return the door's limits on wakes in the form that the script uses: nodes at once, and seconds between nodes.

    `every_s` is the time between any two nodes, `group_every_s` between two nodes of one rack or PDU, `rise_s` the
    share of the ramp that a node's rising power takes. In no minute are there more wakes than the door allows.
    """
    at_once, ramp_w = count_burst(settings.wakes_per_min), settings.wake_ramp_w
    members: dict[str, list[str]] = {}
    for node, groups in find_groups(inventory).items():
        for group in sorted(groups):
            members.setdefault(group, []).append(node)
    power_steps = find_power_steps(inventory) if ramp_w else {}
    return {
        "at_once": at_once,
        "every_s": MINUTE_S / max(1, settings.wakes_per_min - at_once),
        "groups": members,
        "group_every_s": MINUTE_S / settings.rack_nodes_per_min,
        "rise_s": {node: MINUTE_S * power_step.rise_w / ramp_w for node, power_step in power_steps.items()}
        if ramp_w
        else {},
    }


def write_wake_list(state_folder: Path, ways: Mapping[str, WakeMethod], pace: WakeMethod | None = None) -> None:
    """Write wake.json atomically, readable by its owner only. Raises CannotWrite."""
    with replacing(state_folder / FILE) as file:
        os.fchmod(file.fileno(), 0o600)
        listed = {**ways, PACE: pace} if pace else ways
        file.write(json.dumps(listed, indent=1).encode() + b"\n")


def _wake_method(machine: InventoryNode) -> WakeMethod:
    hardware, login = machine.hardware, machine.hardware.credential
    if machine.bmc is not None and login is not None and login.password_file is not None:
        if hardware.driver in IPMI:
            return _ipmi(machine, login) | _packet_from_standby(machine)
        if hardware.driver == "redfish":
            return _redfish(machine, login) | _packet_from_standby(machine)
    return {"way": "wol"} | _packet(machine) if machine.mac is not None else {}


def _ipmi(machine: InventoryNode, login: Credential) -> WakeMethod:
    hardware = machine.hardware
    return {
        "way": "ipmi",
        "host": machine.bmc,
        "port": hardware.port or IPMI_PORT,
        "user": login.user,
        "password_file": str(login.password_file),
        "cipher_suite": hardware.cipher_suite,
        "privilege": hardware.privilege,
    }


def _redfish(machine: InventoryNode, login: Credential) -> WakeMethod:
    # Slow to import, and needed for the address only.
    from offpeak.power.drivers.redfish import base_url

    verify = machine.hardware.verify
    return {
        "way": "redfish",
        "url": base_url(machine),
        "user": login.user,
        "password_file": str(login.password_file),
        "verify": str(verify) if isinstance(verify, Path) else verify,
        "identity": machine.enrolled.identity if machine.enrolled else None,
    }


def _packet(machine: InventoryNode) -> WakeMethod:
    return {"mac": machine.mac, "via": machine.wol_via}


def _packet_from_standby(machine: InventoryNode) -> WakeMethod:
    method = machine.hardware.sleep_method(NodeOrder.STANDBY)
    return _packet(machine) if method is not None and "wol" in method.wake and machine.mac is not None else {}


def _with_lasting_file(way: WakeMethod, inventory: Inventory, credentials: Path | None) -> WakeMethod:
    if credentials is None or "password_file" not in way:
        return way
    file = Path(way["password_file"])
    if not file.is_relative_to(credentials):
        return way
    return way | {"password_file": str(inventory.path.resolve().parent / file.relative_to(credentials))}
