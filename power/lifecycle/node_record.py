"""The record of a node's power: desired state, observed state, orders, faults, and the events that change the record.

There are two clocks: times for people are Unix time [s]; waiting times use the monotonic clock [s].

A record is stored as JSON for the next start of a program. Its monotonic times are stored as seconds relative to the
moment of writing. The pause does not count: a wait starts again, whatever the clocks did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol

from offpeak.door.effect import Hold, Outcome, Refusal
from offpeak.door.journal import Journal
from offpeak.errors import DeviceError
from offpeak.ledger.rows import NodeStateRecord
from offpeak.model.node_states import DEPTH_OF_STATE
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.drivers.port import PowerObservation

if TYPE_CHECKING:
    from pydantic import TypeAdapter

UNKNOWN_CAUSE = "unknown"


ASLEEP = frozenset(DEPTH_OF_STATE)
SETTLED = ASLEEP | {NodeState.ON}


LEAST_STEP_S = 5
"""A clock that gains or loses no more than this is not set, but runs a little faster or slower."""

STORED_NAMES = {
    "desired": "wish",
    "observed": "seen",
    "scheduler_state": "word",
    "attempts": "effort",
    "pending": "course",
    "failure": "said",
    "message": "said",
    "problem": "trouble",
    "measured": "took",
    "paused_until_s": "hands_off_until_s",
}
"""Fields whose names in the stored JSON differ: records of an earlier version stay readable."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One instant on both clocks."""

    monotonic_s: float
    unix_s: float

    def stepped_s(self, before: "Instant") -> int:
        """Return by how much the clock was set forward since an earlier instant [s], below 0 for back."""
        step_s = round(self.unix_s - before.unix_s - (self.monotonic_s - before.monotonic_s))
        return step_s if abs(step_s) > LEAST_STEP_S else 0


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of a node: the result of `order`; its owner ("offpeak", "admin NAME"), since when, and why."""

    order: NodeOrder
    by: str
    since_unix_s: float
    why: str

    @classmethod
    def from_now(cls, order: NodeOrder, by: str, why: str, now: Instant) -> "DesiredState":
        """Return the state that is desired from now on."""
        return cls(order, by, now.unix_s, why)

    def is_met_by(self, state: NodeState) -> bool:
        """Whether a node in that state has reached the result of the order."""
        return is_goal(self.order, state)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault for the operator. `ours`: the connection to the BMC failed, so the agent tries again later."""

    what: str
    reason: str
    hint: str
    ours: bool
    since_unix_s: float


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The result of the latest poll. `known` is the last stable state, `by` is what caused it. `problem` is why the
    state is unknown, or why a node that answers is not up.

    `at_s` and `unknown_since_s` are monotonic. `silent_in_row` counts the latest polls that match nothing but standby.
    `goes_down`: the node itself said in the latest poll that it is about to shut down or to suspend.
    """

    state: NodeState = NodeState.UNKNOWN
    at_unix_s: float = 0.0
    at_s: float = 0.0
    since_unix_s: float = 0.0
    by: str = UNKNOWN_CAUSE
    known: NodeState | None = None
    problem: str = ""
    unknown_since_s: float | None = None
    watts: float | None = None
    silent_in_row: int = 0
    goes_down: bool = False

    @property
    def cause(self) -> str:
        """What caused the present state."""
        return UNKNOWN_CAUSE if self.state is NodeState.UNKNOWN else self.by

    @property
    def is_incomplete(self) -> bool:
        """Whether the node answers and lacks a GPU, so that it is not up."""
        return self.state is NodeState.BOOTING and bool(self.problem)


@dataclass(frozen=True, slots=True)
class PendingOrder:
    """An accepted order that the node has not followed yet; `sent_s` is the monotonic time of the last sending.

    `sent` counts sendings, `was` is the state in which the node was then.
    """

    order: NodeOrder
    way: str
    by: str
    sent_s: float
    sent: int
    was: NodeState


@dataclass(frozen=True, slots=True)
class SentOrder:
    """The last order without an effect so far. A change that it explains, however late, is attributed to it.

    `clear`: it is the only order, so that its effect measures how long such a change takes. `at_unix_s` is when it was
    sent by the clock that was valid then.
    """

    order: NodeOrder
    by: str
    at_s: float
    was: NodeState
    clear: bool
    at_unix_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts to reach the desired state. `step` counts the steps tried, `tries` how often all of them failed."""

    pending: PendingOrder | None = None
    step: int = 0
    tries: int = 0
    next_try_s: float = 0.0
    refusal: Refusal | None = None
    refusals: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredDuration:
    """The measured duration of a change: "boot", "resume", "shutdown" or "suspend"."""

    change: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The record of a node. `surprises` are the monotonic times of changes that no order explains."""

    node: str
    desired: DesiredState | None = None
    observed: ObservedState = ObservedState()
    scheduler_state: SchedulerState | None = None
    attempts: Attempts = Attempts()
    sent: SentOrder | None = None
    fault: Fault | None = None
    hold: Hold | None = None
    surprises: tuple[float, ...] = ()
    paused_until_s: float = 0.0
    measured: MeasuredDuration | None = None


def sleep_order_of(record: NodeRecord) -> SentOrder | None:
    """Return the order to sleep that was sent and has had no effect so far, None if there is none."""
    return None if record.sent is None or record.sent.order is NodeOrder.ON else record.sent


def is_goal(order: NodeOrder, state: NodeState) -> bool:
    """Whether the order leads to that state. A node that sleeps deeper than requested is asleep, too."""
    return state is NodeState.ON if order is NodeOrder.ON else state in ASLEEP


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """One poll of a node: the BMC's reply, and for a node that may be in standby, comes up, or was ordered to sleep,
    the reply by ssh, its power [W], how many of its GPUs answer, and whether its operating system is about to sleep.

    None stands for a source that was not polled or did not reply.
    """

    bmc: PowerObservation
    answers: bool | None = None
    watts: float | None = None
    gpus: int | None = None
    goes_down: bool | None = None

    @property
    def power(self) -> PowerState:
        """Whether it has power."""
        return self.bmc.state

    @property
    def problem(self) -> DeviceError | None:
        """Why that is not known."""
        return self.bmc.error


@dataclass(frozen=True, slots=True)
class SchedulerReport:
    """The state in the scheduler, None if unknown."""

    state: SchedulerState | None


@dataclass(frozen=True, slots=True)
class DesiredStateChange:
    """Another state is desired, or with None: no state is desired any more."""

    desired: DesiredState | None


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """The door's answer to an order. `by` gave the order; it may be another program, known from its journal."""

    order: NodeOrder
    way: str
    by: str
    answer: Outcome | Refusal


