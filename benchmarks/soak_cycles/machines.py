"""The soak's nodes as an inventory names them, enrolled, in racks."""

from pathlib import Path

from benchmarks.soak_cycles.bmcs import WIRE_PORT, Bmcs, RedfishBmc
from benchmarks.soak_cycles.plan import NODE_CLASS, SLEEP_METHODS, CyclesPlan
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, InventoryNode


def machines_of(plan: CyclesPlan, bmcs: Bmcs, folder: Path) -> tuple[InventoryNode, ...]:
    """Return the machines; the password of their BMCs is written into the folder."""
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    login = Credential("bmc", "admin", password)
    ipmi = Hardware(
        "compute", "ipmi", login, WIRE_PORT, cipher_suite=3, sleep_methods=SLEEP_METHODS, node_class=NODE_CLASS
    )
    redfish = Hardware("redfish", "redfish", login, sleep_methods=SLEEP_METHODS, node_class=NODE_CLASS)
    machines = []
    for node, bmc in zip(plan.nodes, bmcs.made, strict=True):
        is_redfish = isinstance(bmc, RedfishBmc)
        hardware, address = (redfish, f"http://{bmc.host}:{bmc.port}") if is_redfish else (ipmi, bmc.host)
        enrolled = Enrolment(bmc.guid, (), "2026-11-21")
        machines.append(InventoryNode(node, hardware, address, rack=plan.rack_of(node), enrolled=enrolled))
    return tuple(machines)
