"""The status that the agent publishes, and the client of the agent's socket: one line out, one line back.

Commands fetch the status of a cycle; page and metrics fetch the snapshot, which adds each node and each price, and
which the agent makes on request only. Each loop of the agent builds its part. Both values travel as JSON, and are
parsed into the same types. Times are Unix seconds, money is in the currency beside it, None means not known. This
module imports little, because commands start with it.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from offpeak.door.journal import LeaseState
from offpeak.errors import BadInput, OffpeakError
from offpeak.power.meters.port import RemoteWriteCounts
from offpeak.services.accounts.account_of_savings import NO_SAVINGS, NO_SHADOW, DemandSaving, SavingsAccount

if TYPE_CHECKING:
    from offpeak.plugin.day_plan.day_plan import DayPlan
    from offpeak.services.accounts.job_bills import JobBill

PATIENCE_S, CLOCK_PATIENCE_S = 10.0, 2.0
Answer = TypeVar("Answer")

SNAPSHOT = "picture"
"""The query of the status page and of metrics; `jobs_seen` is the time of the view whose jobs the caller has."""
FOR_ADMINS = {"ask": "plan"}
FOR_BROKERS = {"ask": "snapshot"}
"""The query of a broker of clusters, open to every user because the reply has no names of users."""

NO_SCHEDULER = "the scheduler has not been read yet"


@dataclass(frozen=True)
class PriceStatus:
    """The present price of electricity in `unit` ("EUR/MWh"), with its source in `basis`.

    `on_peak` holds until `until_unix_s`, by the price or by what `decided_by` names: "CO2", "price and CO2 at ...".
    """

    now: float | None
    unit: str
    basis: str
    on_peak: bool | None = None
    until_unix_s: float | None = None
    decided_by: str = ""


@dataclass(frozen=True)
class NodeCounts:
    """The number of nodes in each state, and the total power of the nodes that are measured."""

    counts: tuple[tuple[str, int], ...] = ()
    watts: float | None = None


@dataclass(frozen=True)
class JobStatus:
    """A job: its place among the `of` jobs that compete with it, counted from 1, and the reasons for it.

    `state` is the scheduler's name of it. `latest_start_unix_s` bounds the begin time that the agent sets, not the
    start. `moved` is "up 3", "down 2", or "" if the agent did not move it. `expected_saving` is of the whole job.
    `ends_unix_s` is expected by its predicted run time or its limit, if it runs or its start is known.

    A job that waits has a `cause`, such as "nodes" or "price", and a `remedy`: what its owner can do. 8 of 10 such jobs
    start between `starts_from_unix_s` and `starts_by_unix_s`; these are None where `start_condition` says what has to
    happen first. `saves` is what the wait or a delay saves, only of a job that was asked for.
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
    tier: str = ""
    ends_unix_s: float | None = None
    cause: str = ""
    starts_from_unix_s: float | None = None
    starts_by_unix_s: float | None = None
    start_condition: str = ""
    remedy: str = ""
    saves: str = ""


@dataclass(frozen=True)
class ForecastStatus:
    """The predictor of a quantity that is `used`, and its mean absolute error beside that of the naive one.

    Both are over the same latest outcomes, None before the first.
    """

    about: str
    unit: str
    used: str
    mae: float | None
    naive: str
    naive_mae: float | None
    outcomes: int


class SchedulerUse(NamedTuple):
    """What the agent costs the scheduler since its start; None: not known. `text` has the figures of the last minutes.

    The requests and their time are those that the scheduler counts for the agent's user. Where it counts nothing, the
    time is that of the agent's commands.
    """

    requests: int | None = None
    busy_s: float | None = None
    text: str = ""


NO_USE = SchedulerUse()


