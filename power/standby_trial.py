"""A node's standby, tested on request: only where the scheduler says that the node is drained and free."""

import asyncio
from collections.abc import Awaitable, Callable

from offpeak.errors import BadInventory, OffpeakError
from offpeak.machines.inventory import Machine
from plugin.slurm.node_in_use import node_in_use
from power.drivers.node_ssh import NodeSsh
from power.drivers.registry import wakers_of
from power.drivers.wire import Wire
from power.meters.registry import BY_DRIVER
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
    parts = Parts(
        NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s),
        rung,
        wakers_of(machine, rung.wake, wire),
        _watts(machine, wire),
    )
    used = await asyncio.to_thread(in_use, machine.node)
    if used:
        hint = f"drain it and wait: scontrol update nodename={machine.node} state=drain reason=standby-test"
        raise NodeInUse(f"{machine.node}: {used}; it was not touched", hint=hint)
    return await prove_standby(parts)


def _watts(machine: Machine, wire: Wire) -> Callable[[], Awaitable[float | None]] | None:
    meter_of = BY_DRIVER.get(machine.hardware.driver or "")
    if meter_of is None or machine.bmc is None:
        return None
    meter = meter_of(machine, wire)

    async def watts() -> float | None:
        readings = await meter.read()
        return readings[0].power_w if readings else None

    return watts
