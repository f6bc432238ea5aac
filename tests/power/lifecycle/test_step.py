"""The state machine by hand: what is due, what is waited for, and when it is given up."""

import pytest
from walked_node import SERVER, Walk, asleep, context_of

from offpeak.door.effect import Outcome, Refusal
from offpeak.errors import AccessRefused, ErrorKind
from offpeak.machines.inventory import Hardware, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.power.lifecycle.node_record import Attempts, MeasuredDuration

pytestmark = pytest.mark.quick

FAILED = Outcome("failed", "no answer")
CAP = Refusal("cap per hour", "10 of 10 used")


def test_node_without_a_desired_state_gets_no_order() -> None:
    walk = Walk()
    assert (walk.state, walk.order) == ("unknown", None)
    walk.seen("on").passes(9999).seen("off").seen("on")
    assert (walk.order, walk.blocked) == (None, "it has no desired state")


def test_node_goes_to_sleep_and_wakes() -> None:
    walk = Walk().seen("on").desires("soft_off")
    assert walk.order == ("soft_off", "")
    walk.ordered().seen("on")
    assert (walk.state, walk.order) == ("going down", None)
    walk.passes(90).seen("off")
    assert (walk.state, walk.record.observed.by, walk.order) == ("off", "offpeak", None)
    assert walk.record.attempts == Attempts()
    walk.desires("on", why="job 7")
    assert walk.order == ("on", "bmc")
    walk.ordered().passes(60).reports("down").seen("on")
    assert walk.state == "booting"
    walk.passes(90).seen("on").passes(30).reports("up").seen("on")
    assert (walk.state, walk.record.measured) == ("on", MeasuredDuration("boot", 180))


def test_record_has_the_cause_and_time_of_a_state() -> None:
    walk = Walk().seen("on").desires("soft_off", by="admin jo")
    walk.ordered().passes(90)
    walk.seen("off")
    assert (walk.record.observed.by, walk.record.observed.since_unix_s) == ("admin jo", walk.unix_s)


def test_an_unknown_state_is_never_acted_on() -> None:
    walk = Walk().seen("on").desires("soft_off").unseen()
    assert (walk.order, walk.blocked) == (None, "its state is not known: n1: no answer")
    assert walk.seen("on").order == ("soft_off", "")


def test_never_down_with_a_job() -> None:
    walk = Walk().seen("on").reports("busy").desires("soft_off")
    assert (walk.order, walk.blocked) == (None, "a job runs there")
    assert walk.reports("drained").order == ("soft_off", "")


def test_a_node_that_says_that_it_stays_up_does_not_follow_its_order_any_more() -> None:
    walk = Walk().seen("on").desires("soft_off").ordered().seen("on", goes_down=False)
    assert walk.record.sent is not None
    walk.passes(9999).desires(None).seen("on", goes_down=True)
    assert walk.record.observed.goes_down
    assert not walk.seen("on").record.observed.goes_down
    assert walk.record.sent is not None
    assert walk.seen("on", goes_down=False).record.sent is None


@pytest.mark.parametrize(("kind", "may_follow"), [("NoAnswer", True), ("BadAnswer", True), ("NotSupported", False)])
def test_a_failed_order_may_be_followed_unless_the_device_lacks_the_function(kind: str, may_follow: bool) -> None:
    walk = Walk().seen("on").desires("soft_off").ordered(Outcome("failed", "no", ErrorKind(kind)))
    assert (walk.record.sent is not None) is may_follow


def test_a_bmc_that_says_off_while_a_job_runs_is_not_believed() -> None:
    walk = Walk().seen("on").reports("busy").desires("on").seen("off")
    assert (walk.state, walk.order) == ("unknown", None)
    assert "the scheduler that a job runs there" in walk.blocked
    assert walk.seen("on").state == "on"
    assert walk.record.surprises == ()


def test_a_bmc_that_says_off_while_the_node_answers_is_not_believed() -> None:
    assert Walk().seen("on").desires("on").seen("off", answers=True).state == "unknown"


def test_an_on_is_sent_once_more_and_then_the_other_way() -> None:
    walk = asleep().desires("on").ordered()
    assert walk.passes(299).seen("off").order is None
    assert walk.passes(1).seen("off").order == ("on", "bmc")
    walk.ordered().passes(400).seen("off")
    assert walk.order is None
    assert walk.passes(200).seen("off").order == ("on", "wol")
    walk.ordered().passes(50).seen("on")
    assert (walk.state, walk.record.attempts) == ("on", Attempts())


