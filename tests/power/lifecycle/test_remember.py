"""A life that was stored goes on where it was, whatever time it is then."""

import pytest
from walked_node import Walk, asleep

from offpeak.door.effect import Outcome, Refusal
from offpeak.power.lifecycle.node_record import record_from_json, record_to_json

pytestmark = pytest.mark.quick


def restarted(walk: Walk, *, later_s: float = 1e5) -> Walk:
    text = record_to_json(walk.record, monotonic_s=walk.monotonic_s)
    walk.monotonic_s += later_s
    walk.record = record_from_json(text, monotonic_s=walk.monotonic_s)
    return walk


@pytest.mark.parametrize("later_s", [1e5, -900.0])
def test_restarted_agent_keeps_the_timeout_of_a_pending_order(later_s: float) -> None:
    walk = asleep().desires("on").ordered().passes(100)
    restarted(walk, later_s=later_s)
    assert walk.passes(199).seen("off").order is None
    assert walk.passes(1).seen("off").order == ("on", "bmc")


def test_pauses_holds_faults_and_surprises_stay() -> None:
    walk = asleep().desires("on").ordered(Outcome("failed", "x")).ordered(Outcome("failed", "x"))
    restarted(walk.held("jo"))
    assert walk.record.attempts.tries == 1
    assert walk.passes(59).order is None
    assert walk.record.hold is not None
    walk = restarted(asleep().passes(10).seen("on"))
    assert walk.blocked == "another program or person changed it: offpeak leaves it alone for a while"
    assert len(walk.record.surprises) == 1


def test_the_same_life_cycle_comes_back() -> None:
    walk = asleep(tries=1).desires("on").ordered(Refusal("cap", "full")).passes(30).ordered(Outcome("failed", "x"))
    walk.unseen().passes(900)
    text = record_to_json(walk.record, monotonic_s=walk.monotonic_s)
    record = record_from_json(text, monotonic_s=walk.monotonic_s)
    assert record_to_json(record, monotonic_s=walk.monotonic_s) == text.replace('"clear":true', '"clear":false')


def test_a_node_is_as_long_silent_after_a_restart() -> None:
    walk = restarted(Walk().seen("on").unseen().passes(900))
    since_s = walk.record.observed.unknown_since_s
    assert since_s is not None
    assert walk.monotonic_s - since_s == pytest.approx(900.0)


def test_a_boot_with_a_restart_in_the_middle_teaches_nothing() -> None:
    walk = restarted(asleep().desires("on").ordered().passes(100))
    took = walk.record.measured
    walk.passes(50).seen("on")
    assert (walk.state, walk.record.observed.by, walk.record.measured) == ("on", "offpeak", took)
