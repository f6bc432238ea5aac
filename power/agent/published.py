"""What the agent publishes each cycle, for those who ask it over its socket; as JSON both ways.

Times are Unix seconds, money is in the currency that stands beside it, None is what nobody knows.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

NO_SCHEDULER = "the scheduler has not been read yet"


@dataclass(frozen=True)
class PriceSaid:
    """What electricity costs now, in `unit` ("EUR/MWh"); `basis` says who says so. It holds `until_unix_s`."""

    now: float | None
    unit: str
    basis: str
    on_peak: bool | None = None
    until_unix_s: float | None = None


@dataclass(frozen=True)
class NodesSaid:
    """How many nodes are in which state, and what those that are measured draw together."""

    counts: tuple[tuple[str, int], ...] = ()
    watts: float | None = None


@dataclass(frozen=True)
class SavedSaid:
    """What was saved since midnight, against what it would have been without us; `basis` says how that is known."""

    energy_j: float | None = None
    cost: float | None = None
    currency: str = ""
    basis: str = ""


@dataclass(frozen=True)
class JobSaid:
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
class Published:
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
    price: PriceSaid
    nodes: NodesSaid = NodesSaid()
    saved_today: SavedSaid = SavedSaid()
    jobs: tuple[JobSaid, ...] = ()
    troubles: tuple[str, ...] = ()
    now_unix_s: float | None = None
    clock_factor: float = 1.0
    first_round_until_unix_s: float | None = None
    has_looked: bool = True

    def seen_by(self, user: str | None) -> "Published":
        """Return what that user may see: the own jobs, and totals; None may see everything."""
        if user is None:
            return self
        return replace(self, jobs=tuple(job for job in self.jobs if job.user == user), troubles=())


def published_json(published: Published) -> Any:
    """Return it as objects, lists, numbers and texts that JSON knows."""
    return _shape().dump_python(published, mode="json")


def published_of(said: object) -> Published:
    """Return what `published_json` made of it, unknown keys left out; ValueError if it is something else."""
    # JSON knows lists only, where these are tuples.
    return _shape().validate_python(said)  # type: ignore[no-any-return]


@cache
def _shape() -> Any:
    # Slow to import: who only asks for the version must not wait for it.
    from pydantic import TypeAdapter

    return TypeAdapter(Published)
