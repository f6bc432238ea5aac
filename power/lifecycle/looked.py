"""Takes a look into a node's life: its state, since when, and by whom. A change that nobody ordered is hands off."""

from dataclasses import replace

from offpeak.door.effect import SCHEDULER, US
from offpeak.errors import AccessRefused, WrongDevice
from power.drivers.port import Order
from power.lifecycle.events import Looked
from power.lifecycle.failed import NOT_DOWN, NOT_UP
from power.lifecycle.ladder import change_of
from power.lifecycle.life import (
    ASLEEP,
    SETTLED,
    SOMEBODY,
    Effort,
    Fault,
    NodeLife,
    NodeState,
    Now,
    Seen,
    Took,
    Word,
    is_goal,
)
from power.lifecycle.state_seen import silent_in_row, state_seen
from power.lifecycle.terms import Terms

FLAPS = "changes by itself"
SILENT = "cannot be seen"
NO_ENTRY = "lets nobody in"
OF_SEEING = (SILENT, NO_ENTRY)
NOT_FOLLOWED = (NOT_UP, NOT_DOWN)
COMING = (NodeState.BOOTING, NodeState.ON)


def with_looked(life: NodeLife, look: Looked, now: Now, terms: Terms) -> NodeLife:
    """Return the life after the look."""
    state, trouble = state_seen(life, look, terms)
    unknown = state is NodeState.UNKNOWN
    seen = replace(
        life.seen,
        at_unix_s=look.observed.at_unix_s,
        at_s=now.monotonic_s,
        watts=look.watts,
        silent_in_row=silent_in_row(life, look, terms),
        trouble=trouble,
        unknown_since_s=life.seen.unknown_since_s if unknown else None,
    )
    if unknown:
        return _unseen(replace(life, seen=seen), look, now)
    if life.fault is not None and life.fault.what in OF_SEEING:
        life = replace(life, fault=None)
    return _with_state(life, seen, state, now, terms)


def _unseen(life: NodeLife, look: Looked, now: Now) -> NodeLife:
    seen = life.seen
    if seen.unknown_since_s is None:
        seen = replace(
            seen,
            state=NodeState.UNKNOWN,
            since_unix_s=now.unix_s,
            by=SOMEBODY,
            unknown_since_s=now.monotonic_s,
        )
    fault = life.fault
    if fault is None and isinstance(look.trouble, AccessRefused | WrongDevice):
        fault = Fault(NO_ENTRY, seen.trouble, look.trouble.hint, False, now.unix_s)
    return replace(life, seen=seen, fault=fault)


def _with_state(life: NodeLife, seen: Seen, state: NodeState, now: Now, terms: Terms) -> NodeLife:
    by = _who(life, state, now, terms)
    if state is not life.seen.state:
        seen = replace(seen, state=state, since_unix_s=now.unix_s, by=life.seen.by if by is None else by)
    if state in SETTLED and state is not seen.known:
        seen = replace(seen, known=state)
    surprising = by == SOMEBODY and life.seen.known is not None
    after = _reached(replace(life, seen=seen), state, now)
    return _surprised(after, now, terms) if surprising else after


def _who(life: NodeLife, state: NodeState, now: Now, terms: Terms) -> str | None:
    """Return who made the node change from the last known state, None where it did not change."""
    seen, sent = life.seen, life.sent
    if state is seen.known:
        return None
    if sent is not None and _explains(sent.order, state) and _still_counts(life, now, terms):
        return sent.by
    if state in COMING and (life.word is Word.BOOTS or _was_woken_unseen(life)):
        return SCHEDULER
    goes_on = seen.state is state or (seen.state is NodeState.BOOTING and state is NodeState.ON)
    if goes_on:
        return seen.by if seen.by != SOMEBODY else None
    return SOMEBODY


def _was_woken_unseen(life: NodeLife) -> bool:
    """Whether it slept by our order, and the scheduler counts on it again: it had it woken, and nobody here looked."""
    return life.word in (Word.UP, Word.BUSY) and life.seen.known in ASLEEP and life.seen.by == US


def _still_counts(life: NodeLife, now: Now, terms: Terms) -> bool:
    """Whether the last order may still have its effect."""
    sent = life.sent
    return life.effort.course is not None or (sent is not None and now.monotonic_s - sent.at_s < terms.conduct.late_s)


def _explains(order: Order, state: NodeState) -> bool:
    if order is Order.ON:
        return state in COMING
    return state in (NodeState.GOING_DOWN, NodeState.STANDBY, NodeState.OFF)


def _reached(life: NodeLife, state: NodeState, now: Now) -> NodeLife:
    """Return the life with what is reached ticked off: the order that led here, and the wish."""
    sent = life.sent
    if sent is not None and is_goal(sent.order, state):
        certain = sent.clear and sent.was in SETTLED and not is_goal(sent.order, sent.was)
        took = Took(change_of(sent.order, sent.was), now.monotonic_s - sent.at_s) if certain else life.took
        fault = None if life.fault is not None and life.fault.what in NOT_FOLLOWED else life.fault
        life = replace(life, sent=None, took=took, fault=fault, effort=replace(life.effort, course=None))
    if life.wish is not None and is_goal(life.wish.order, state) and life.effort.course is None:
        fault = life.fault if life.fault is not None and life.fault.what == FLAPS else None
        if life.effort != Effort() or fault is not life.fault:
            life = replace(life, effort=Effort(), fault=fault)
    return life


def _surprised(life: NodeLife, now: Now, terms: Terms) -> NodeLife:
    conduct = terms.conduct
    recent = [at_s for at_s in life.surprises if now.monotonic_s - at_s < conduct.surprises_within_s]
    times = (*recent, now.monotonic_s)[-conduct.surprises :]
    fault = life.fault
    if len(times) >= conduct.surprises and (fault is None or fault.what != FLAPS):
        reason = f"changed {len(times)} times in {times[-1] - times[0]:.0f} s, and nobody here ordered it"
        hint = "who else switches it: the scheduler, a script, a loose cable? look at the BMC's event log"
        fault = Fault(FLAPS, reason, hint, False, now.unix_s)
    hands_off_until_s = now.monotonic_s + conduct.hands_off_s
    return replace(life, surprises=times, fault=fault, hands_off_until_s=hands_off_until_s)
