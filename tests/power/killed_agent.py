"""A program that dies, killed, just before or just after the order has reached the BMC: arguments folder and moment."""

import asyncio
import os
import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))

from file_journal import FileJournal

from offpeak.door.door import Confirm
from offpeak.door.effect import Effect
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder
from offpeak.power.door.node_orders import InterlockContext, make_node_orders
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.settings.agent import AgentSettings


class Killed:
    """A driver whose program does not live to see the end of its order."""

    def __init__(self, driver: PowerDriver, moment: str) -> None:
        self._driver, self._moment = driver, moment

    async def send(self, order: NodeOrder, confirm: Confirm) -> None:
        if self._moment == "after":
            await self._driver.send(order, confirm)
        else:
            await confirm()
        os.kill(os.getpid(), signal.SIGKILL)


class KillingWays(DriverPool):
    """The ways of a program that is killed."""

    def for_effect(self, effect: Effect) -> PowerDriver:
        return Killed(super().for_effect(effect), sys.argv[2])  # type: ignore[return-value]


async def main() -> None:
    folder, wire = Path(sys.argv[1]), Transport(timeout_s=10.0)
    inventory = read_inventory(folder / "inventory.toml")
    ways = KillingWays({machine.node: machine for machine in inventory.machines}, wire)
    seen = {machine.node: StateReading("on", wire.clock()) for machine in inventory.machines}
    site = InterlockContext(inventory, ways, seen.get, wire.clock, {}.get, lambda nodes: dict.fromkeys(nodes, ""))
    settings = AgentSettings(mode="active", nodes="n[1-6]", min_on=0)
    raise SystemExit(str(await make_node_orders(settings, site, FileJournal(folder / "journal")).order(OFF)))


OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle for an hour", (("idle_s", 3600.0),))

if __name__ == "__main__":
    asyncio.run(main())
