"""Whether a PDU answers, and measures the outlets on which nodes hang."""

from collections.abc import Sequence

from offpeak.errors import OffpeakError
from offpeak.machines.inventory import Pdu
from offpeak.machines.node_sets import fold
from power.check.finding import Finding, Verdict, failed
from power.drivers.wire import Wire
from power.meters.port import Reading
from power.meters.registry import pdu_meter

TOTAL = "total"


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
    return [*_outlets(pdu, readings), *(_doubt(each) for each in readings if each.why and _matters(each))] or [
        Finding("pdu", pdu.name, Verdict.GOOD, _told(readings))
    ]


def _matters(reading: Reading) -> bool:
    return reading.part == TOTAL or reading.node is not None


def _doubt(reading: Reading) -> Finding:
    hint = "compare with the PDU's own display"
    return Finding("pdu", reading.meter, Verdict.DOUBTFUL, f"{reading.part}: {reading.why}", hint)


def _outlets(pdu: Pdu, readings: Sequence[Reading]) -> list[Finding]:
    measured = {each.node for each in readings if each.node is not None}
    missing = [node for _, node in pdu.outlets if node not in measured]
    if not missing:
        return []
    hint = "does this model meter its outlets? their names are those of the PDU; offpeak power now --json lists them"
    return [Finding("pdu", pdu.name, Verdict.DOUBTFUL, f"has no such outlets: those of {fold(missing)}", hint)]


def _told(readings: Sequence[Reading]) -> str:
    total_w = [each.power_w for each in readings if each.part == TOTAL and each.power_w is not None]
    outlets = sum(each.part.startswith("outlet") for each in readings)
    metered = f", {outlets} outlets metered" if outlets else ""
    return f"{sum(total_w):,.0f} W{metered}" if total_w else f"no total{metered}"
