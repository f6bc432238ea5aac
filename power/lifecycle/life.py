"""What is known of a node's power, what is wanted of it, and what is being done about the difference. Only values.

Two clocks: what people read is Unix time [s]; what is waited for is measured by the monotonic clock [s], which nobody
can set back.
"""

from dataclasses import dataclass
from enum import StrEnum

from offpeak.door.effect import Hold, Refusal
from power.drivers.port import Order

SOMEBODY = "unknown"


class NodeState(StrEnum):
    """What a node is seen to be. UNKNOWN means hands off."""

    ON = "on"
    BOOTING = "booting"
    GOING_DOWN = "going down"
    STANDBY = "standby"
    OFF = "off"
    UNKNOWN = "unknown"


ASLEEP = frozenset({NodeState.STANDBY, NodeState.OFF})
SETTLED = ASLEEP | {NodeState.ON}


class Word(StrEnum):
    """What the scheduler says of a node. BUSY: a job holds it. UP: jobs may start there at any time."""

    UP = "up"
    BUSY = "busy"
    DRAINED = "drained"
    BOOTS = "boots"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks."""

    monotonic_s: float
    unix_s: float


@dataclass(frozen=True, slots=True)
class Wish:
    """What a node is to be: where `order` leads; who wants it ("offpeak", "admin NAME"), since when, and why."""

    order: Order
    by: str
    since_unix_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the operator has the node now. `ours`: our way to it was the trouble, so it is tried again later."""

    what: str
    reason: str
    hint: str
    ours: bool
    since_unix_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The latest look. `known` is the last state that a node can stay in; `by` who brought it there.

    `at_s` and `unknown_since_s` are monotonic. `silent_in_row`: so many looks in a row nothing but standby was seen.
    """

    state: NodeState = NodeState.UNKNOWN
    at_unix_s: float = 0.0
    at_s: float = 0.0
    since_unix_s: float = 0.0
    by: str = SOMEBODY
    known: NodeState | None = None
    trouble: str = ""
    unknown_since_s: float | None = None
    watts: float | None = None
    silent_in_row: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """An accepted order that is not seen to be followed yet; `sent_s` is the monotonic time of the last sending.

    `sent` counts sendings, `was` is the state in which the node was then.
    """

    order: Order
    way: str
    by: str
    sent_s: float
    sent: int
    was: NodeState


@dataclass(frozen=True, slots=True)
class Sent:
    """The last order that has not had its effect: a change that it explains, however late, is nobody else's.

    `clear`: it was the only one, so its effect tells how long such a change takes.
    """

    order: Order
    by: str
    at_s: float
    was: NodeState
    clear: bool


@dataclass(frozen=True, slots=True)
class Effort:
    """What was done for the wish so far. `step` counts the ways tried, `tries` the times that all of them failed."""

    course: Course | None = None
    step: int = 0
    tries: int = 0
    next_try_s: float = 0.0
    refusal: Refusal | None = None
    refusals: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Took:
    """How long a change took that is certain: "boot", "resume", "shutdown" or "suspend"."""

    change: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeLife:
    """All of one node. `surprises` are the monotonic times of changes that nobody here ordered."""

    node: str
    wish: Wish | None = None
    seen: Seen = Seen()
    word: Word | None = None
    effort: Effort = Effort()
    sent: Sent | None = None
    fault: Fault | None = None
    hold: Hold | None = None
    surprises: tuple[float, ...] = ()
    hands_off_until_s: float = 0.0
    took: Took | None = None


def is_goal(order: Order, state: NodeState) -> bool:
    """Whether a node in that state is where the order leads: one that sleeps deeper than asked is asleep too."""
    return state is NodeState.ON if order is Order.ON else state in ASLEEP
