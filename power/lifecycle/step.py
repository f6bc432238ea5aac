"""The state machine: a node's life and one event give its life after it. Nothing else changes one."""

from dataclasses import replace

from offpeak.door.effect import US
from power.lifecycle.answered import with_answer
from power.lifecycle.events import Event, Held, Looked, Ordered, Passed, Released, Said, Wished
from power.lifecycle.life import Effort, NodeLife, Now, Wish
from power.lifecycle.looked import with_looked
from power.lifecycle.passed import with_time
from power.lifecycle.terms import Terms


def step(life: NodeLife, event: Event, now: Now, terms: Terms) -> NodeLife:
    """Return the life after the event. Both clocks are handed in; only texts for people use the one of the wall."""
    match event:
        case Looked():
            return with_looked(life, event, now, terms)
        case Passed():
            return with_time(life, now, terms)
        case Ordered():
            return with_answer(life, event, now, terms)
        case Said(word):
            return life if word is life.word else replace(life, word=word)
        case Wished(wish):
            return _with_wish(life, wish)
        case Held(hold):
            return replace(life, hold=hold)
        case Released():
            return _released(life)


def _with_wish(life: NodeLife, wish: Wish | None) -> NodeLife:
    """Return the life with another wish; the same one again leaves all as it is."""
    before = life.wish
    if before is not None and wish is not None and (before.order, before.by) == (wish.order, wish.by):
        return life
    # What an admin orders is tried anew, whatever failed before.
    fault = life.fault if wish is None or wish.by == US else None
    return replace(life, wish=wish, fault=fault, effort=Effort(course=life.effort.course))


def _released(life: NodeLife) -> NodeLife:
    effort = Effort(course=life.effort.course)
    return replace(life, hold=None, fault=None, effort=effort, surprises=(), hands_off_until_s=0.0)
