"""The state machine of a node: a record and one event give the next record. Nothing else changes a record.

In this order: the steps towards a desired state, by the rungs of the hardware; what a failure does (the next step, a
longer pause, and in the end the operator has the node); the door's answer to an order (a refused order is due again
later); an observation (a change that nobody ordered keeps the agent away for a while); and the passing of time.
"""

from dataclasses import dataclass, replace

from offpeak.door.effect import SCHEDULER, US, Refusal
from offpeak.errors import AccessRefused, WrongDevice
from offpeak.machines.inventory import SleepMethod
from plugin.scheduler.node import SchedulerState
from power.drivers.port import Order
from power.lifecycle.node_context import NodeContext
from power.lifecycle.node_record import (
    ASLEEP,
    SETTLED,
    UNKNOWN_CAUSE,
    Attempts,
    DesiredState,
    DesiredStateChange,
    Event,
    Fault,
    HoldChange,
    Instant,
    MeasuredDuration,
    NodeObservation,
    NodeRecord,
    NodeState,
    ObservedState,
    OrderAnswer,
    PendingOrder,
    Release,
    SchedulerReport,
    SentOrder,
    TimePassed,
    is_goal,
)
from power.lifecycle.observations import count_silent_polls, determine_state

CHANGE_OF_ORDER = {Order.STANDBY: "suspend", Order.SOFT_OFF: "shutdown", Order.HARD_OFF: "shutdown"}


@dataclass(frozen=True, slots=True)
class OrderStep:
    """An order and the way it is given ("bmc", "wol", "" for the only one), and how long its effect is waited for."""

    order: Order
    way: str
    time_out_s: float


def name_change(order: Order, was: NodeState) -> str:
    """Return the name of the change that the order makes to a node in that state, as times are learned by."""
    if order is Order.ON:
        return "resume" if was is NodeState.STANDBY else "boot"
    return CHANGE_OF_ORDER[order]


def list_steps(order: Order, was: NodeState, terms: NodeContext) -> tuple[OrderStep, ...]:
    """Return the steps from that state to where the order leads, none where the hardware has no such rung."""
    return _list_wake_steps(was, terms) if order is Order.ON else _list_sleep_steps(order, terms)


def _list_wake_steps(was: NodeState, terms: NodeContext) -> tuple[OrderStep, ...]:
    rung = _find_sleep_rung(was, terms)
    if rung is None:
        return ()
    change = name_change(Order.ON, was)
    return tuple(OrderStep(Order.ON, way, terms.times.time_out_s(change, rung.wake_patience_s)) for way in rung.wake)


def _list_sleep_steps(order: Order, terms: NodeContext) -> tuple[OrderStep, ...]:
    orders = [order]
    if order is Order.SOFT_OFF and terms.conduct.cut_power:
        orders.append(Order.HARD_OFF)
    rungs = [(each, terms.hardware.rung(each)) for each in orders]
    return tuple(
        OrderStep(each, "", terms.times.time_out_s(CHANGE_OF_ORDER[each], rung.enter_patience_s))
        for each, rung in rungs
        if rung is not None
    )


def _find_sleep_rung(was: NodeState, terms: NodeContext) -> SleepMethod | None:
    """Return the rung on which a node in that state sleeps, another if it sleeps where the hardware has no rung."""
    if was not in ASLEEP:
        return None
    rungs = terms.hardware.rungs
    fitting = (rung for rung in rungs if (rung.name == "standby") is (was is NodeState.STANDBY))
    return next(fitting, rungs[0] if rungs else None)


NOT_UP, NOT_DOWN, NOT_REACHED = "does not come up", "does not go down", "takes no orders"


def take_next_step(life: NodeRecord, course: PendingOrder, reason: str, terms: NodeContext) -> NodeRecord | None:
    """Return the life before its next step, None if there is no other after the one that has failed."""
    effort = life.effort
    if life.wish is None or effort.step + 1 >= len(list_steps(life.wish.order, course.was, terms)):
        return None
    return replace(life, effort=replace(effort, course=None, step=effort.step + 1, said=reason))


def record_failure(life: NodeRecord, reason: str, now: Instant, terms: NodeContext, *, ours: bool) -> NodeRecord:
    """Return the life after all steps to its wish have failed once more."""
    conduct, tries = terms.conduct, life.effort.tries + 1
    pause_s = min(conduct.first_pause_s * 2.0 ** (tries - 1), conduct.longest_pause_s)
    fault = life.fault
    if tries >= conduct.tries:
        tries, pause_s = conduct.tries, conduct.ours_again_s
        fault = _make_fault(life, reason, now, ours)
    next_try_s = now.monotonic_s + terms.spread(pause_s)
    effort = replace(
        life.effort, course=None, step=0, tries=tries, next_try_s=next_try_s, refusal=None, refusals=0, said=reason
    )
    return replace(life, effort=effort, fault=fault)


