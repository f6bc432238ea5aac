"""A node's standby, tested on request: only where the scheduler says that the node is drained and free."""

import asyncio
from collections.abc import Callable
from functools import partial

from offpeak.errors import BadInventory, OffpeakError
from offpeak.machines.inventory import Machine
from plugin.slurm.node_in_use import node_in_use
from power.drivers.node_ssh import NodeSsh
from power.drivers.registry import wakers_of
from power.drivers.wire import Wire
from power.meters.port import Meter
from power.meters.registry import bmc_meter
from power.standby import Parts, StandbyProof, prove_standby

InUse = Callable[[str], str]
"""Why a node is not free, "" if it is; raises where nobody can tell."""


class NodeInUse(OffpeakError):
    """A node holds a job, or may get one: nothing is done to it."""


async def try_standby(machine: Machine, wire: Wire, *, in_use: InUse = node_in_use) -> StandbyProof:
    """Return what one suspend and one wake-up of the node have shown.

    BadInventory if it has no such rung; NodeInUse, and nothing is sent, if it is not drained or a job is there;
    whatever error the scheduler's adapter raises where it cannot tell.
    """
    rung = machine.hardware.rung("standby")
    if rung is None or machine.ssh is None:
        missing = "standby" if rung is None else "ssh"
        hint = f"docs/how-to/standby.md shows what [hardware.{machine.hardware.name}] needs"
        raise BadInventory(f"{machine.node}: its hardware has no {missing}", hint=hint)
    used = await asyncio.to_thread(in_use, machine.node)
    if used:
        hint = f"drain it and wait: scontrol update nodename={machine.node} state=drain reason=standby-test"
        raise NodeInUse(f"{machine.node}: {used}; it was not touched", hint=hint)
    wakers, meter = wakers_of(machine, rung.wake, wire), bmc_meter(machine, wire)
    node = NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s)
    try:
        return await prove_standby(Parts(node, rung, wakers, partial(_watts, meter) if meter else None))
    finally:
        for each in wakers.values():
            await each.close()
        if meter:
            await meter.close()


async def _watts(meter: Meter) -> float | None:
    drawn = [each.power_w for each in await meter.read()]
    return None if None in drawn else sum(each for each in drawn if each is not None)
