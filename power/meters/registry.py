"""Every way of metering by its name, and the meters of an inventory."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from offpeak.machines.inventory import Pdu
from power.drivers.logins import Logins
from power.meters.port import Meter

if TYPE_CHECKING:
    from power.meters.snmp.engines import Engines


class Shared:
    """What all meters of a program use together: what became of logins, and the SNMP engines."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins

    @cached_property
    def engines(self) -> "Engines":
        """The SNMP engines; they are opened when the first PDU is read."""
        from power.meters.snmp.engines import Engines

        return Engines()


def _snmp(pdu: Pdu, shared: Shared) -> Meter:
    from power.meters.snmp.pdu import SnmpPdu

    return SnmpPdu(pdu, engines=shared.engines, logins=shared.logins)


PDU_METERS: Mapping[str, Callable[[Pdu, Shared], Meter]] = {
    "snmp": _snmp,
}
"""By the `way` of its readings. What a way needs is imported when the first such meter is made."""


def meter_of(pdu: Pdu, shared: Shared) -> Meter:
    """Return the meter of a PDU, which is not spoken to yet; BadInput for a family that is not known."""
    return PDU_METERS["snmp"](pdu, shared)
