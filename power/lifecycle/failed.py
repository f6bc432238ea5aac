"""What a failure does to a node's life: another way, a pause that grows, and in the end the operator has the node."""

from dataclasses import replace

from power.drivers.port import Order
from power.lifecycle.ladder import steps_to
from power.lifecycle.life import Course, Fault, NodeLife, Now
from power.lifecycle.terms import Terms

NOT_UP, NOT_DOWN, NOT_REACHED = "does not come up", "does not go down", "takes no orders"


def with_next_step(life: NodeLife, course: Course, reason: str, terms: Terms) -> NodeLife | None:
    """Return the life before its next step, None if there is no other after the one that has failed."""
    effort = life.effort
    if life.wish is None or effort.step + 1 >= len(steps_to(life.wish.order, course.was, terms)):
        return None
    return replace(life, effort=replace(effort, course=None, step=effort.step + 1, said=reason))


def with_failure(life: NodeLife, reason: str, now: Now, terms: Terms, *, ours: bool) -> NodeLife:
    """Return the life after all steps to its wish have failed once more."""
    conduct, tries = terms.conduct, life.effort.tries + 1
    pause_s = min(conduct.first_pause_s * 2.0 ** (tries - 1), conduct.longest_pause_s)
    fault = life.fault
    if tries >= conduct.tries:
        tries, pause_s = conduct.tries, conduct.ours_again_s
        fault = _fault(life, reason, now, ours)
    next_try_s = now.monotonic_s + terms.spread(pause_s)
    effort = replace(
        life.effort, course=None, step=0, tries=tries, next_try_s=next_try_s, refusal=None, refusals=0, said=reason
    )
    return replace(life, effort=effort, fault=fault)


def handed_over(life: NodeLife, reason: str, hint: str, now: Now) -> NodeLife:
    """Return the life of a node that refused the login, or is another than was enrolled: nobody tries that again."""
    fault = Fault(NOT_REACHED, reason, hint or f"offpeak check {life.node}", False, now.unix_s)
    return replace(life, fault=fault, effort=replace(life.effort, course=None, step=0, said=reason))


def hung(life: NodeLife, reason: str, now: Now) -> NodeLife:
    """Return the life of a node that has power and does not come up: no order that we have would help it."""
    fault = Fault(NOT_UP, f"it has power, but {reason}", _at_console(life), False, now.unix_s)
    return replace(life, fault=fault, effort=replace(life.effort, course=None, step=0, said=reason))


def _at_console(life: NodeLife) -> str:
    return f"look at its console; when it is mended: offpeak node {life.node} release"


def _fault(life: NodeLife, reason: str, now: Now, ours: bool) -> Fault:
    up = life.wish is not None and life.wish.order is Order.ON
    if ours:
        what, hint = NOT_REACHED, f"is its BMC well? try: offpeak check {life.node}"
    else:
        what = NOT_UP if up else NOT_DOWN
        hint = _at_console(life)
    since_unix_s = life.fault.since_unix_s if life.fault is not None and life.fault.what == what else now.unix_s
    return Fault(what, reason, hint, ours, since_unix_s)
