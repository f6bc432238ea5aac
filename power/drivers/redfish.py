"""A node's power by its BMC's Redfish service."""

import time
from collections.abc import Callable

from offpeak.door.door import Confirm
from offpeak.errors import BadAnswer, DeviceError, NotSupported
from offpeak.machines.inventory import InventoryNode
from power.drivers.logins import Logins
from power.drivers.port import Observed, Order, PowerState, at_once
from power.redfish_json import Resource
from power.redfish_service import RedfishService
from power.redfish_system import RESETS, ResetAction, reset_action, system_path, uuid_of

STATES = {"On": PowerState.ON, "Off": PowerState.OFF}
GOALS = {Order.ON: PowerState.ON, Order.SOFT_OFF: PowerState.OFF, Order.HARD_OFF: PowerState.OFF}


class RedfishDriver:
    """Reads and sets one node's power. `orders` are all that Redfish has until its system was read, then what it takes.

    Each request takes at most `timeout_s`; the first call makes up to five, later ones one or two.
    """

    name = "redfish"

    def __init__(
        self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0, now: Callable[[], float] = time.time
    ) -> None:
        self._machine = machine
        self._service = RedfishService(machine, logins=logins, timeout_s=timeout_s)
        self._now = now
        self._path: str | None = None
        self._reset: ResetAction | None = None
        self.orders = frozenset(RESETS)

    async def query(self) -> Observed:
        """Return on or off; UNKNOWN also while the node goes up or down, as the trouble then says."""
        try:
            return self._observed(await self._system())
        except DeviceError as trouble:
            return Observed(PowerState.UNKNOWN, self._now(), trouble)

    async def send(self, order: Order, confirm: Confirm = at_once) -> None:
        """Give the order, unless the node is there already; BadAnswer, and nothing sent, where that is not known."""
        observed = self._observed(await self._system())
        if self._reset is None or order not in self.orders:
            offered = ", ".join(sorted(self.orders)) or "nothing"
            raise NotSupported(f"{self._service.who}: cannot be told {order}", hint=f"it takes: {offered}")
        if observed.trouble is not None:
            raise observed.trouble
        if observed.state is not GOALS[order]:
            await self._service.post(self._reset.path, {"ResetType": RESETS[order]}, await confirm())

    async def identity(self) -> str | None:
        """Return the system's UUID."""
        return uuid_of(await self._system())

    async def close(self) -> None:
        """Close the connection."""
        self._path = None
        await self._service.close()

    async def _system(self) -> Resource:
        if self._path is None:
            self._path = await system_path(self._service, self._machine)
        system = await self._service.get(self._path)
        self._reset = await reset_action(self._service, system)
        self.orders = self._reset.orders if self._reset else frozenset()
        return system

    def _observed(self, system: Resource) -> Observed:
        told = system.get("PowerState")
        state = STATES.get(told, PowerState.UNKNOWN) if isinstance(told, str) else PowerState.UNKNOWN
        trouble = None
        if state is PowerState.UNKNOWN:
            message = f"{self._service.who}: its power state is {told or 'not told'}"
            trouble = BadAnswer(message, hint="ask again in a minute; if it stays so, look at the BMC's web page")
        return Observed(state, self._now(), trouble)
