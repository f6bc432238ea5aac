"""What is written of a life is what an admin needs to know of the node."""

from dataclasses import replace

import pytest

from offpeak.door.effect import Hold, Refusal
from offpeak.power.lifecycle.node_record import Attempts, Fault, Instant, NodeRecord, make_state_row

pytestmark = pytest.mark.quick


def test_fault_record_has_a_hint() -> None:
    hint = "look at its console; when it is fixed: offpeak nodes n1 release"
    fault = Fault("does not come up", "it has power, but on was not followed within 600 s", hint, False, 1000.0)
    written = make_state_row(NodeRecord("n1", fault=fault), Instant(1.0, 1000.0))
    assert written.why == f"{fault.what}: {fault.reason}; {hint}"


def test_a_hold_stands_once_in_the_reasons() -> None:
    refusal = Refusal("held", "n1: al holds it: repair", "ask al")
    record = NodeRecord("n1", hold=Hold("al", "repair"), attempts=Attempts(refusal=refusal))
    assert make_state_row(record, Instant(1.0, 1000.0)).why == "held by al: repair"
    other = replace(record, attempts=Attempts(refusal=replace(refusal, rule="min_on", message="4 nodes stay on")))
    assert make_state_row(other, Instant(1.0, 1000.0)).why == "held by al: repair; refused (min_on): 4 nodes stay on"