def hand_over(life: NodeRecord, reason: str, hint: str, now: Instant) -> NodeRecord:
    """Return the life of a node that refused the login, or is another than was enrolled: nobody tries that again."""
    fault = Fault(NOT_REACHED, reason, hint or f"offpeak check {life.node}", False, now.unix_s)
    return replace(life, fault=fault, effort=replace(life.effort, course=None, step=0, said=reason))


def record_hang(life: NodeRecord, reason: str, now: Instant) -> NodeRecord:
    """Return the life of a node that has power and does not come up: no order that we have would help it."""
    fault = Fault(NOT_UP, f"it has power, but {reason}", _console_hint(life), False, now.unix_s)
    return replace(life, fault=fault, effort=replace(life.effort, course=None, step=0, said=reason))


def _console_hint(life: NodeRecord) -> str:
    return f"look at its console; when it is mended: offpeak node {life.node} release"


def _make_fault(life: NodeRecord, reason: str, now: Instant, ours: bool) -> Fault:
    up = life.wish is not None and life.wish.order is Order.ON
    if ours:
        what, hint = NOT_REACHED, f"is its BMC well? try: offpeak check {life.node}"
    else:
        what = NOT_UP if up else NOT_DOWN
        hint = _console_hint(life)
    since_unix_s = life.fault.since_unix_s if life.fault is not None and life.fault.what == what else now.unix_s
    return Fault(what, reason, hint, ours, since_unix_s)


DONE = "done"
FINAL_ERRORS = (AccessRefused.__name__, WrongDevice.__name__)
"""Troubles that trying again cannot mend, and may make worse."""


def record_sending(life: NodeRecord, order: Order, by: str, now: Instant) -> NodeRecord:
    """Return the life with an order that is just being sent: from now on the node may follow it."""
    was = life.effort.course.was if life.effort.course is not None else life.seen.state
    return replace(life, sent=SentOrder(order, by, now.monotonic_s, was, clear=False))


def record_answer(life: NodeRecord, answered: OrderAnswer, now: Instant, terms: NodeContext) -> NodeRecord:
    """Return the life after the answer. What failed may have been done all the same: only its answer was lost."""
    answer, before = answered.answer, life.effort.course
    if answer.trouble in FINAL_ERRORS:
        return hand_over(life, answer.said, answer.hint if isinstance(answer, Refusal) else "", now)
    if isinstance(answer, Refusal):
        return _record_refusal(life, answered.order, answer, now, terms)
    done = answer.result == DONE
    if before is not None and (before.order, before.way) == (answered.order, answered.way):
        course = replace(before, sent=before.sent + 1, sent_s=now.monotonic_s if done else before.sent_s)
    else:
        course = PendingOrder(answered.order, answered.way, answered.by, now.monotonic_s, 1, life.seen.state)
    clear = done and course.sent == 1 and life.effort.step == 0
    sent = SentOrder(course.order, course.by, now.monotonic_s, course.was, clear)
    if not done and course.sent == 1:
        return _record_not_accepted(replace(life, sent=sent), course, answer.said or answer.result, now, terms)
    effort = Attempts(course, life.effort.step, life.effort.tries, life.effort.next_try_s)
    return replace(life, sent=sent, effort=effort)


def _record_not_accepted(
    life: NodeRecord, course: PendingOrder, reason: str, now: Instant, terms: NodeContext
) -> NodeRecord:
    # Only to wake it is there another way; power is not cut because a BMC takes no order.
    other_way = take_next_step(life, course, reason, terms) if course.order is Order.ON else None
    return other_way or record_failure(life, reason, now, terms, ours=True)


def _record_refusal(life: NodeRecord, order: Order, refusal: Refusal, now: Instant, terms: NodeContext) -> NodeRecord:
    conduct, times = terms.conduct, life.effort.refusals + 1
    # Somebody waits for a node that is to wake.
    doubled = 1 if order is Order.ON else 2 ** min(times - 1, 10)
    pause_s = min(conduct.refused_pause_s * doubled, conduct.longest_refused_pause_s)
    next_try_s = now.monotonic_s + terms.spread(pause_s)
    return replace(life, effort=replace(life.effort, refusal=refusal, refusals=times, next_try_s=next_try_s))