def test_a_boot_that_needed_two_orders_teaches_nothing() -> None:
    walk = asleep()
    took = walk.record.measured
    walk.desires("on").ordered().passes(300).seen("off").ordered().passes(50).seen("on")
    assert walk.record.measured is took


def failed_once(walk: Walk) -> Walk:
    while walk.order:
        walk.ordered().passes(601).seen(walk.state if walk.state in ("on", "off") else "on")
    return walk


def test_a_node_that_never_boots_is_handed_over_for_good() -> None:
    walk = asleep().desires("on")
    for pause_s in (60, 120):
        failed_once(walk)
        assert walk.record.fault is None
        assert walk.passes(pause_s - 1).order is None
        assert walk.passes(1).order == ("on", "bmc")
    failed_once(walk)
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.ours) == ("does not come up", False)
    assert "release" in walk.record.fault.hint
    assert walk.passes(1e6).seen("off").order is None
    assert walk.released().order == ("on", "bmc")


def test_node_that_boots_late_has_no_fault() -> None:
    walk = asleep(tries=1).desires("on")
    failed_once(walk)
    assert walk.record.fault is not None
    walk.passes(60).seen("on")
    assert (walk.record.fault, walk.record.observed.by, walk.record.surprises) == (None, "offpeak", ())


def test_a_fault_that_was_ours_is_tried_again() -> None:
    walk = asleep(tries=1).desires("on")
    walk.ordered(FAILED)
    assert walk.order == ("on", "wol")
    walk.ordered(FAILED)
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.ours) == ("takes no orders", True)
    assert walk.passes(3599).seen("off").order is None
    assert walk.passes(1).seen("off").order == ("on", "bmc")


def test_an_order_whose_answer_was_lost_may_have_been_followed() -> None:
    walk = Walk().seen("on").desires("soft_off").ordered(FAILED).passes(30).seen("off")
    assert (walk.state, walk.record.observed.by, walk.record.surprises) == ("off", "offpeak", ())


def test_a_hold_wins_over_all_but_its_owner() -> None:
    walk = Walk().seen("on").desires("soft_off").held("jo", until_unix_s=1.8e9 + 100)
    assert (walk.order, walk.blocked) == (None, "held by jo: repair")
    assert walk.desires("soft_off", by="admin al").order is None
    assert walk.desires("soft_off", by="admin jo").order == ("soft_off", "")
    assert walk.desires("soft_off").order is None
    assert walk.passes(100).order == ("soft_off", "")


def test_a_fault_of_ours_is_not_tried_over_a_hold() -> None:
    walk = asleep(tries=1).desires("on").ordered(FAILED).ordered(FAILED).held("jo")
    assert walk.passes(7200).seen("off").order is None


def test_refused_order_is_retried_with_growing_pauses() -> None:
    walk = Walk().seen("on").desires("soft_off")
    for pause_s in (30, 60, 120):
        walk.ordered(CAP)
        assert walk.blocked == "the door refused it (cap per hour): 10 of 10 used"
        assert walk.passes(pause_s - 1).order is None
        assert walk.passes(1).order == ("soft_off", "")
    assert walk.record.attempts.tries == 0


def test_a_wake_that_the_door_refuses_is_queried_again_soon() -> None:
    walk = asleep().desires("on")
    for _ in range(5):
        walk.ordered(CAP)
        assert walk.passes(30).order == ("on", "bmc")


def test_soft_off_that_is_not_followed_never_cuts_power_unless_allowed() -> None:
    walk = Walk().seen("on").desires("soft_off").ordered().passes(600).seen("on")
    assert (walk.order, walk.record.attempts.tries) == (None, 1)
    walk = Walk(context_of(cut_power=True)).seen("on").desires("soft_off").ordered().passes(600).seen("on")
    assert walk.order == ("hard_off", "")
    without = Hardware(
        "plain",
        sleep_methods=tuple(method for method in SERVER.sleep_methods if method.order is not NodeOrder.HARD_OFF),
    )
    walk = Walk(context_of(without, cut_power=True)).seen("on").desires("soft_off").ordered().passes(600).seen("on")
    assert (walk.order, walk.record.attempts.tries) == (None, 1)


