"""Whether what was reported is true: a device that is ill may say nothing, but nothing wrong."""

from collections.abc import Iterator, Mapping

from benchmarks.soak.faults import Faults
from benchmarks.soak.site import Look
from benchmarks.soak.truth import NodeTruth, PduTruth, Truth
from power.drivers.port import Observed, PowerState
from power.meters.port import Reading
from power.meters.taken import Taken

MUTE = ("silent", "late", "garbage", "restarts", "says -1")
"""With these faults nothing can be known of a device."""
WAVERING = ("slow", "forgets sessions")
"""With these it may be known or not."""


def wrong(look: Look, truth: Truth, faults: Faults) -> Iterator[str]:
    """Yield every wrong answer in words: a state or power that is not so, or is told of one that is mute, or is lacking."""
    for node, seen in look.states.items():
        yield from _of_state(node, seen, truth.nodes[node], faults.get(node, ""))
    for taken in look.taken:
        fault = faults.get(taken.meter, "")
        told = {reading.part: reading for reading in taken.readings}
        expected = _expected(taken, truth)
        yield from _of_watts(taken, told, expected, fault)


def _of_state(node: str, seen: Observed, truth: NodeTruth, fault: str) -> Iterator[str]:
    if seen.state is PowerState.UNKNOWN:
        if fault not in (*MUTE, *WAVERING):
            yield f"{node}, {fault or 'well'}: state not known: {seen.trouble}"
    elif fault in MUTE:
        yield f"{node}, {fault}: said to be {seen.state}"
    elif (seen.state is PowerState.ON) is not truth.on:
        yield f"{node}, {fault or 'well'}: said to be {seen.state}, which it is not"


def _expected(taken: Taken, truth: Truth) -> dict[str, float]:
    """Return by part what a meter should say, rounded to its steps."""
    if taken.way == "dcmi":
        return {"total": round(truth.nodes[taken.meter].power_w)}
    pdu: PduTruth = truth.pdus[taken.meter]
    outlets = {f"outlet {outlet}": float(round(power_w)) for outlet, power_w in pdu.outlets.items()}
    return {"total": 10.0 * round(pdu.power_w / 10)} | outlets


def _of_watts(taken: Taken, told: Mapping[str, Reading], expected: Mapping[str, float], fault: str) -> Iterator[str]:
    who = f"{taken.meter} by {taken.way}, {fault or 'well'}"
    for part, power_w in expected.items():
        said_w = told[part].power_w if part in told else None
        if said_w is None and fault not in (*MUTE, *WAVERING):
            yield f"{who}: {part} not known: {taken.trouble or told.get(part)}"
        if said_w is not None and fault in MUTE:
            yield f"{who}: {part} said to be {said_w:g} W"
        if said_w is not None and fault not in MUTE and said_w != power_w:
            yield f"{who}: {part} said to be {said_w:g} W, but it is {power_w:g} W"
