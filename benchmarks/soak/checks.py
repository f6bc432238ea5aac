"""Compares reports with the truth: a faulty device may report nothing, but nothing wrong."""

from collections.abc import Iterator

from benchmarks.soak.faults import Faults
from benchmarks.soak.site import Look
from benchmarks.soak.truth import NodeTruth, Truth
from offpeak.model.orders import PowerState
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.meters.port import MeterResult

SILENT_FAULTS = ("silent", "late", "garbage", "restarts", "says -1")
"""With these faults nothing can be known of a device."""
SLOW_FAULTS = ("slow", "forgets sessions")
"""With these it may be known or not."""


def wrong(look: Look, truth: Truth, faults: Faults) -> Iterator[str]:
    """Yield a text for every wrong state or power, and for every one that cannot be known."""
    for node, seen in look.states.items():
        yield from _wrong_state(node, seen, truth.nodes[node], faults.get(node, ""))
    for taken in look.taken:
        yield from _wrong_watts(taken, truth, faults.get(taken.meter, ""))


def lacking(look: Look, truth: Truth, faults: Faults) -> Iterator[str]:
    """Yield a text for every unknown state or power of a device without a fault."""
    excused = {device for device, fault in faults.items() if fault in (*SILENT_FAULTS, *SLOW_FAULTS)}
    for node, seen in look.states.items():
        if seen.state is PowerState.UNKNOWN and node not in excused:
            yield f"{node}: state not known: {seen.error}"
    for taken in look.taken:
        reported = {reading.part for reading in taken.readings if reading.power_w is not None}
        if taken.meter not in excused and (parts := _expected(taken, truth).keys() - reported):
            yield f"{taken.meter} by {taken.way}: {', '.join(sorted(parts))} not known: {taken.error}"


def _wrong_state(node: str, seen: PowerObservation, truth: NodeTruth, fault: str) -> Iterator[str]:
    if seen.state is not PowerState.UNKNOWN and (
        fault in SILENT_FAULTS or (seen.state is PowerState.ON) is not truth.on
    ):
        yield f"{node}, {fault or 'well'}: said to be {seen.state}, and is {'on' if truth.on else 'off'}"


def _wrong_watts(taken: MeterResult, truth: Truth, fault: str) -> Iterator[str]:
    expected, who = _expected(taken, truth), f"{taken.meter} by {taken.way}, {fault or 'well'}"
    for reading in taken.readings:
        is_w, reported_w = expected.get(reading.part), reading.power_w
        if None not in (is_w, reported_w) and (fault in SILENT_FAULTS or reported_w != is_w):
            yield f"{who}: {reading.part} said to be {reported_w} W, and is {is_w} W"


def _expected(taken: MeterResult, truth: Truth) -> dict[str, float]:
    """Return the expected values of a meter by part, rounded to its steps."""
    if taken.way == "dcmi":
        return {"total": float(round(truth.nodes[taken.meter].power_w))}
    pdu = truth.pdus[taken.meter]
    outlets = {f"outlet {outlet}": float(round(power_w)) for outlet, power_w in pdu.outlets.items()}
    return {"total": 10.0 * round(pdu.power_w / 10)} | outlets