def test_power_is_not_cut_because_a_bmc_was_silent() -> None:
    walk = Walk(context_of(cut_power=True)).seen("on").desires("soft_off").ordered().unseen().passes(600)
    assert (walk.record.attempts.step, walk.record.attempts.tries) == (0, 1)
    walk = Walk(context_of(cut_power=True)).seen("on").desires("soft_off").ordered(FAILED)
    assert (walk.order, walk.record.attempts.tries) == (None, 1)


def test_a_goal_that_changes_while_it_shuts_down_waits_for_that() -> None:
    walk = Walk().seen("on").desires("soft_off").ordered().seen("on").desires("on")
    assert walk.order is None
    assert walk.passes(90).seen("off").order == ("on", "bmc")


def test_a_shutdown_that_nobody_wants_any_more_and_that_hangs_is_no_failure() -> None:
    walk = Walk().seen("on").desires("soft_off").ordered().desires("on").passes(600).seen("on")
    assert (walk.state, walk.record.attempts) == ("on", Attempts())


def test_a_missing_rung_is_no_way_down() -> None:
    walk = (
        Walk(context_of(Hardware("bare", sleep_methods=(SleepMethod(NodeOrder.HARD_OFF, ("bmc",), 10, 10),))))
        .seen("on")
        .desires("soft_off")
    )
    assert walk.order is None


def test_node_switched_by_somebody_else_is_recorded() -> None:
    walk = asleep().passes(500).seen("on")
    assert (walk.record.observed.by, walk.order) == ("unknown", None)
    assert walk.blocked == "another program or person changed it: offpeak leaves it alone for a while"
    assert walk.passes(1799).order is None
    assert walk.passes(1).order == ("soft_off", "")


def test_an_admin_may_order_what_somebody_else_changed() -> None:
    walk = asleep().passes(500).seen("on").desires("soft_off", by="admin jo")
    assert walk.order == ("soft_off", "")


def test_flapping_is_a_fault() -> None:
    walk = Walk().seen("on")
    for power in ("off", "on", "off"):
        assert walk.record.fault is None
        walk.passes(60).seen(power)
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.ours) == ("changes by itself", False)
    assert walk.desires("on").passes(9999).seen("off").order is None
    assert walk.released().record.fault is None


def test_rare_surprises_are_no_flapping() -> None:
    walk = Walk().seen("on")
    for power in ("off", "on", "off", "on"):
        walk.passes(1801).seen(power)
    assert walk.record.fault is None


def test_silence_in_its_sleep_does_not_hide_who_ordered_it() -> None:
    walk = asleep().unseen()
    assert (walk.state, walk.record.observed.cause) == ("unknown", "unknown")
    assert walk.passes(60).seen("off").record.observed.cause == "offpeak"


def test_silence_in_between_is_no_change() -> None:
    walk = Walk().seen("on").passes(60).unseen().passes(60).seen("on")
    assert walk.record.surprises == ()


def test_the_scheduler_boots_it() -> None:
    walk = asleep().reports("boots").seen("on")
    assert (walk.state, walk.record.observed.by, walk.record.surprises) == ("booting", "scheduler", ())
    walk.reports("up").seen("on")
    assert (walk.state, walk.record.observed.by, walk.record.surprises) == ("on", "scheduler", ())


@pytest.mark.parametrize(("term", "by"), [("up", "scheduler"), ("busy", "scheduler"), ("down", "unknown")])
def test_the_scheduler_has_booted_it_while_nobody_looked(term: str, by: str) -> None:
    walk = asleep().passes(600).reports(term).seen("on")
    assert (walk.state, walk.record.observed.by, len(walk.record.surprises)) == ("on", by, int(by == "unknown"))


def test_a_node_that_nobody_sees_for_long_is_a_fault_until_it_is_seen() -> None:
    walk = Walk().seen("on").unseen().passes(899)
    assert walk.record.fault is None
    walk.passes(1)
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.ours) == ("cannot be seen", True)
    assert walk.seen("on").record.fault is None


def test_a_refused_login_is_handed_over_at_once() -> None:
    walk = Walk().seen("on").unseen(AccessRefused("n1: login refused", hint="mend it"))
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.hint, walk.record.fault.ours) == (
        "lets nobody in",
        "mend it",
        False,
    )
    assert walk.seen("on").record.fault is None


@pytest.mark.parametrize("back_s", [3600.0, -3600.0])
def test_a_clock_that_jumps_neither_fires_nor_starves(back_s: float) -> None:
    walk = asleep().desires("on").ordered()
    walk.unix_s -= back_s
    assert walk.passes(299).seen("off").order is None
    assert walk.passes(1).seen("off").order == ("on", "bmc")
    walk = asleep().desires("on").ordered()
    walk.unix_s -= back_s
    walk.passes(70).seen("off").passes(30).seen("on")
    assert walk.record.measured is not None
    assert walk.record.measured.seconds == 100


