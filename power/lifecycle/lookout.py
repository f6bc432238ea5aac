"""How the nodes of a site are looked at: their BMCs, and where those cannot tell, the node itself and its meter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offpeak.errors import DeviceError, NoAnswer
from offpeak.machines.inventory import InventoryNode
from power.drivers.port import PowerDriver
from power.drivers.registry import driver_of
from power.drivers.wire import Wire
from power.meters.port import Meter
from power.meters.registry import bmc_meter

if TYPE_CHECKING:
    from power.drivers.node_ssh import NodeSsh


@dataclass(frozen=True)
class Lookout:
    """The machines by their names, the driver of each, and what else tells whether a node is up, or in standby."""

    machines: Mapping[str, InventoryNode]
    drivers: Mapping[str, PowerDriver]
    ssh: Mapping[str, "NodeSsh"] = field(default_factory=dict)
    meters: Mapping[str, Meter] = field(default_factory=dict)

    async def evidence(self, node: str) -> tuple[bool | None, float | None]:
        """Return whether the node answers by ssh, and what it draws [W]; None for what nobody tells."""
        return await _answers(self.ssh.get(node)), await _watts(self.meters.get(node))


def lookout_of(machines: Iterable[InventoryNode], wire: Wire) -> Lookout:
    """Return the lookout over these machines; BadInventory where one lacks what its driver needs."""
    by_name = {machine.node: machine for machine in machines}
    reached = {node: each for node, each in by_name.items() if each.ssh}
    meters = {node: bmc_meter(each, wire) for node, each in reached.items() if each.hardware.rung("standby")}
    return Lookout(
        by_name,
        {node: driver_of(each, wire) for node, each in by_name.items()},
        _ssh(reached, wire) if reached else {},
        {node: meter for node, meter in meters.items() if meter is not None},
    )


def _ssh(reached: Mapping[str, InventoryNode], wire: Wire) -> dict[str, "NodeSsh"]:
    # It loads asyncssh, 15 MiB that a site whose nodes are reached by their BMCs alone can do without.
    from power.drivers.node_ssh import NodeSsh

    return {node: NodeSsh(each, logins=wire.logins, timeout_s=wire.timeout_s) for node, each in reached.items()}


async def _answers(ssh: "NodeSsh | None") -> bool | None:
    if ssh is None:
        return None
    try:
        await ssh.probe()
    except NoAnswer:
        return False
    except DeviceError:
        # It said something: a refused key, a strange answer.
        return None
    return True


async def _watts(meter: Meter | None) -> float | None:
    if meter is None:
        return None
    try:
        drawn = [reading.power_w for reading in await meter.read()]
    except DeviceError:
        return None
    known = [power_w for power_w in drawn if power_w is not None]
    return sum(known) if known and len(known) == len(drawn) else None
