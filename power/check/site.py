"""The whole self-test of a site, all devices at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from offpeak.machines.inventory import Inventory, Machine, Pdu
from power.check.bmcs import check_bmc
from power.check.finding import Finding
from power.check.nodes import check_node
from power.check.pdus import check_pdu
from power.check.permissions import check_credentials, check_scheduler
from power.drivers.wire import Wire


async def check_site(
    inventory: Inventory,
    machines: Iterable[Machine],
    pdus: Iterable[Pdu],
    wire: Wire,
    scheduler: Callable[[], Finding] = check_scheduler,
) -> list[Finding]:
    """Return what is to be said of the logins, the scheduler, these nodes and PDUs; the dead delay nobody.

    `scheduler` asks it, and takes its time.
    """
    machines = tuple(machines)
    asked: list[Coroutine[Any, Any, list[Finding]]] = [
        *(check_bmc(each, wire) for each in machines if each.bmc),
        *(check_node(each, wire) for each in machines if each.ssh),
        *(check_pdu(each, wire) for each in pdus),
    ]
    answer = asyncio.to_thread(scheduler)
    try:
        found = await asyncio.gather(*asked)
        return [*check_credentials(inventory.credentials), await answer, *(one for each in found for one in each)]
    finally:
        await wire.close()
