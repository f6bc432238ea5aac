"""The value at one OID: a number, a text, or the reason why there is none."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class NoSnmpValue:
    """No value at an OID; `gone` if the agent has no such object at all."""

    why: str
    gone: bool = False


NO_SUCH_OID = NoSnmpValue("the PDU has no such OID", gone=True)

SnmpValue = int | str | NoSnmpValue
"""Integers, counters, gauges and ticks are numbers; strings are texts, OIDs are texts of digits and dots."""

SnmpValues = dict[str, SnmpValue]
"""Values by OID, without a leading dot."""


def parse_snmp_number(answer: SnmpValue) -> float | None:
    """Return a number, which may be written as text ("12.5"), else None."""
    if isinstance(answer, int):
        return float(answer)
    if isinstance(answer, str):
        try:
            number = float(answer)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


def values_below(answers: SnmpValues, column: str) -> SnmpValues:
    """Return the answers of a column by row, the rest of their OIDs."""
    start = f"{column}."
    return {oid.removeprefix(start): answer for oid, answer in answers.items() if oid.startswith(start)}
