"""The soak's nodes as an inventory names them, enrolled, in racks."""

from pathlib import Path

from benchmarks.soak_cycles.bmcs import Bmcs
from benchmarks.soak_cycles.plan import NODE_CLASS, SLEEP_METHODS, CyclesPlan
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, InventoryNode


def machines_of(plan: CyclesPlan, bmcs: Bmcs, folder: Path) -> tuple[InventoryNode, ...]:
    """Return the machines; the password of their BMCs is written into the folder."""
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    login = Credential("bmc", "admin", password)
    port = bmcs.made[0].port
    hardware = Hardware(
        "compute", "ipmi", login, port, cipher_suite=3, sleep_methods=SLEEP_METHODS, node_class=NODE_CLASS
    )
    return tuple(
        InventoryNode(node, hardware, bmc.host, rack=plan.rack_of(node), enrolled=Enrolment(bmc.guid, (), "2026-11-21"))
        for node, bmc in zip(plan.nodes, bmcs.made, strict=True)
    )
