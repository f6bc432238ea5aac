"""What is due of a node now: an order, or nothing and why. Whether it is given, the door decides."""

from dataclasses import dataclass

from offpeak.door.effect import ADMIN, US
from power.drivers.port import Order
from power.lifecycle.ladder import Step, steps_to
from power.lifecycle.life import ASLEEP, Course, NodeLife, NodeState, Now, Wish, Word, is_goal
from power.lifecycle.passed import time_out_s
from power.lifecycle.terms import Terms


@dataclass(frozen=True, slots=True)
class Due:
    """An order that is due, by which way, who wants it, and why."""

    order: Order
    way: str
    by: str
    why: str


def due(life: NodeLife, now: Now, terms: Terms) -> Due | None:
    """Return what is to be ordered now, None for nothing: never of a node whose state is not known."""
    wish = life.wish
    if wish is None or stands_in_the_way(life, now):
        return None
    course = life.effort.course
    if course is not None:
        return _again(life, course, now, terms)
    steps = _steps(life, wish, terms)
    if not steps:
        return None
    step = steps[min(life.effort.step, len(steps) - 1)]
    return Due(step.order, step.way, wish.by, wish.why)


def stands_in_the_way(life: NodeLife, now: Now) -> str:
    """Return why nothing is done for the wish, in words; "" where something may be."""
    wish = life.wish
    if wish is None or is_goal(wish.order, life.seen.state):
        return "nothing is wanted of it" if wish is None else "it is as it is wanted"
    return _a_hand_on_it(life, wish, now) or _its_state(life, wish) or _a_pause(life, now)


def fault_of(life: NodeLife) -> str:
    """Return why the operator has the node, "" if nobody does, or if it is tried again since the fault was ours."""
    fault = life.fault
    return "" if fault is None or fault.ours else f"{fault.what}: {fault.reason}"


def _a_hand_on_it(life: NodeLife, wish: Wish, now: Now) -> str:
    hold = life.hold
    if hold is not None and hold.lasts(now.unix_s) and wish.by != f"{ADMIN}{hold.owner}":
        return f"held by {hold.owner}: {hold.reason}"
    if why := fault_of(life):
        return why
    if wish.by == US and now.monotonic_s < life.hands_off_until_s:
        return "somebody else changed it: hands off for a while"
    return ""


def _its_state(life: NodeLife, wish: Wish) -> str:
    if life.seen.state is NodeState.UNKNOWN:
        return f"its state is not known: {life.seen.trouble}" if life.seen.trouble else "it was not seen yet"
    if wish.order is not Order.ON and life.word is Word.BUSY:
        return "a job runs there"
    return ""


def _a_pause(life: NodeLife, now: Now) -> str:
    effort = life.effort
    if now.monotonic_s >= effort.next_try_s:
        return ""
    if effort.refusal is not None:
        return f"the door refused it ({effort.refusal.rule}): {effort.refusal.said}"
    return f"tried {effort.tries} times, then a pause: {effort.said}"


def _again(life: NodeLife, course: Course, now: Now, terms: Terms) -> Due | None:
    """Return the ON that is sent once more: some BMCs accept it while the node still shuts down, and forget it."""
    wish = life.wish
    if wish is None or wish.order is not Order.ON or course.order is not Order.ON or course.sent > 1:
        return None
    early = now.monotonic_s - course.sent_s < time_out_s(course, terms) / 2
    if early or life.seen.state not in ASLEEP:
        return None
    return Due(Order.ON, course.way, wish.by, f"{wish.why}; once more, as nothing came of the first")


def _steps(life: NodeLife, wish: Wish, terms: Terms) -> tuple[Step, ...]:
    state = life.seen.state
    if wish.order is Order.ON:
        return steps_to(Order.ON, state, terms)
    return steps_to(wish.order, state, terms) if state is NodeState.ON else ()
