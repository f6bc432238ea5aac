"""What the agent shows to its status page and its metrics: what it publishes, and beside it each node and price.

Times are Unix seconds; None is what nobody knows. It is made when somebody asks, and only then.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from power.agent.published import Published, published_json


class NodeSaid(NamedTuple):
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


class SlotSaid(NamedTuple):
    """The price of an interval from an instant on; between `low` and `high` four of five forecasts come true."""

    from_unix_s: int
    price: float | None
    low: float | None
    high: float | None
    on_peak: bool | None
    basis: str


class ErrorSaid(NamedTuple):
    """How wrong a forecast was of late: mean absolute error, of so many outcomes that it had answered before."""

    about: str
    unit: str
    mae: float
    outcomes: int


@dataclass(frozen=True)
class Picture:
    """All of one instant. The prices end at `prices_until_unix_s`; the day and month began on the clock of `zone`.

    `jobs_left_out`: those whom this is for have seen the jobs of this look already.
    """

    published: Published
    zone: str
    day_unix_s: float
    month_unix_s: float
    job_counts: tuple[tuple[str, int], ...] = ()
    slots: tuple[SlotSaid, ...] = ()
    prices_until_unix_s: int | None = None
    nodes: tuple[NodeSaid, ...] = ()
    errors: tuple[ErrorSaid, ...] = ()
    jobs_left_out: bool = False


def picture_json(picture: Picture) -> dict[str, Any]:
    """Return it as objects, lists, numbers and texts that JSON knows; a node, slot or error is a list of its fields."""
    rest = {name: value for name, value in vars(picture).items() if name not in ("published", "nodes", "slots")}
    fields = {"node_fields": NodeSaid._fields, "slot_fields": SlotSaid._fields, "error_fields": ErrorSaid._fields}
    said = published_json(picture.published)
    return {"published": said, "nodes": picture.nodes, "slots": picture.slots, **rest, **fields}