BOOT_OF_10_S = MeasuredDuration("boot", 10)


def booting(walk: Walk) -> Walk:
    """Return a node that boots, polled every second for nine seconds."""
    walk.desires("on").reports("down").ordered()
    for _ in range(9):
        walk.passes(1).seen("on")
    assert walk.state == "booting"
    return walk


def test_a_boot_whose_end_was_seen_is_measured() -> None:
    assert booting(asleep(cycle_s=1)).passes(1).reports("up").seen("on").record.measured == BOOT_OF_10_S


def test_a_boot_that_ended_while_the_agent_was_stopped_measures_nothing() -> None:
    """For 25 s, longer than the boot: the rule for ResumeTimeout would keep all such nodes awake from then on."""
    walk = booting(asleep(cycle_s=1))
    before = walk.record.measured
    assert walk.passes(25).reports("up").seen("on").state == "on"
    assert walk.record.measured is before


def test_a_boot_that_ended_while_the_head_node_was_stopped_measures_nothing() -> None:
    """The monotonic clock stands still then, and the boot would be measured as shorter than it was."""
    walk = booting(asleep(cycle_s=1))
    before = walk.record.measured
    walk.unix_s += 300
    assert walk.passes(1).reports("up").seen("on").state == "on"
    assert walk.record.measured is before


def test_a_boot_that_ended_while_the_bmc_was_silent_measures_nothing() -> None:
    walk = booting(asleep(cycle_s=1))
    before = walk.record.measured
    for _ in range(20):
        walk.passes(1).unseen()
    assert walk.reports("up").seen("on").state == "on"
    assert walk.record.measured is before


def test_a_long_boot_is_measured_although_a_cycle_was_late() -> None:
    """An error of a quarter decides nothing."""
    walk = asleep(cycle_s=1).desires("on").reports("down").ordered().passes(300).seen("on")
    assert walk.passes(90).reports("up").seen("on").record.measured == MeasuredDuration("boot", 390)


def test_a_hold_lasts_no_shorter_when_the_clock_is_set_back() -> None:
    walk = Walk().seen("on").desires("soft_off").held("jo", until_unix_s=1.8e9 + 100)
    walk.unix_s -= 3600
    assert walk.passes(101).order is None


@pytest.mark.parametrize(
    "answer",
    [Outcome("failed", "login refused", "AccessRefused"), Refusal("identity", "it is another", "", "WrongDevice")],
)
def test_final_error_hands_the_node_to_the_admin_at_once(answer: Outcome | Refusal) -> None:
    walk = Walk().seen("on").desires("soft_off").ordered(answer)
    assert walk.record.fault is not None
    assert (walk.record.fault.reason, walk.record.fault.ours) == (answer.message, False)
    assert walk.passes(1e6).seen("on").order is None


@pytest.mark.parametrize("answers", [None, False])
def test_a_node_that_hangs_in_its_boot_is_not_up(answers: bool | None) -> None:
    walk = asleep().desires("on").reports("down").ordered().passes(60).seen("on", answers=answers)
    assert walk.state == "booting"
    walk.passes(540).seen("on", answers=answers).passes(60).seen("on", answers=answers)
    assert (walk.state, walk.order) == ("booting", None)
    assert walk.record.fault is not None
    assert (walk.record.fault.what, walk.record.fault.ours) == ("does not come up", False)
    walk.reports("up").seen("on", answers=True if answers is not None else None)
    assert (walk.state, walk.record.fault, walk.record.measured) == ("on", None, MeasuredDuration("boot", 660))


def test_a_node_that_comes_up_after_all_has_no_fault_though_nobody_waits_for_it_any_more() -> None:
    walk = asleep().desires("on").reports("down").ordered().seen("on").passes(600).desires(None)
    assert walk.record.fault is not None
    walk.passes(60).reports("up").seen("on")
    assert (walk.state, walk.record.fault) == ("on", None)


def test_node_with_ssh_is_on_when_it_answers() -> None:
    walk = asleep().desires("on").reports("up").ordered().passes(60).seen("on", answers=False)
    assert walk.state == "booting"
    assert walk.seen("on", answers=True).state == "on"
