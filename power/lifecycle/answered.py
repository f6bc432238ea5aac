"""Takes the door's answer to an order into a node's life: what it refused is asked again later."""

from dataclasses import replace

from offpeak.door.effect import Refusal
from offpeak.errors import AccessRefused, WrongDevice
from power.drivers.port import Order
from power.lifecycle.events import Ordered
from power.lifecycle.failed import handed_over, with_failure, with_next_step
from power.lifecycle.life import Course, Effort, NodeLife, Now, Sent
from power.lifecycle.terms import Terms

DONE = "done"
FINAL = (AccessRefused.__name__, WrongDevice.__name__)
"""Troubles that trying again cannot mend, and may make worse."""


def with_sending(life: NodeLife, order: Order, by: str, now: Now) -> NodeLife:
    """Return the life with an order that is just being sent: from now on the node may follow it."""
    was = life.effort.course.was if life.effort.course is not None else life.seen.state
    return replace(life, sent=Sent(order, by, now.monotonic_s, was, clear=False))


def with_answer(life: NodeLife, answered: Ordered, now: Now, terms: Terms) -> NodeLife:
    """Return the life after the answer. What failed may have been done all the same: only its answer was lost."""
    answer, before = answered.answer, life.effort.course
    if answer.trouble in FINAL:
        return handed_over(life, answer.said, answer.hint if isinstance(answer, Refusal) else "", now)
    if isinstance(answer, Refusal):
        return _refused(life, answered.order, answer, now, terms)
    done = answer.result == DONE
    if before is not None and (before.order, before.way) == (answered.order, answered.way):
        course = replace(before, sent=before.sent + 1, sent_s=now.monotonic_s if done else before.sent_s)
    else:
        course = Course(answered.order, answered.way, answered.by, now.monotonic_s, 1, life.seen.state)
    clear = done and course.sent == 1 and life.effort.step == 0
    sent = Sent(course.order, course.by, now.monotonic_s, course.was, clear)
    if not done and course.sent == 1:
        return _not_accepted(replace(life, sent=sent), course, answer.said or answer.result, now, terms)
    effort = Effort(course, life.effort.step, life.effort.tries, life.effort.next_try_s)
    return replace(life, sent=sent, effort=effort)


def _not_accepted(life: NodeLife, course: Course, reason: str, now: Now, terms: Terms) -> NodeLife:
    # Only to wake it is there another way; power is not cut because a BMC takes no order.
    other_way = with_next_step(life, course, reason, terms) if course.order is Order.ON else None
    return other_way or with_failure(life, reason, now, terms, ours=True)


def _refused(life: NodeLife, order: Order, refusal: Refusal, now: Now, terms: Terms) -> NodeLife:
    conduct, times = terms.conduct, life.effort.refusals + 1
    # Somebody waits for a node that is to wake.
    doubled = 1 if order is Order.ON else 2 ** min(times - 1, 10)
    pause_s = min(conduct.refused_pause_s * doubled, conduct.longest_refused_pause_s)
    next_try_s = now.monotonic_s + terms.spread(pause_s)
    return replace(life, effort=replace(life.effort, refusal=refusal, refusals=times, next_try_s=next_try_s))
