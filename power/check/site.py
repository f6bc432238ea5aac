"""The whole self-test of a site, all devices at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from offpeak.machines.inventory import Inventory, InventoryNode, Pdu
from power.check.bmcs import check_bmc
from power.check.finding import Finding, Verdict
from power.check.nodes import check_node
from power.check.pdus import check_pdu
from power.check.permissions import check_credentials, check_scheduler
from power.check.wake_path import check_wake_path
from power.drivers.wire import Wire


async def check_site(
    inventory: Inventory,
    machines: Iterable[InventoryNode],
    pdus: Iterable[Pdu],
    wire: Wire,
    scheduler: Callable[[], Finding] = check_scheduler,
    *,
    state_folder: Path | None = None,
) -> list[Finding]:
    """Return what is to be said of the logins, the scheduler, these nodes and PDUs; the dead delay nobody.

    `scheduler` asks it, and takes its time. In `state_folder` the agent keeps what wakes nodes without it.
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
        of_devices = [one for each in found for one in each]
        bad = {each.subject for each in of_devices if each.part == "bmc" and each.verdict is Verdict.BAD}
        answering = [each.node for each in machines if each.bmc and each.node not in bad]
        of_devices += await check_wake_path(inventory, answering, state_folder)
        return [*check_credentials(inventory.credentials), await answer, *of_devices]
    finally:
        await wire.close()