@dataclass(frozen=True, slots=True)
class HoldChange:
    """An admin holds the node, or with None: has released it."""

    hold: Hold | None


@dataclass(frozen=True, slots=True)
class Release:
    """An admin releases the node: hold, fault and failures are cleared."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Somebody has opened the node to jobs although it may still follow an order to sleep: that is forgotten."""


@dataclass(frozen=True, slots=True)
class WakesElsewhere:
    """Another program wakes the node for the scheduler, because the agent cannot promise to."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed without another event."""


Event = (
    NodeObservation
    | SchedulerReport
    | DesiredStateChange
    | OrderAnswer
    | HoldChange
    | Release
    | Opened
    | WakesElsewhere
    | TimePassed
)


class StateLedger(Journal, Protocol):
    """The door's journal, and beside it states and holds. Every call may raise CannotWrite."""

    def write_states(self, states: Sequence[NodeStateRecord]) -> None:
        """Write the changed states of nodes."""

    def latest(self) -> Mapping[str, NodeStateRecord]:
        """Return the last written state of every node."""

    def hold(self, node: str, hold: Hold, at_unix_s: float) -> None:
        """Hold a node; a hold of the same owner is replaced. Raises BadInput if another owner holds it."""

    def release(self, node: str, by: str, at_unix_s: float, *, take_over: bool = False) -> Hold | None:
        """End the hold of a node and return it, None if there was none. Raises BadInput if only `take_over` ends it."""

    def holds(self, at_unix_s: float) -> Mapping[str, Hold]:
        """Return the holds that are neither released nor over, by node."""