FLAPPING = "changes by itself"
UNSEEN = "cannot be seen"
NO_LOGIN = "lets nobody in"
FAULTS_OF_POLLING = (UNSEEN, NO_LOGIN)
NOT_FOLLOWED = (NOT_UP, NOT_DOWN)
COMING = (NodeState.BOOTING, NodeState.ON)


def record_observation(life: NodeRecord, look: NodeObservation, now: Instant, terms: NodeContext) -> NodeRecord:
    """Return the life after the look."""
    state, trouble = determine_state(life, look, terms)
    unknown = state is NodeState.UNKNOWN
    seen = replace(
        life.seen,
        at_unix_s=look.observed.at_unix_s,
        at_s=now.monotonic_s,
        watts=look.watts,
        silent_in_row=count_silent_polls(life, look, terms),
        trouble=trouble,
        unknown_since_s=life.seen.unknown_since_s if unknown else None,
    )
    if unknown:
        return _record_unknown(replace(life, seen=seen), look, now)
    if life.fault is not None and life.fault.what in FAULTS_OF_POLLING:
        life = replace(life, fault=None)
    return _record_state(life, seen, state, now, terms)


def _record_unknown(life: NodeRecord, look: NodeObservation, now: Instant) -> NodeRecord:
    seen = life.seen
    if seen.unknown_since_s is None:
        seen = replace(
            seen,
            state=NodeState.UNKNOWN,
            since_unix_s=now.unix_s,
            by=UNKNOWN_CAUSE,
            unknown_since_s=now.monotonic_s,
        )
    fault = life.fault
    if fault is None and isinstance(look.trouble, AccessRefused | WrongDevice):
        fault = Fault(NO_LOGIN, seen.trouble, look.trouble.hint, False, now.unix_s)
    return replace(life, seen=seen, fault=fault)


def _record_state(
    life: NodeRecord, seen: ObservedState, state: NodeState, now: Instant, terms: NodeContext
) -> NodeRecord:
    by = _find_cause(life, state, now, terms)
    if state is not life.seen.state:
        seen = replace(seen, state=state, since_unix_s=now.unix_s, by=life.seen.by if by is None else by)
    if state in SETTLED and state is not seen.known:
        seen = replace(seen, known=state)
    surprising = by == UNKNOWN_CAUSE and life.seen.known is not None
    after = _close_reached_order(replace(life, seen=seen), state, now)
    return _record_surprise(after, now, terms) if surprising else after


def _find_cause(life: NodeRecord, state: NodeState, now: Instant, terms: NodeContext) -> str | None:
    """Return who made the node change from the last known state, None where it did not change."""
    seen, sent = life.seen, life.sent
    if state is seen.known:
        return None
    if sent is not None and _explains(sent.order, state) and _order_is_recent(life, now, terms):
        return sent.by
    if state in COMING and (life.word is SchedulerState.BOOTS or _was_woken_by_scheduler(life)):
        return SCHEDULER
    goes_on = seen.state is state or (seen.state is NodeState.BOOTING and state is NodeState.ON)
    if goes_on:
        return seen.by if seen.by != UNKNOWN_CAUSE else None
    return UNKNOWN_CAUSE


def _was_woken_by_scheduler(life: NodeRecord) -> bool:
    """Whether it slept by our order, and the scheduler counts on it again: it had it woken, and nobody here looked."""
    return life.word in (SchedulerState.UP, SchedulerState.BUSY) and life.seen.known in ASLEEP and life.seen.by == US


def _order_is_recent(life: NodeRecord, now: Instant, terms: NodeContext) -> bool:
    """Whether the last order may still have its effect."""
    sent = life.sent
    return life.effort.course is not None or (sent is not None and now.monotonic_s - sent.at_s < terms.conduct.late_s)


def _explains(order: Order, state: NodeState) -> bool:
    if order is Order.ON:
        return state in COMING
    return state in (NodeState.GOING_DOWN, NodeState.STANDBY, NodeState.OFF)


def _close_reached_order(life: NodeRecord, state: NodeState, now: Instant) -> NodeRecord:
    """Return the life with what is reached ticked off: the order that led here, and the wish."""
    sent = life.sent
    if sent is not None and is_goal(sent.order, state):
        certain = sent.clear and sent.was in SETTLED and not is_goal(sent.order, sent.was)
        took = (
            MeasuredDuration(name_change(sent.order, sent.was), now.monotonic_s - sent.at_s) if certain else life.took
        )
        fault = None if life.fault is not None and life.fault.what in NOT_FOLLOWED else life.fault
        life = replace(life, sent=None, took=took, fault=fault, effort=replace(life.effort, course=None))
    if life.wish is not None and is_goal(life.wish.order, state) and life.effort.course is None:
        fault = life.fault if life.fault is not None and life.fault.what == FLAPPING else None
        if life.effort != Attempts() or fault is not life.fault:
            life = replace(life, effort=Attempts(), fault=fault)
    return life


