"""The values that the agent publishes: the status of a cycle for commands, and the snapshot for page and metrics.

Both travel over the socket as JSON. Times are Unix seconds, money is in the currency beside it, None means not known.
The snapshot adds each node and each price to the status; the agent makes it on request only.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

NO_SCHEDULER = "the scheduler has not been read yet"


@dataclass(frozen=True)
class PriceStatus:
    """What electricity costs now, in `unit` ("EUR/MWh"); `basis` says who says so. It holds `until_unix_s`."""

    now: float | None
    unit: str
    basis: str
    on_peak: bool | None = None
    until_unix_s: float | None = None


@dataclass(frozen=True)
class NodeCounts:
    """How many nodes are in which state, and what those that are measured draw together."""

    counts: tuple[tuple[str, int], ...] = ()
    watts: float | None = None


@dataclass(frozen=True)
class SavingStatus:
    """What was saved since midnight, against what it would have been without us; `basis` says how that is known."""

    energy_j: float | None = None
    cost: float | None = None
    currency: str = ""
    basis: str = ""


@dataclass(frozen=True)
class JobStatus:
    """One job: its place among the `of` jobs that compete with it, counted from 1, and what that rests on.

    `state` is the scheduler's own word. `latest_start_unix_s` bounds the begin time that the agent sets, not the start.
    `moved` is "up 3", "down 2", or "" where it stands as the scheduler put it. `expected_saving` is of the whole job.
    """

    job_id: str
    user: str
    partition: str
    state: str
    nodes: int
    place: int | None
    of: int
    watts_per_node: float | None
    why: str
    would_start_unix_s: float | None = None
    latest_start_unix_s: float | None = None
    expected_saving: float | None = None
    currency: str = ""
    moved: str = ""
    opted_out: bool = False


@dataclass(frozen=True)
class StatusReply:
    """All that the agent says of one cycle; the next one follows after `cycle_s`.

    `now_unix_s` is the agent's clock when it was asked; `clock_factor` of its seconds pass in a real one.
    `first_round_until_unix_s` is set while the first round of the queue is under way: if it lasts longer, it hangs.
    `has_looked`: a round of the queue has succeeded, and `at_unix_s` is of the latest one; else it is the present.
    """

    at_unix_s: float
    mode: str
    cluster: str
    scheduler: str
    cycle_s: int
    price: PriceStatus
    nodes: NodeCounts = NodeCounts()
    saved_today: SavingStatus = SavingStatus()
    jobs: tuple[JobStatus, ...] = ()
    troubles: tuple[str, ...] = ()
    now_unix_s: float | None = None
    clock_factor: float = 1.0
    first_round_until_unix_s: float | None = None
    has_looked: bool = True

    def seen_by(self, user: str | None) -> "StatusReply":
        """Return what that user may see: the own jobs, and totals; None may see everything."""
        if user is None:
            return self
        return replace(self, jobs=tuple(job for job in self.jobs if job.user == user), troubles=())


def status_json(published: StatusReply) -> Any:
    """Return it as objects, lists, numbers and texts that JSON knows."""
    return _shape().dump_python(published, mode="json")


def parse_status(said: object) -> StatusReply:
    """Return what `status_json` made of it, unknown keys left out; ValueError if it is something else."""
    # JSON knows lists only, where these are tuples.
    return _shape().validate_python(said)  # type: ignore[no-any-return]


@cache
def _shape() -> Any:
    # Slow to import: who only asks for the version must not wait for it.
    from pydantic import TypeAdapter

    return TypeAdapter(StatusReply)


class NodeStatus(NamedTuple):
    """One node: what it is and is wanted to be, since when, by whom and why, and what the scheduler says of it.

    `watts` is what it draws, `measured` or by its class; `idle_watts` what its class draws when it is on and runs
    nothing.
    """

    node: str
    state: str
    word: str
    desired: str
    watts: float | None
    measured: bool
    idle_watts: float | None
    since_unix_s: float
    by: str
    why: str
    held: bool


class PriceSlot(NamedTuple):
    """The price of an interval from an instant on; between `low` and `high` four of five forecasts come true."""

    from_unix_s: int
    price: float | None
    low: float | None
    high: float | None
    on_peak: bool | None
    basis: str


class ForecastError(NamedTuple):
    """How wrong a forecast was of late: mean absolute error, of so many outcomes that it had answered before."""

    about: str
    unit: str
    mae: float
    outcomes: int


@dataclass(frozen=True)
class StatusSnapshot:
    """All of one instant. The prices end at `prices_until_unix_s`; the day and month began on the clock of `zone`.

    `jobs_left_out`: those whom this is for have seen the jobs of this look already.
    """

    published: StatusReply
    zone: str
    day_unix_s: float
    month_unix_s: float
    job_counts: tuple[tuple[str, int], ...] = ()
    slots: tuple[PriceSlot, ...] = ()
    prices_until_unix_s: int | None = None
    nodes: tuple[NodeStatus, ...] = ()
    errors: tuple[ForecastError, ...] = ()
    jobs_left_out: bool = False


def snapshot_json(picture: StatusSnapshot) -> dict[str, Any]:
    """Return it as objects, lists, numbers and texts that JSON knows; a node, slot or error is a list of its fields."""
    rest = {name: value for name, value in vars(picture).items() if name not in ("published", "nodes", "slots")}
    fields = {
        "node_fields": NodeStatus._fields,
        "slot_fields": PriceSlot._fields,
        "error_fields": ForecastError._fields,
    }
    said = status_json(picture.published)
    return {"published": said, "nodes": picture.nodes, "slots": picture.slots, **rest, **fields}
