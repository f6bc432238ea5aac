"""What pysnmp's values are to us: numbers and texts."""

from typing import Any

from pyasn1.type.univ import ObjectIdentifier
from pysnmp.proto.rfc1902 import (
    Counter32,
    Counter64,
    Gauge32,
    Integer32,
    OctetString,
    TimeTicks,
    Unsigned32,
)

from power.meters.snmp.answers import NO_SUCH, Answer

_NUMBERS = (Integer32, Unsigned32, Counter32, Counter64, Gauge32, TimeTicks)


def answer_of(value: Any) -> Answer:
    """Return a value as a number or text; what is no value (Null, noSuchObject, endOfMibView) as NO_SUCH."""
    if isinstance(value, _NUMBERS):
        return int(value)
    if isinstance(value, OctetString):
        return bytes(value).decode("utf-8", errors="replace").rstrip("\0")
    if isinstance(value, ObjectIdentifier):
        return str(value)
    return NO_SUCH
