"""The BMC at a node's address is the one that was enrolled: since a repair it may be that of another node."""

from collections.abc import Callable

from offpeak.door.door import Rule
from offpeak.door.effect import Effect, Refusal
from offpeak.machines.inventory import InventoryNode
from power.drivers.check_identity import check_identity
from power.drivers.port import PowerDriver

BY_PACKET = "wol"


def identity(machine_of: Callable[[str], InventoryNode], bmc_of: Callable[[str], PowerDriver]) -> Rule:
    """Refuse where the BMC is another or does not say; it is asked now. Before standby too: it has to wake the node.

    A packet that wakes is meant for one network card and needs no BMC, but the node has to be enrolled.
    """

    async def refuse(effect: Effect) -> Refusal | None:
        enrolled = machine_of(effect.subject).enrolled
        if enrolled is None:
            hint = f"offpeak enroll {effect.subject}"
            return Refusal("identity", f"{effect.subject}: nobody has enrolled its BMC", hint)
        if effect.takes_power_away or effect.way != BY_PACKET:
            await check_identity(bmc_of(effect.subject), enrolled)
        return None

    return refuse
