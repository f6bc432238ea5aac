"""What is written of a life is what an admin needs to know of the node."""

from dataclasses import replace

import pytest

from offpeak.door.effect import Hold, Refusal
from offpeak.ledger.rows import NodeStateRecord
from offpeak.model.orders import NodeState
from offpeak.power.lifecycle.node_record import Attempts, Fault, Instant, NodeRecord, make_state_row, restore_record

pytestmark = pytest.mark.quick


def test_fault_record_has_a_hint() -> None:
    hint = "look at its console; when it is fixed: offpeak nodes n1 release"
    fault = Fault("does not come up", "it has power, but on was not followed within 600 s", hint, False, 1000.0)
    written = make_state_row(NodeRecord("n1", fault=fault), Instant(1.0, 1000.0))
    assert written.why == f"{fault.what}: {fault.reason}; {hint}"


@pytest.mark.parametrize(
    ("unix_s", "step_s"), [(110.0, 0), (115.0, 0), (116.0, 6), (105.0, 0), (104.0, -6), (3710.0, 3600)]
)
def test_a_clock_that_is_set_is_told_from_one_that_runs_differently(unix_s: float, step_s: int) -> None:
    """Ten seconds later."""
    assert Instant(60.0, unix_s).stepped_s(Instant(50.0, 100.0)) == step_s


@pytest.mark.parametrize(("state", "is_settled"), [("on", True), ("off", True), ("standby", True), ("booting", False)])
def test_after_a_restart_a_state_is_known_unless_the_node_was_changing(state: str, is_settled: bool) -> None:
    restored = restore_record("n1", NodeStateRecord("n1", 1000.0, state, "", "offpeak"), None)
    assert restored.observed.state == NodeState(state)
    assert restored.observed.known == (NodeState(state) if is_settled else None)


def test_a_hold_stands_once_in_the_reasons() -> None:
    refusal = Refusal("held", "n1: al holds it: repair", "ask al")
    record = NodeRecord("n1", hold=Hold("al", "repair"), attempts=Attempts(refusal=refusal))
    assert make_state_row(record, Instant(1.0, 1000.0)).why == "held by al: repair"
    other = replace(record, attempts=Attempts(refusal=replace(refusal, rule="min_on", message="4 nodes stay on")))
    assert make_state_row(other, Instant(1.0, 1000.0)).why == "held by al: repair; refused (min_on): 4 nodes stay on"
