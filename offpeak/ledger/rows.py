"""The rows that are written into the ledger, as values. The fields are the columns of the table of that kind."""

from dataclasses import dataclass, field
from typing import Any

Inputs = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True)
class MeterReading:
    """What one part of a meter said, and from when until when that held; without a value `why` says why.

    `energy_j` is what was used in that time; where it is None, the power times the time. `node` is whose it is.
    """

    meter: str
    way: str
    part: str
    from_unix_s: float
    until_unix_s: float
    power_w: float | None
    energy_j: float | None = None
    node: str | None = None
    why: str = ""


@dataclass(frozen=True)
class NodeStateRecord:
    """What a node was seen to be and was wanted to be from that instant on, by whom and why."""

    node: str
    at_unix_s: float
    observed: str
    desired: str
    by: str
    why: str = ""


@dataclass(frozen=True)
class DecisionRecord:
    """What was decided of a subject, in words, and the numbers that it rests on."""

    at_unix_s: float
    subject: str
    decided: str
    reason: str
    inputs: Inputs = ()


@dataclass(frozen=True)
class Price:
    """What electricity cost in an interval, by whom, and how much CO2 it stood for."""

    from_unix_s: float
    until_unix_s: float
    price_per_mwh: float
    currency: str
    source: str
    carbon_g_per_kwh: float | None = None


@dataclass(frozen=True)
class JobUse:
    """What a job that has ended used, and what that cost at the prices that applied; `basis` says how it is known.

    No value is None: energy that nobody measured or estimated, a cost without a price.
    """

    job: str
    started_unix_s: float
    ended_unix_s: float
    user: str
    account: str
    partition: str
    nodes: str
    energy_j: float | None
    cost: float | None
    currency: str
    carbon_g: float | None = None
    basis: str = ""


@dataclass(frozen=True)
class SavingRecord:
    """What a period used and cost beside what it would have: `baseline` names what that is measured against."""

    from_unix_s: float
    until_unix_s: float
    baseline: str
    baseline_energy_j: float
    baseline_cost: float | None
    energy_j: float
    cost: float | None
    currency: str
    basis: str = ""


@dataclass(frozen=True)
class JobMark:
    """What we changed of a job: `kind` is "rank" (its priority or offset) or "begin" (when it may start, Unix s).

    `was` is what the site had given it, `to` what we wrote last. Job numbers come again: a job is told by its number
    and when it was submitted.
    """

    job: str
    submitted_unix_s: float
    kind: str
    was: int
    to: int
    at_unix_s: float


@dataclass(frozen=True)
class MemoryRecord:
    """A small text, mostly JSON, by which a program that starts anew goes on where it was."""

    name: str
    text: str
    at_unix_s: float


@dataclass(frozen=True)
class SubmissionRecord:
    """A job that a broker gives to a site, told by its `key`; `digest` is of what is submitted.

    `state` is "tried", from before the site is asked until it is known what became of it: that attempt began at
    `tried_unix_s`; "taken" as `job`; "failed", no site has it; "cancelled". `message` is the last one of the site or
    the broker, `answer` the choice as JSON.
    """

    key: str
    at_unix_s: float
    by: str
    digest: str
    site: str
    state: str
    tried_unix_s: float
    job: str = ""
    message: str = ""
    answer: dict[str, Any] = field(default_factory=dict)


Row = MeterReading | NodeStateRecord | DecisionRecord | Price | JobUse | SavingRecord | MemoryRecord | dict[str, Any]


def columns_of(record: object) -> dict[str, Any]:
    """Return the fields of a record by their columns: the column of `message` is called "said"."""
    return {"said" if name == "message" else name: value for name, value in vars(record).items()}