@dataclass(frozen=True)
class StatusReply:
    """The status of one cycle; the next one follows after `cycle_s`, which a busy scheduler stretches.

    `saved_today` is the account of savings since midnight, `shadow_today` what shadow mode would have saved, `demand`
    the demand charges of this month.

    `now_unix_s` is the agent's clock at the request; `clock_factor` of its seconds pass in a real one.
    `first_round_until_unix_s` is set while the first round of the queue is under way: if it lasts longer, it is stuck.
    `has_looked`: a round of the queue has succeeded, and `at_unix_s` is that of the latest one; else it is the present.
    `own_policy` orders the queue, "" for a built-in policy; if it is shadowed, its order is only recorded.
    `last_round_unix_s` is the end of the latest round of the queue, also of one without an answer of the scheduler.
    `capacity` says for each pool whose capacity is limited how many nodes are on offer, and why, and which cap on power
    holds. `refused_readings` are those of meters since the agent's start; `remote_write` counts those for a store.
    `lease` says which agent of a pair of head nodes acts.
    """

    at_unix_s: float
    mode: str
    cluster: str
    scheduler: str
    cycle_s: int
    price: PriceStatus
    nodes: NodeCounts = NodeCounts()
    saved_today: SavingsAccount = NO_SAVINGS
    shadow_today: SavingsAccount = NO_SHADOW
    jobs: tuple[JobStatus, ...] = ()
    problems: tuple[str, ...] = ()
    now_unix_s: float | None = None
    clock_factor: float = 1.0
    first_round_until_unix_s: float | None = None
    has_looked: bool = True
    own_policy: str = ""
    own_policy_is_shadowed: bool = False
    last_round_unix_s: float | None = None
    capacity: tuple[str, ...] = ()
    forecasts: tuple[ForecastStatus, ...] = ()
    refused_readings: int = 0
    scheduler_use: SchedulerUse = NO_USE
    demand: tuple[DemandSaving, ...] = ()
    lease: LeaseState | None = None
    remote_write: RemoteWriteCounts | None = None

    def seen_by(self, user: str | None) -> "StatusReply":
        """Return what that user may see: their own jobs, and totals; None may see everything."""
        if user is None:
            return self
        return replace(self, jobs=tuple(job for job in self.jobs if job.user == user), problems=())


def status_json(status: StatusReply) -> Any:
    """Return the status as JSON objects, lists, numbers and texts."""
    return _status_type().dump_python(status, mode="json", by_alias=True)


def parse_status(reply: object) -> StatusReply:
    """Return the status of `status_json` without unknown keys. Raises ValueError if it is something else."""
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
    `node_type` is its equipment in words, `partitions` are joined by commas; "" if the scheduler does not tell them.
    `rack` is that of the inventory, else its enclosure there, "" for neither. If it is still on and should have gone
    down since, `overdue_s` is how long ago it was ordered to sleep, else 0. If it is on and no job can use it, `left`
    is its state in the scheduler and what to type; `why` begins with it.
    Fields with defaults came later: agents of older versions do not send them.
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
    node_type: str = ""
    partitions: str = ""
    rack: str = ""
    overdue_s: float = 0.0
    left: str = ""


class PriceSlot(NamedTuple):
    """The price of an interval; four of five outcomes are between `low` and `high`. `carbon` is in g/kWh."""

    from_unix_s: int
    price: float | None
    low: float | None
    high: float | None
    on_peak: bool | None
    basis: str
    carbon: float | None = None


@dataclass(frozen=True)
class StatusSnapshot:
    """The site at one moment. The prices end at `prices_until_unix_s`; day and month began on the clock of `zone`.

    `jobs_left_out`: the caller has the jobs of this cycle already. `planned_w` are the steps of the day plan's power,
    that of jobs and of nodes that are idle now: from when [Unix s], and how much [W]; () without a plan.
    """

    published: StatusReply
    zone: str
    day_unix_s: float
    month_unix_s: float
    job_counts: tuple[tuple[str, int], ...] = ()
    slots: tuple[PriceSlot, ...] = ()
    prices_until_unix_s: int | None = None
    nodes: tuple[NodeStatus, ...] = ()
    jobs_left_out: bool = False
    planned_w: tuple[tuple[int, float], ...] = ()


_ROWS: tuple[tuple[str, str, Any], ...] = (("nodes", "node_fields", NodeStatus), ("slots", "slot_fields", PriceSlot))
"""The keys of rows, the keys of the names of their fields, and their types."""


def snapshot_json(snapshot: StatusSnapshot) -> dict[str, Any]:
    """Return the snapshot as JSON objects, lists, numbers and texts; a node or slot is a list of its fields."""
    names = {key: row._fields for _, key, row in _ROWS}
    return {**vars(snapshot), "published": status_json(snapshot.published), **names}