def _record_surprise(life: NodeRecord, now: Instant, terms: NodeContext) -> NodeRecord:
    conduct = terms.conduct
    recent = [at_s for at_s in life.surprises if now.monotonic_s - at_s < conduct.surprises_within_s]
    times = (*recent, now.monotonic_s)[-conduct.surprises :]
    fault = life.fault
    if len(times) >= conduct.surprises and (fault is None or fault.what != FLAPPING):
        reason = f"changed {len(times)} times in {times[-1] - times[0]:.0f} s, and nobody here ordered it"
        hint = "who else switches it: the scheduler, a script, a loose cable? look at the BMC's event log"
        fault = Fault(FLAPPING, reason, hint, False, now.unix_s)
    hands_off_until_s = now.monotonic_s + conduct.hands_off_s
    return replace(life, surprises=times, fault=fault, hands_off_until_s=hands_off_until_s)


def record_time(life: NodeRecord, now: Instant, terms: NodeContext) -> NodeRecord:
    """Return the life as it is now."""
    life = _record_long_silence(life, now, terms)
    course = life.effort.course
    if course is None or now.monotonic_s - course.sent_s < order_timeout_s(course, terms):
        return life
    return _record_timeout(life, course, now, terms)


def order_timeout_s(course: PendingOrder, terms: NodeContext) -> float:
    """Return after how long [s] the order counts as not followed."""
    steps = list_steps(course.order, course.was, terms)
    return next((each.time_out_s for each in steps if (each.order, each.way) == (course.order, course.way)), 0.0)


def _record_timeout(life: NodeRecord, course: PendingOrder, now: Instant, terms: NodeContext) -> NodeRecord:
    wish, seen = life.wish, life.seen
    if wish is None or (wish.order is Order.ON) is not (course.order is Order.ON):
        # It was for another wish than the present one: nothing has failed.
        return replace(life, effort=replace(life.effort, course=None, step=0))
    reason = f"{course.order} was not followed within {now.monotonic_s - course.sent_s:.0f} s"
    if seen.state is NodeState.UNKNOWN:
        return record_failure(life, f"{reason}; {seen.trouble}", now, terms, ours=True)
    if course.order is Order.ON and seen.state is NodeState.BOOTING:
        return record_hang(life, reason, now)
    return take_next_step(life, course, reason, terms) or record_failure(life, reason, now, terms, ours=False)


def _record_long_silence(life: NodeRecord, now: Instant, terms: NodeContext) -> NodeRecord:
    since_s = life.seen.unknown_since_s
    if life.fault is not None or since_s is None or now.monotonic_s - since_s < terms.conduct.unseen_s:
        return life
    hint = f"try: offpeak check {life.node}"
    return replace(life, fault=Fault(UNSEEN, life.seen.trouble, hint, True, now.unix_s))


def apply_event(life: NodeRecord, event: Event, now: Instant, terms: NodeContext) -> NodeRecord:
    """Return the life after the event. Both clocks are handed in; only texts for people use the one of the wall."""
    match event:
        case NodeObservation():
            return record_observation(life, event, now, terms)
        case TimePassed():
            return record_time(life, now, terms)
        case OrderAnswer():
            return record_answer(life, event, now, terms)
        case SchedulerReport(word):
            return life if word is life.word else replace(life, word=word)
        case DesiredStateChange(wish):
            return _set_desired_state(life, wish)
        case HoldChange(hold):
            return replace(life, hold=hold)
        case Release():
            return _release(life)


def _set_desired_state(life: NodeRecord, wish: DesiredState | None) -> NodeRecord:
    """Return the life with another wish; the same one again leaves all as it is."""
    before = life.wish
    if before is not None and wish is not None and (before.order, before.by) == (wish.order, wish.by):
        return life
    # What an admin orders is tried anew, whatever failed before.
    fault = life.fault if wish is None or wish.by == US else None
    return replace(life, wish=wish, fault=fault, effort=Attempts(course=life.effort.course))


def _release(life: NodeRecord) -> NodeRecord:
    effort = Attempts(course=life.effort.course)
    return replace(life, hold=None, fault=None, effort=effort, surprises=(), hands_off_until_s=0.0)
