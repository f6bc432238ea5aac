"""The meters of a site: BMCs and kernels of its nodes, PDUs, Slurm, and this machine."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from offpeak.machines.inventory import Inventory, InventoryNode, Pdu
from offpeak.machines.node_sets import expand
from offpeak.plugin.scheduler.registry import SLURM, scheduler_name
from offpeak.plugin.slurm.commands import CannotAskSlurm, ask
from offpeak.plugin.slurm.nodes import read_machine
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.bmc import dcmi_meter
from offpeak.power.meters.kernel import HwmonMeter, RaplMeter
from offpeak.power.meters.port import Meter
from offpeak.power.meters.slurm import SlurmMeter, gathers_energy
from offpeak.settings.table import Settings

SLURM_TIMEOUT_S = 10.0
SHARE_OF_TIMEOUT = 0.9


def _redfish(machine: InventoryNode, wire: Transport) -> Meter:
    from offpeak.power.meters.bmc import RedfishMeter

    return RedfishMeter(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


def _ssh(machine: InventoryNode, wire: Transport) -> Meter:
    from offpeak.power.meters.ssh import SshMeter

    return SshMeter(machine, logins=wire.logins, timeout_s=wire.timeout_s, now=wire.clock)


BY_DRIVER: Mapping[str, Callable[[InventoryNode, Transport], Meter]] = {"ipmi": dcmi_meter, "redfish": _redfish}
"""The meters of BMCs by the driver of the node. Drivers that run a program keep no session that a meter could share."""


def device_meters(machines: Iterable[InventoryNode], pdus: Iterable[Pdu], wire: Transport) -> tuple[Meter, ...]:
    """Return the meters of these nodes and PDUs. Raises BadInventory if a setting of one is missing."""
    return (
        *(pdu_meter(pdu, wire) for pdu in pdus),
        *(meter for machine in machines for meter in node_meters(machine, wire)),
    )


def node_meters(machine: InventoryNode, wire: Transport) -> Iterator[Meter]:
    """Yield the meters of one node: its BMC, and its kernel if it has ssh."""
    by_bmc = bmc_meter(machine, wire)
    if by_bmc:
        yield by_bmc
    if machine.ssh:
        yield _ssh(machine, wire)


def bmc_meter(machine: InventoryNode, wire: Transport) -> Meter | None:
    """Return the meter of the node's BMC, None if it has none."""
    made = BY_DRIVER.get(machine.hardware.driver or "") if machine.bmc else None
    return made(machine, wire) if made else None


def pdu_meter(pdu: Pdu, wire: Transport) -> Meter:
    """Return the meter of a PDU. Raises BadInventory for an unknown family."""
    # pysnmp takes a third of a second to import.
    from offpeak.power.meters.snmp.client import DEFAULT_PATIENCE, SnmpPatience
    from offpeak.power.meters.snmp.pdu import SnmpPdu

    # Less than the time-out, so that it is told why there is no answer.
    patience = SnmpPatience(
        SHARE_OF_TIMEOUT * wire.timeout_s / (DEFAULT_PATIENCE.retries + 1), DEFAULT_PATIENCE.retries
    )
    return SnmpPdu(pdu, engines=wire.engines, logins=wire.logins, patience=patience, clock=wire.clock)


def slurm_meters(settings: Settings) -> tuple[Meter, ...]:
    """Return Slurm as a meter if it is the site's scheduler and gathers energy."""
    if scheduler_name(settings) != SLURM:
        return ()
    try:
        config = ask("scontrol", "show", "config", timeout_s=SLURM_TIMEOUT_S).decode(errors="replace")
        return (SlurmMeter(read_machine(timeout_s=SLURM_TIMEOUT_S).cluster),) if gathers_energy(config) else ()
    except CannotAskSlurm:
        return ()


def own_meters(*, sysfs: Path = Path("/sys")) -> tuple[Meter, ...]:
    """Return the meters of this machine, as far as it has counters and sensors."""
    here = platform.node().partition(".")[0]
    rapl = (RaplMeter(here, sysfs=sysfs),) if any(sysfs.glob("class/powercap/intel-rapl:*")) else ()
    hwmon = (HwmonMeter(here, sysfs=sysfs),) if any(sysfs.glob("class/hwmon/hwmon*/power*_*")) else ()
    return (*rapl, *hwmon)


def pdus_feeding(inventory: Inventory, nodes: Iterable[str]) -> tuple[Pdu, ...]:
    """Return the PDUs that feed at least one of these nodes."""
    wanted = set(nodes)
    return tuple(pdu for pdu in inventory.pdus if wanted & inventory.nodes_on(pdu))


def site_meters(settings: Settings, inventory: Inventory, nodes: str | None, wire: Transport) -> tuple[Meter, ...]:
    """Return the meters of these nodes, None: of all machines that no collector reads, and of this one.

    Raises BadInventory for unknown nodes.
    """
    if nodes:
        chosen = inventory.chosen(expand(nodes))
        pdus = pdus_feeding(inventory, [node.node for node in chosen])
        return (*device_meters(chosen, pdus, wire), *gpu_meters(settings, chosen, wire))
    # The server that knows the GPUs is in the network of this host.
    gpus = gpu_meters(settings, inventory.machines, wire)
    return (*device_meters(*inventory.read_by(None), wire), *gpus, *own_meters(), *slurm_meters(settings))


def gpu_meters(settings: Settings, machines: Iterable[InventoryNode], wire: Transport) -> tuple[Meter, ...]:
    """Return the Prometheus server that knows the GPUs of these nodes, if the settings name one."""
    url, names = settings.hardware.prometheus, frozenset(machine.node for machine in machines)
    if not url or not names:
        return ()
    from offpeak.power.meters.gpu import PrometheusMeter

    return (PrometheusMeter(url, names, timeout_s=wire.timeout_s),)