def parse_snapshot(reply: object) -> StatusSnapshot:
    """Return the snapshot of `snapshot_json` without unknown keys and fields. Raises ValueError for anything else."""
    try:
        # Agents of older versions send no plan.
        received: dict[str, Any] = {"planned_w": (), **reply}  # type: ignore[dict-item]
        values = {field.name: received[field.name] for field in fields(StatusSnapshot)}
        for key, names, row in _ROWS:
            values[key] = tuple(map(row._make, _columns(values[key], received[names], row)))
        for key in ("job_counts", "planned_w"):
            values[key] = tuple((first, second) for first, second in values[key])
        values["published"] = parse_status(values["published"])
        return StatusSnapshot(**values)
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no snapshot: {problem}") from None


def _columns(rows: list[list[Any]], names: list[str], wanted: Any) -> Iterable[Sequence[Any]]:
    """Return the columns of rows in the order of the fields of `wanted`; a missing one has its default."""
    if tuple(names) == wanted._fields:
        return rows
    defaults = wanted._field_defaults
    places = {name: place for place, name in enumerate(names)}
    sent = {name: places[name] for name in wanted._fields if name in names or name not in defaults}
    return ([row[sent[name]] if name in sent else defaults[name] for name in wanted._fields] for row in rows)


class AgentSilent(OffpeakError):
    """No agent answers."""


def fetch_status(path: Path, **request: str) -> StatusReply:
    """Return the reply to a question. Raises AgentSilent without an answer, BadInput if the agent refuses."""
    return _fetch(path, request, "published", parse_status)


def fetch_clock(path: Path) -> float:
    """Return the time of the agent's clock [Unix s], which may be faster; without an agent that of this machine."""
    try:
        status = parse_status(exchange(path, {"ask": "status"}, patience_s=CLOCK_PATIENCE_S).get("published"))
    except (OffpeakError, ValueError):
        return time.time()
    return time.time() if status.now_unix_s is None else status.now_unix_s


def fetch_snapshot(path: Path, *, jobs_seen_unix_s: float | None = None) -> StatusSnapshot:
    """Return the snapshot of the agent, without jobs if they are still those of that time; errors as `fetch_status`."""
    seen = {} if jobs_seen_unix_s is None else {"jobs_seen": repr(jobs_seen_unix_s)}
    return _fetch(path, {"ask": SNAPSHOT, **seen}, "picture", parse_snapshot)


def fetch_plan(path: Path) -> "DayPlan":
    """Return the plan that the agent carries out; errors as `fetch_status`."""
    # The planner imports numpy, which other commands do without.
    from offpeak.plugin.day_plan.day_plan import plan_from_json

    return _fetch(path, FOR_ADMINS, "plan", plan_from_json)


def fetch_bills(path: Path, **query: str | float) -> "tuple[JobBill, ...]":
    """Return the bills of ended jobs that the user may see, the latest first; errors as `fetch_status`.

    The query has job, user, from_unix_s and until_unix_s; each may be left out.
    """
    # The bills are read by SQLAlchemy, which other commands do without.
    from offpeak.services.accounts.job_bills import parse_bills

    return _fetch(path, {"ask": "bills", **query}, "bills", parse_bills)


def _fetch(path: Path, request: Mapping[str, str | float], key: str, parse: Callable[[Any], Answer]) -> Answer:
    reply = exchange(path, request)
    try:
        return parse(reply.get(key))
    except ValueError:
        raise _silent_error(path, "its answer makes no sense: is it of another version?") from None


def send_node_request(path: Path, what: str, nodes: str, text: str = "") -> None:
    """Send a request about nodes. Raises AgentSilent if no agent answers, BadInput if the agent refuses the request."""
    exchange(path, {"tell": what, "nodes": nodes, "text": text})


def exchange(path: Path, request: Mapping[str, Any], *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Return the reply of the agent, {} if it is no object; errors as `fetch_status`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience_s)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
            reply = json.loads(received)
        except OSError as problem:
            raise _silent_error(path, problem.strerror or "no answer in time") from None
        except ValueError:
            raise _silent_error(path, "it sent no reply") from None
    if not isinstance(reply, dict):
        return {}
    if "error" in reply:
        raise BadInput(str(reply["error"]), hint=str(reply.get("hint", "")))
    return reply


def _silent_error(path: Path, why: str) -> AgentSilent:
    hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
    return AgentSilent(f"no agent answers at {path}: {why}", hint=hint)
