"""A node's life as JSON, for a program that starts anew. Its monotonic times are kept as seconds from then.

The time in between does not count: what was waited for is waited for as long again, whatever the clocks did.
"""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from power.lifecycle.life import Effort, NodeLife, Seen

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def to_json(life: NodeLife, *, monotonic_s: float) -> str:
    """Return the life as `from_json` takes it."""
    return _shape().dump_json(_moved(life, -monotonic_s)).decode()


def from_json(text: str, *, monotonic_s: float) -> NodeLife:
    """Return the life that `to_json` wrote; pydantic's ValidationError if it is none.

    It teaches no duration that the pause was in the middle of.
    """
    life = _moved(_shape().validate_json(text), monotonic_s)
    return life if life.sent is None else replace(life, sent=replace(life.sent, clear=False))


def _moved(life: NodeLife, by_s: float) -> NodeLife:
    return replace(
        life,
        seen=_moved_look(life.seen, by_s),
        effort=_moved_effort(life.effort, by_s),
        sent=life.sent and replace(life.sent, at_s=life.sent.at_s + by_s),
        surprises=tuple(at_s + by_s for at_s in life.surprises),
        hands_off_until_s=life.hands_off_until_s + by_s,
    )


def _moved_look(seen: Seen, by_s: float) -> Seen:
    since_s = seen.unknown_since_s
    return replace(seen, at_s=seen.at_s + by_s, unknown_since_s=None if since_s is None else since_s + by_s)


def _moved_effort(effort: Effort, by_s: float) -> Effort:
    course = effort.course and replace(effort.course, sent_s=effort.course.sent_s + by_s)
    return replace(effort, course=course, next_try_s=effort.next_try_s + by_s)


@cache
def _shape() -> "TypeAdapter[NodeLife]":
    # Half of the time that `offpeak --version` may take.
    from pydantic import TypeAdapter

    return TypeAdapter(NodeLife)
