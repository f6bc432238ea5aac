"""Takes the passing of time into a node's life: orders that were not followed, and nodes that nobody can see."""

from dataclasses import replace

from power.drivers.port import Order
from power.lifecycle.failed import hung, with_failure, with_next_step
from power.lifecycle.ladder import steps_to
from power.lifecycle.life import Course, Fault, NodeLife, NodeState, Now
from power.lifecycle.looked import SILENT
from power.lifecycle.terms import Terms


def with_time(life: NodeLife, now: Now, terms: Terms) -> NodeLife:
    """Return the life as it is now."""
    life = _unseen_for_long(life, now, terms)
    course = life.effort.course
    if course is None or now.monotonic_s - course.sent_s < time_out_s(course, terms):
        return life
    return _timed_out(life, course, now, terms)


def time_out_s(course: Course, terms: Terms) -> float:
    """Return after how long [s] the order counts as not followed."""
    steps = steps_to(course.order, course.was, terms)
    return next((each.time_out_s for each in steps if (each.order, each.way) == (course.order, course.way)), 0.0)


def _timed_out(life: NodeLife, course: Course, now: Now, terms: Terms) -> NodeLife:
    wish, seen = life.wish, life.seen
    if wish is None or (wish.order is Order.ON) is not (course.order is Order.ON):
        # It was for another wish than the present one: nothing has failed.
        return replace(life, effort=replace(life.effort, course=None, step=0))
    reason = f"{course.order} was not followed within {now.monotonic_s - course.sent_s:.0f} s"
    if seen.state is NodeState.UNKNOWN:
        return with_failure(life, f"{reason}; {seen.trouble}", now, terms, ours=True)
    if course.order is Order.ON and seen.state is NodeState.BOOTING:
        return hung(life, reason, now)
    return with_next_step(life, course, reason, terms) or with_failure(life, reason, now, terms, ours=False)


def _unseen_for_long(life: NodeLife, now: Now, terms: Terms) -> NodeLife:
    since_s = life.seen.unknown_since_s
    if life.fault is not None or since_s is None or now.monotonic_s - since_s < terms.conduct.unseen_s:
        return life
    hint = f"try: offpeak check {life.node}"
    return replace(life, fault=Fault(SILENT, life.seen.trouble, hint, True, now.unix_s))
