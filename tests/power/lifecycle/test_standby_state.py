"""Standby is seen by what the node does not answer and does not draw; the BMC may say on or off."""

import pytest
from walked_node import Walk

pytestmark = pytest.mark.quick


def suspending() -> Walk:
    return Walk().seen("on", answers=True, watts=200).desires("standby").ordered()


def in_standby() -> Walk:
    walk = suspending()
    for _ in range(3):
        walk.passes(5).seen("on", answers=False, watts=11)
    return walk


def test_three_silent_looks_below_the_ceiling() -> None:
    walk = suspending().seen("on", answers=False, watts=11).seen("on", answers=False, watts=11)
    assert walk.state == "going down"
    walk.seen("on", answers=False, watts=11)
    assert (walk.state, walk.record.observed.by, walk.order) == ("standby", "offpeak", None)
    assert walk.record.measured is not None
    assert walk.record.measured.change == "suspend"


def test_silent_but_drawing_is_not_asleep() -> None:
    walk = suspending()
    for _ in range(5):
        walk.seen("on", answers=False, watts=200)
    assert walk.state == "going down"
    walk.passes(60).seen("on", answers=False, watts=200)
    assert walk.record.attempts.tries == 1


def test_a_bmc_that_says_off_in_standby() -> None:
    assert suspending().seen("off", answers=False, watts=11).state == "standby"
    assert suspending().seen("off").state == "standby"
    assert in_standby().seen("off", answers=False, watts=11).record.surprises == ()


def test_without_a_meter_silence_must_do() -> None:
    walk = suspending()
    for _ in range(3):
        walk.seen("on", answers=False)
    assert walk.state == "standby"


def test_wakes_first_by_the_bmc_then_by_packet() -> None:
    walk = in_standby().desires("on")
    assert walk.order == ("on", "bmc")
    walk.ordered().passes(30).seen("on", answers=False, watts=11)
    assert walk.order == ("on", "bmc")
    walk.ordered().passes(60).seen("on", answers=False, watts=11)
    assert walk.order == ("on", "wol")
    walk.ordered().passes(5).seen("on", answers=False, watts=150)
    assert walk.state == "booting"
    walk.passes(5).seen("on", answers=True, watts=200)
    assert (walk.state, walk.record.observed.by) == ("on", "offpeak")


def test_a_clean_resume_is_learned() -> None:
    walk = in_standby().desires("on").ordered().passes(7).seen("on", answers=True, watts=200)
    assert walk.record.measured is not None
    assert (walk.record.measured.change, walk.record.measured.seconds) == ("resume", 7)


def test_node_woken_by_its_alarm_or_a_user_is_on() -> None:
    walk = in_standby().passes(500).seen("on", answers=True, watts=200)
    assert (walk.state, walk.record.observed.by, len(walk.record.surprises)) == ("on", "unknown", 1)


def test_without_any_evidence_it_is_not_known() -> None:
    walk = in_standby().seen("on")
    assert walk.state == "unknown"
    assert walk.blocked.startswith("its state is not known: neither ssh nor its power shows")


def test_a_node_that_is_off_counts_as_asleep_for_a_goal_of_standby() -> None:
    walk = Walk().seen("off").desires("standby")
    assert (walk.state, walk.order, walk.blocked) == ("off", None, "it is in its desired state")
