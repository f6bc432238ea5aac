"""The ways to a node's power by their names in the inventory. What is slow to import is imported when it is used."""

from collections.abc import Callable, Mapping

from offpeak.errors import BadInventory
from offpeak.machines.inventory import Machine
from offpeak.suggest import did_you_mean
from power.drivers.ipmi.driver import ipmi_driver
from power.drivers.ipmi.ipmipower import ipmipower_driver
from power.drivers.ipmi.ipmitool import ipmitool_driver
from power.drivers.port import PowerDriver
from power.drivers.wire import Wire

DRIVERS: Mapping[str, Callable[[Machine, Wire], PowerDriver]] = {
    "ipmi": ipmi_driver,
    "ipmitool": ipmitool_driver,
    "ipmipower": ipmipower_driver,
}


def driver_of(machine: Machine, wire: Wire) -> PowerDriver:
    """Return the machine's driver; BadInventory if it has none, an unknown one, or lacks what that one needs."""
    name, where = machine.hardware.driver, f"[hardware.{machine.hardware.name}]"
    if name is None:
        raise BadInventory(f"{machine.node}: no driver switches it", hint=f'add driver = "ipmi" below {where}')
    if name not in DRIVERS:
        raise BadInventory(f"{machine.node}: no driver {name!r}, see {where}", hint=did_you_mean(name, DRIVERS))
    return DRIVERS[name](machine, wire)
