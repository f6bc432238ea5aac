"""A node's standby by ssh: its own kernel suspends it. It tells that it is up, never that it is not."""

import time
from collections.abc import Callable

from offpeak.door.door import Confirm
from offpeak.errors import DeviceError, NotSupported
from offpeak.machines.inventory import InventoryNode
from power.drivers.logins import Logins
from power.drivers.node_answers import NodeProbe
from power.drivers.node_ssh import NodeSsh
from power.drivers.port import Observed, Order, PowerState, at_once

DEAD_MAN_S = 12 * 3600
"""A node that nobody woke for so long wakes itself."""


class SshDriver:
    """Sends a node into standby. `orders` has it once the node said, or had said when enrolled, that it can."""

    name = "ssh"

    def __init__(
        self,
        machine: InventoryNode,
        *,
        logins: Logins,
        timeout_s: float = 10.0,
        dead_man_s: int = DEAD_MAN_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._node = NodeSsh(machine, logins=logins, timeout_s=timeout_s)
        self._dead_man_s, self._now = dead_man_s, now
        self._asked = False
        can = machine.enrolled is not None and Order.STANDBY in machine.enrolled.capabilities
        self.orders = _orders(can)

    async def query(self) -> Observed:
        """Return ON for a node that answers, else UNKNOWN: a silent node may be hung, or cut off from the network."""
        try:
            await self._probed()
        except DeviceError as trouble:
            return Observed(PowerState.UNKNOWN, self._now(), trouble)
        return Observed(PowerState.ON, self._now())

    async def send(self, order: Order, confirm: Confirm = at_once) -> None:
        """Suspend the node; NoAnswer where it does not answer, which it does not in standby either."""
        if order is Order.STANDBY and not self._asked:
            await self._probed()
        if order not in self.orders:
            hint = "what can it do? docs/how-to/standby.md tells what a node needs"
            raise NotSupported(f"{self._node.node}: cannot be told {order} by ssh", hint=hint)
        await self._node.standby(self._dead_man_s, confirm)

    async def identity(self) -> None:
        """Return None: who answers is proven by the host key, each time."""

    async def close(self) -> None:
        """Do nothing: every call logs out."""

    async def _probed(self) -> NodeProbe:
        probe = await self._node.probe()
        self.orders, self._asked = _orders(probe.can_stand_by), True
        return probe


def _orders(can_stand_by: bool) -> frozenset[Order]:
    return frozenset({Order.STANDBY}) if can_stand_by else frozenset()
