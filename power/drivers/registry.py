"""The drivers by their names in the inventory, and the pool of a site's drivers.

Libraries that are slow to import are imported when their driver is first used.
"""

from collections.abc import Callable, Mapping

from offpeak.door.effect import Effect
from offpeak.errors import BadInventory
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.ipmi.driver import ipmi_driver
from offpeak.power.drivers.ipmi.programs import ipmipower_driver, ipmitool_driver
from offpeak.power.drivers.port import BY_PACKET, NeededLogins, PowerDriver
from offpeak.power.drivers.transport import Transport
from offpeak.text import did_you_mean

BY_BMC, BY_SSH = "bmc", "ssh"


def _redfish(machine: InventoryNode, wire: Transport) -> PowerDriver:
    from offpeak.power.drivers.redfish import RedfishDriver

    return RedfishDriver(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


def _wake_on_lan(machine: InventoryNode, wire: Transport) -> PowerDriver:
    from offpeak.power.drivers.wake_on_lan import WakeOnLanDriver

    return WakeOnLanDriver(machine, timeout_s=wire.timeout_s, now=wire.clock)


def _pbsnodes(machine: InventoryNode, wire: Transport) -> PowerDriver:
    from offpeak.power.drivers.pbsnodes import PbsnodesDriver

    return PbsnodesDriver(machine, timeout_s=wire.timeout_s, now=wire.clock)


def _power_control(machine: InventoryNode, wire: Transport) -> PowerDriver:
    from offpeak.power.drivers.power_control import PowerControlDriver

    return PowerControlDriver(machine, wire)


DRIVERS: Mapping[str, Callable[[InventoryNode, Transport], PowerDriver]] = {
    "ipmi": ipmi_driver,
    "ipmitool": ipmitool_driver,
    "ipmipower": ipmipower_driver,
    "redfish": _redfish,
    "pbsnodes": _pbsnodes,
    "pcs": _power_control,
}
"""The drivers that switch a node, mostly through its BMC, by the value of `driver` in [hardware]."""


def driver_of(machine: InventoryNode, wire: Transport) -> PowerDriver:
    """Return the machine's driver. Raises BadInventory if it has none, an unknown one, or lacks a setting of its
    driver.
    """
    name, where = machine.hardware.driver, f"[hardware.{machine.hardware.name}]"
    if name is None:
        raise BadInventory(f"{machine.node}: no driver switches it", hint=f'add driver = "ipmi" below {where}')
    if name not in DRIVERS:
        raise BadInventory(f"{machine.node}: no driver {name!r}, see {where}", hint=did_you_mean(name, DRIVERS))
    return DRIVERS[name](machine, wire)


WAKE_DRIVERS: Mapping[str, Callable[[InventoryNode, Transport], PowerDriver]] = {"bmc": driver_of, "wol": _wake_on_lan}
"""The drivers that wake a node, by the value of `wake` in its sleep methods."""


class DriverPool:
    """Creates and keeps drivers. Raises BadInventory if a setting of one is missing. `machines` are the nodes by name.

    A node that has been in standby for `dead_man_s` (default: half a day) wakes by its own clock.
    """

    def __init__(
        self, machines: Mapping[str, InventoryNode], wire: Transport, *, dead_man_s: int | None = None
    ) -> None:
        self._machines, self._wire, self._dead_man_s = machines, wire, dead_man_s
        self._drivers: dict[tuple[str, str], PowerDriver] = {}

    def bmc_of(self, node: str) -> PowerDriver:
        """Return the driver of a node's BMC."""
        return self._driver(node, BY_BMC)

    def for_effect(self, effect: Effect) -> PowerDriver:
        """Return the driver that sends the order."""
        return self._driver(effect.subject, driver_kind_of(effect))

    def needed(self, effect: Effect) -> NeededLogins:
        """Return the names of the logins that the order needs."""
        machine, way = self._machines.get(effect.subject), driver_kind_of(effect)
        if machine is None or way == BY_PACKET:
            return NeededLogins()
        ssh, bmc = machine.hardware.ssh, machine.hardware.credential
        by_bmc = bmc.name if bmc else None
        return NeededLogins(ssh.name if ssh else None, by_bmc) if way == BY_SSH else NeededLogins(by_bmc, by_bmc)

    async def close(self) -> None:
        """Log out everywhere. The pool may be used again afterwards."""
        drivers, self._drivers = self._drivers, {}
        for driver in drivers.values():
            await driver.close()

    def _driver(self, node: str, way: str) -> PowerDriver:
        if (node, way) not in self._drivers:
            if node not in self._machines:
                raise BadInventory(f"there is no node {node}", hint=did_you_mean(node, self._machines))
            self._drivers[node, way] = self._made(self._machines[node], way)
        return self._drivers[node, way]

    def _made(self, machine: InventoryNode, way: str) -> PowerDriver:
        if way in WAKE_DRIVERS:
            return WAKE_DRIVERS[way](machine, self._wire)
        # asyncssh takes a while to import.
        from offpeak.power.drivers.ssh import DEAD_MAN_S, SshDriver

        wire, dead_man_s = self._wire, self._dead_man_s or DEAD_MAN_S
        return SshDriver(machine, logins=wire.logins, timeout_s=wire.timeout_s, dead_man_s=dead_man_s, now=wire.clock)


def driver_kind_of(effect: Effect) -> str:
    """Return the kind of driver that sends the order: ssh for a standby, else the one in the effect, else the BMC's."""
    return BY_SSH if effect.order == NodeOrder.STANDBY else effect.way or BY_BMC
