"""Whether a node can be asked by ssh, and offers the standby that the inventory gives it."""

from offpeak.errors import OffpeakError
from offpeak.machines.inventory import InventoryNode
from power.check.finding import Finding, Verdict, failed
from power.drivers.node_ssh import NodeSsh
from power.drivers.wake_on_lan import WakeOnLan
from power.drivers.wire import Wire


async def check_node(machine: InventoryNode, wire: Wire) -> list[Finding]:
    """Return what there is to say of the node by ssh; it is only asked."""
    rung = machine.hardware.rung("standby")
    try:
        if rung and "wol" in rung.wake:
            WakeOnLan(machine)
        probe = await NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s).probe()
    except OffpeakError as problem:
        return [failed("ssh", machine.node, problem)]
    if rung is None:
        return [Finding("ssh", machine.node, Verdict.GOOD, "answers")]
    if not probe.can_stand_by:
        hint = f"its firmware has no S3: leave out [hardware.{machine.hardware.name}.standby]"
        return [Finding("ssh", machine.node, Verdict.BAD, "offers no suspend to memory", hint)]
    if not probe.wake_clock:
        hint = "would nothing else wake it, it would sleep on; see docs/how-to/standby.md"
        return [Finding("ssh", machine.node, Verdict.DOUBTFUL, "can stand by, but has no alarm clock", hint)]
    return [Finding("ssh", machine.node, Verdict.GOOD, "answers, can stand by, has an alarm clock")]
