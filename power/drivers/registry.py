"""The ways to a node's power by their names in the inventory. What is slow to import is imported when it is used."""

from collections.abc import Callable, Iterable, Mapping

from offpeak.errors import BadInventory
from offpeak.machines.inventory import InventoryNode
from offpeak.text import did_you_mean
from power.drivers.ipmi.driver import ipmi_driver
from power.drivers.ipmi.ipmipower import ipmipower_driver
from power.drivers.ipmi.ipmitool import ipmitool_driver
from power.drivers.port import PowerDriver
from power.drivers.wire import Wire


def _redfish(machine: InventoryNode, wire: Wire) -> PowerDriver:
    from power.drivers.redfish import RedfishDriver

    return RedfishDriver(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


def _wake_on_lan(machine: InventoryNode, wire: Wire) -> PowerDriver:
    from power.drivers.wake_on_lan import WakeOnLan

    return WakeOnLan(machine, timeout_s=wire.timeout_s, now=wire.clock)


def _pbsnodes(machine: InventoryNode, wire: Wire) -> PowerDriver:
    from power.drivers.pbsnodes import Pbsnodes

    return Pbsnodes(machine, timeout_s=wire.timeout_s, now=wire.clock)


DRIVERS: Mapping[str, Callable[[InventoryNode, Wire], PowerDriver]] = {
    "ipmi": ipmi_driver,
    "ipmitool": ipmitool_driver,
    "ipmipower": ipmipower_driver,
    "redfish": _redfish,
    "pbsnodes": _pbsnodes,
}
"""What switches a node, mostly through its BMC, by `driver` in [hardware]."""


def driver_of(machine: InventoryNode, wire: Wire) -> PowerDriver:
    """Return the machine's driver; BadInventory if it has none, an unknown one, or lacks what that one needs."""
    name, where = machine.hardware.driver, f"[hardware.{machine.hardware.name}]"
    if name is None:
        raise BadInventory(f"{machine.node}: no driver switches it", hint=f'add driver = "ipmi" below {where}')
    if name not in DRIVERS:
        raise BadInventory(f"{machine.node}: no driver {name!r}, see {where}", hint=did_you_mean(name, DRIVERS))
    return DRIVERS[name](machine, wire)


WAKERS: Mapping[str, Callable[[InventoryNode, Wire], PowerDriver]] = {"bmc": driver_of, "wol": _wake_on_lan}
"""What wakes a node, by the words of `wake` in its rungs."""


def wakers_of(machine: InventoryNode, names: Iterable[str], wire: Wire) -> dict[str, PowerDriver]:
    """Return the ways of these names that wake the machine; BadInventory where one lacks what it needs."""
    return {name: WAKERS[name](machine, wire) for name in names}
