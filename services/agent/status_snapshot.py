"""The values that the agent publishes: the status of a cycle for commands, and the snapshot for page and metrics.

Each loop of the agent builds its part. Both values travel over the socket as JSON, and commands and page parse them
into the same types. Times are Unix seconds, money is in the currency beside it, None means not known. The snapshot adds
each node and each price to the status; the agent makes it on request only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

NO_SCHEDULER = "the scheduler has not been read yet"


@dataclass(frozen=True)
class PriceStatus:
    """The present price of electricity in `unit` ("EUR/MWh"), with its source in `basis`. It holds `until_unix_s`."""

    now: float | None
    unit: str
    basis: str
    on_peak: bool | None = None
    until_unix_s: float | None = None


@dataclass(frozen=True)
class NodeCounts:
    """The number of nodes in each state, and the total power of the nodes that are measured."""

    counts: tuple[tuple[str, int], ...] = ()
    watts: float | None = None


@dataclass(frozen=True)
class SavingStatus:
    """The saving since midnight, compared with all nodes on; `basis` says how much of it was measured."""

    energy_j: float | None = None
    cost: float | None = None
    currency: str = ""
    basis: str = ""


@dataclass(frozen=True)
class JobStatus:
    """A job: its place among the `of` jobs of its resource pool, counted from 1, and the reasons for it.

    `state` is the scheduler's name of it. `latest_start_unix_s` bounds the begin time that the agent sets, not the
    start. `moved` is "up 3", "down 2", or "" if the agent did not move it. `expected_saving` is of the whole job.
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
    """The status of one cycle; the next one follows after `cycle_s`.

    `now_unix_s` is the agent's clock at the request; `clock_factor` of its seconds pass in a real one.
    `first_round_until_unix_s` is set while the first round of the queue is under way: if it lasts longer, it is stuck.
    `has_looked`: a round of the queue has succeeded, and `at_unix_s` is that of the latest one; else it is the present.
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
    problems: tuple[str, ...] = ()
    now_unix_s: float | None = None
    clock_factor: float = 1.0
    first_round_until_unix_s: float | None = None
    has_looked: bool = True

    def seen_by(self, user: str | None) -> "StatusReply":
        """Return what that user may see: their own jobs, and totals; None may see everything."""
        if user is None:
            return self
        return replace(self, jobs=tuple(job for job in self.jobs if job.user == user), problems=())


def status_json(status: StatusReply) -> Any:
    """Return the status as JSON objects, lists, numbers and texts."""
    return _status_type().dump_python(status, mode="json", by_alias=True)


def parse_status(reply: object) -> StatusReply:
    """Return the status of `status_json` without unknown keys. ValueError if it is something else."""
    # JSON has lists only, where these are tuples.
    return _status_type().validate_python(reply)  # type: ignore[no-any-return]


@cache
def _status_type() -> Any:
    # pydantic is slow to import: `offpeak --version` does without it.
    from pydantic import ConfigDict, TypeAdapter, with_config

    json_keys = ConfigDict(alias_generator=lambda name: "troubles" if name == "problems" else name)
    return TypeAdapter(with_config(json_keys)(StatusReply))


class NodeStatus(NamedTuple):
    """A node: its observed and its desired state, since when, by whom and why, and its state in the scheduler (`word`).

    `watts` is its power, `measured` or by its class; `idle_watts` is the power of its class when it is on and idle.
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
    """The price of an interval; four of five outcomes are between `low` and `high`."""

    from_unix_s: int
    price: float | None
    low: float | None
    high: float | None
    on_peak: bool | None
    basis: str


class ForecastError(NamedTuple):
    """The mean absolute error of a recent forecast, over so many outcomes."""

    about: str
    unit: str
    mae: float
    outcomes: int


@dataclass(frozen=True)
class StatusSnapshot:
    """The site at one moment. The prices end at `prices_until_unix_s`; day and month began on the clock of `zone`.

    `jobs_left_out`: the caller has the jobs of this cycle already.
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


_ROWS: tuple[tuple[str, str, Any], ...] = (
    ("nodes", "node_fields", NodeStatus),
    ("slots", "slot_fields", PriceSlot),
    ("errors", "error_fields", ForecastError),
)
"""The keys of rows, the keys of the names of their fields, and their types."""


def snapshot_json(snapshot: StatusSnapshot) -> dict[str, Any]:
    """Return the snapshot as JSON objects, lists, numbers and texts; a node, slot or error is a list of its fields."""
    names = {key: row._fields for _, key, row in _ROWS}
    return {**vars(snapshot), "published": status_json(snapshot.published), **names}


def parse_snapshot(reply: object) -> StatusSnapshot:
    """Return the snapshot of `snapshot_json` without unknown keys and fields. ValueError if it is something else."""
    try:
        values: dict[str, Any] = {each.name: reply[each.name] for each in fields(StatusSnapshot)}  # type: ignore[index]
        for key, names, row in _ROWS:
            values[key] = tuple(map(row._make, _columns(values[key], reply[names], row._fields)))  # type: ignore[index]
        values["job_counts"] = tuple((state, count) for state, count in values["job_counts"])
        values["published"] = parse_status(values["published"])
        return StatusSnapshot(**values)
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no snapshot: {problem}") from None


def _columns(rows: list[list[Any]], names: list[str], wanted: tuple[str, ...]) -> Iterable[Sequence[Any]]:
    """Return the wanted columns of rows in their order."""
    if tuple(names) == wanted:
        return rows
    at = [names.index(name) for name in wanted]
    return ([row[column] for column in at] for row in rows)
