"""The meters of a site: those of its nodes' BMCs and kernels, of its PDUs, and of this machine."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from offpeak.machines.inventory import Inventory, InventoryNode, Pdu
from offpeak.settings.table import Settings
from plugin.scheduler.registry import SLURM, scheduler_name
from plugin.slurm.commands import CannotAskSlurm, ask
from plugin.slurm.nodes import read_machine
from power.drivers.wire import Wire
from power.meters.dcmi import dcmi_meter
from power.meters.hwmon import HwmonMeter
from power.meters.port import Meter
from power.meters.rapl import RaplMeter
from power.meters.slurm_energy import SlurmEnergy, measures

SLURM_S = 10.0


def _redfish(machine: InventoryNode, wire: Wire) -> Meter:
    from power.meters.redfish import RedfishMeter

    return RedfishMeter(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


def _ssh(machine: InventoryNode, wire: Wire) -> Meter:
    from power.meters.ssh import SshMeter

    return SshMeter(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


BY_DRIVER: Mapping[str, Callable[[InventoryNode, Wire], Meter]] = {"ipmi": dcmi_meter, "redfish": _redfish}
"""What measures a node through its BMC, by the driver that switches it. The tools' drivers hold no session to ask."""


def meters_of(machines: Iterable[InventoryNode], pdus: Iterable[Pdu], wire: Wire) -> tuple[Meter, ...]:
    """Return the meters of these nodes and PDUs; BadInventory where one lacks what its meter needs."""
    return (*(pdu_meter(pdu, wire) for pdu in pdus), *(meter for each in machines for meter in node_meters(each, wire)))


def node_meters(machine: InventoryNode, wire: Wire) -> Iterator[Meter]:
    """Yield what measures one node: its BMC, and its kernel where it can be asked by ssh."""
    by_bmc = bmc_meter(machine, wire)
    if by_bmc:
        yield by_bmc
    if machine.ssh:
        yield _ssh(machine, wire)


def bmc_meter(machine: InventoryNode, wire: Wire) -> Meter | None:
    """Return the meter of the node's BMC, None if it has none that could be asked."""
    made = BY_DRIVER.get(machine.hardware.driver or "") if machine.bmc else None
    return made(machine, wire) if made else None


def pdu_meter(pdu: Pdu, wire: Wire) -> Meter:
    """Return the meter of a PDU; BadInventory for a family that is not known."""
    # pysnmp takes a third of a second to import.
    from power.meters.snmp.agent import USUAL, Patience
    from power.meters.snmp.pdu import SnmpPdu

    patience = Patience(wire.timeout_s / (USUAL.retries + 1), USUAL.retries)
    return SnmpPdu(pdu, engines=wire.engines, logins=wire.logins, patience=patience, clock=wire.clock)


def slurm_meters(settings: Settings) -> tuple[Meter, ...]:
    """Return Slurm as a meter, where it is the site's scheduler and gathers energy."""
    if scheduler_name(settings) != SLURM:
        return ()
    try:
        config = ask("scontrol", "show", "config", timeout_s=SLURM_S).decode(errors="replace")
        return (SlurmEnergy(read_machine(timeout_s=SLURM_S).cluster),) if measures(config) else ()
    except CannotAskSlurm:
        return ()


def own_meters(*, sysfs: Path = Path("/sys")) -> tuple[Meter, ...]:
    """Return what measures this machine itself, where it has such counters and sensors."""
    here = platform.node().partition(".")[0]
    rapl = (RaplMeter(here, sysfs=sysfs),) if any(sysfs.glob("class/powercap/intel-rapl:*")) else ()
    hwmon = (HwmonMeter(here, sysfs=sysfs),) if any(sysfs.glob("class/hwmon/hwmon*/power*_*")) else ()
    return (*rapl, *hwmon)


def feeding(inventory: Inventory, nodes: Iterable[str]) -> tuple[Pdu, ...]:
    """Return the PDUs on whose outlets one of these nodes hangs."""
    wanted = set(nodes)
    return tuple(pdu for pdu in inventory.pdus if any(node in wanted for _, node in pdu.outlets))
