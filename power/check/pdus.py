"""Whether a PDU answers, and measures the outlets on which nodes hang."""

from collections.abc import Sequence

from offpeak.errors import OffpeakError
from offpeak.machines.inventory import Pdu
from power.check.finding import Finding, Verdict, failed
from power.drivers.wire import Wire
from power.meters.port import Reading
from power.meters.registry import pdu_meter

TOTAL = "total"
NO_TOTAL_HINT = (
    "docs/how-to/pdus.md explains the reason; offpeak power now --json lists every part that the PDU measures"
)
NO_OUTLET_HINT = (
    "does this model meter its outlets? their names are those of the PDU; offpeak power now --json lists them"
)


async def check_pdu(pdu: Pdu, wire: Wire) -> list[Finding]:
    """Return what there is to say of the PDU; it is only asked."""
    try:
        meter = pdu_meter(pdu, wire)
        try:
            readings = await meter.read()
        finally:
            await meter.close()
    except OffpeakError as problem:
        return [failed("pdu", pdu.name, problem)]
    doubted = [_doubt(each) for each in readings if each.why and _matters(each)]
    return doubted or [Finding("pdu", pdu.name, Verdict.GOOD, _told(readings))]


def _matters(reading: Reading) -> bool:
    return reading.part == TOTAL or reading.node is not None


def _doubt(reading: Reading) -> Finding:
    """Return the finding of a reading that says why: a value with a note, or no value."""
    if reading.power_w is not None:
        part, hint = f"{reading.part} {reading.power_w:,.0f} W", "compare with the PDU's own display"
    else:
        part, hint = reading.part, NO_TOTAL_HINT if reading.part == TOTAL else NO_OUTLET_HINT
    return Finding("pdu", reading.meter, Verdict.DOUBTFUL, f"{part}: {reading.why}", hint)


def _told(readings: Sequence[Reading]) -> str:
    total_w = [each.power_w for each in readings if each.part == TOTAL and each.power_w is not None]
    outlets = sum(each.part.startswith("outlet") for each in readings)
    metered = f", {outlets} outlets metered" if outlets else ""
    return f"{sum(total_w):,.0f} W{metered}" if total_w else f"no total{metered}"
