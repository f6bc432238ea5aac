"""What may happen to a node's life."""

from dataclasses import dataclass

from offpeak.door.effect import Hold, Outcome, Refusal
from offpeak.errors import DeviceError
from power.drivers.port import Observed, Order, PowerState
from power.lifecycle.life import Wish, Word


@dataclass(frozen=True, slots=True)
class Looked:
    """What its BMC says; where standby is in play, whether the node itself answers, and what it draws [W].

    None is what was not asked or not told.
    """

    observed: Observed
    answers: bool | None = None
    watts: float | None = None

    @property
    def power(self) -> PowerState:
        """Whether it has power."""
        return self.observed.state

    @property
    def trouble(self) -> DeviceError | None:
        """Why that is not known."""
        return self.observed.trouble


@dataclass(frozen=True, slots=True)
class Said:
    """The scheduler's word, None where it has none."""

    word: Word | None


@dataclass(frozen=True, slots=True)
class Wished:
    """Somebody wants it otherwise, or with None: nobody wants anything of it any more."""

    wish: Wish | None


@dataclass(frozen=True, slots=True)
class Ordered:
    """The door's answer to an order. `by` is who ordered; it may have been another program, whose journal told."""

    order: Order
    way: str
    by: str
    answer: Outcome | Refusal


@dataclass(frozen=True, slots=True)
class Held:
    """An admin took it, or with None: let it go."""

    hold: Hold | None


@dataclass(frozen=True, slots=True)
class Released:
    """An admin gives it back: hold, fault and failures are forgotten."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Nothing but time has passed."""


Event = Looked | Said | Wished | Ordered | Held | Released | Passed