def make_state_row(record: NodeRecord, now: Instant) -> NodeStateRecord:
    """Return the row of the ledger for a record."""
    desired, fault, hold, refusal = record.desired, record.fault, record.hold, record.attempts.refusal
    held = f"held by {hold.owner}: {hold.reason}" if hold and hold.lasts(now.unix_s) else ""
    # A refusal because of the hold repeats the hold.
    is_refused = refusal is not None and not (held and refusal.rule == "held")
    reasons = [
        f"{fault.what}: {fault.reason}; {fault.hint}" if fault else "",
        held,
        f"refused ({refusal.rule}): {refusal.message}" if refusal and is_refused else "",
        f"{desired.by}: {desired.why}" if desired else "",
    ]
    order = str(desired.order) if desired else ""
    why = "; ".join(each for each in reasons if each)
    return NodeStateRecord(record.node, now.unix_s, str(record.observed.state), order, record.observed.cause, why)


def restore_record(node: str, recorded: NodeStateRecord | None, hold: Hold | None) -> NodeRecord:
    """Return the record of a node from the ledger: its hold, and its last state, so that standby is recognized."""
    if recorded is None:
        return NodeRecord(node, hold=hold)
    state = NodeState(recorded.observed)
    known = state if state in SETTLED else None
    at_unix_s = recorded.at_unix_s
    observed = ObservedState(state, at_unix_s, since_unix_s=at_unix_s, by=recorded.by, known=known)
    return NodeRecord(node, observed=observed, hold=hold)


def record_to_json(record: NodeRecord, *, monotonic_s: float) -> str:
    """Return the record in the format of `record_from_json`."""
    return _record_adapter().dump_json(_shift_times(record, -monotonic_s), by_alias=True).decode()


def record_from_json(text: str, *, monotonic_s: float) -> NodeRecord:
    """Return the record that `record_to_json` wrote. Raises pydantic's ValidationError for other text.

    The duration of a change that was interrupted by the pause is not measured.
    """
    record = _shift_times(_record_adapter().validate_json(text), monotonic_s)
    return record if record.sent is None else replace(record, sent=replace(record.sent, clear=False))


def _shift_times(record: NodeRecord, by_s: float) -> NodeRecord:
    attempts = record.attempts
    pending = attempts.pending and replace(attempts.pending, sent_s=attempts.pending.sent_s + by_s)
    return replace(
        record,
        observed=_shift_observed_state(record.observed, by_s),
        attempts=replace(attempts, pending=pending, next_try_s=attempts.next_try_s + by_s),
        sent=record.sent and replace(record.sent, at_s=record.sent.at_s + by_s),
        surprises=tuple(at_s + by_s for at_s in record.surprises),
        paused_until_s=record.paused_until_s + by_s,
    )


def _shift_observed_state(observed: ObservedState, by_s: float) -> ObservedState:
    since_s = observed.unknown_since_s
    return replace(observed, at_s=observed.at_s + by_s, unknown_since_s=None if since_s is None else since_s + by_s)


@cache
def _record_adapter() -> "TypeAdapter[NodeRecord]":
    # Half of the time that `offpeak --version` may take.
    from pydantic import ConfigDict, TypeAdapter, with_config

    stored_names = ConfigDict(alias_generator=lambda name: STORED_NAMES.get(name, name))
    return TypeAdapter(with_config(stored_names)(NodeRecord))
