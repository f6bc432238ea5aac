"""The rows of the ledger as values. The fields are the columns of their table."""

from dataclasses import dataclass, field
from typing import Any

Inputs = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True)
class MeterReading:
    """The reading of one part of a meter for an interval; without a value `why` gives the reason.

    `energy_j` is the energy in the interval, None for power times time. `node` is the node that the part measures.
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
    """The observed and the desired state of a node from that instant on, by whom and why."""

    node: str
    at_unix_s: float
    observed: str
    desired: str
    by: str
    why: str = ""


@dataclass(frozen=True)
class DecisionRecord:
    """A decision about a subject as text, and the numbers behind it."""

    at_unix_s: float
    subject: str
    decided: str
    reason: str
    inputs: Inputs = ()


@dataclass(frozen=True)
class Price:
    """The price of electricity in an interval, its source, its carbon intensity, and since when it is known."""

    from_unix_s: float
    until_unix_s: float
    price_per_mwh: float
    currency: str
    source: str
    carbon_g_per_kwh: float | None = None
    known_unix_s: float | None = None


@dataclass(frozen=True)
class JobUse:
    """The energy and cost of a job that ended; `basis` tells how they are known.

    `energy_j` is None if it was neither measured nor estimated, `cost` if a price is missing. A replay needs the
    submission, the limit (None: no limit), and the numbers of nodes and processors; rows of older programs lack them.
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
    submitted_unix_s: float | None = None
    limit_s: float | None = None
    node_count: int | None = None
    cpus: int | None = None


@dataclass(frozen=True)
class JobCredit:
    """What the tier of a job has moved by `started_unix_s - baseline_unix_s`; `saved` is None if a price is missing.

    `credit` is what the site pays for it, None if it pays nothing for tiers.
    """

    job: str
    started_unix_s: float
    ended_unix_s: float
    baseline_unix_s: float
    shifted_j: float
    tier: str
    saved: float | None
    currency: str
    credit: float | None


@dataclass(frozen=True)
class JobGpus:
    """The GPU-seconds of a job that ended: allocated, idle for certain, busy for certain; the rest is not known.

    `idle_j` is the energy of its idle GPUs, `idle_cost` what that cost, None if a price is missing.
    """

    job: str
    started_unix_s: float
    ended_unix_s: float
    allocated_s: float = 0.0
    idle_s: float = 0.0
    busy_s: float = 0.0
    idle_j: float = 0.0
    idle_cost: float | None = 0.0
    currency: str = ""


@dataclass(frozen=True)
class SavingRecord:
    """What a `lever` saved in a period: its energy and cost beside those of the `baseline`; None is not known.

    `low_cost` and `high_cost` bound the saving in 19 of 20 cases; `measured_share` is 0..1, None if nothing says.
    `is_shadow`: shadow mode would have saved it. `delay_s` is the mean delay of the `delayed_jobs` [s]. The row of a
    running day counts what happened up to `as_of_unix_s`.
    """

    from_unix_s: float
    until_unix_s: float
    baseline: str
    baseline_energy_j: float | None
    baseline_cost: float | None
    energy_j: float | None
    cost: float | None
    currency: str
    basis: str = ""
    lever: str = "sleep"
    is_shadow: bool = False
    low_cost: float | None = None
    high_cost: float | None = None
    saved_carbon_g: float | None = None
    measured_share: float | None = None
    node_hours: float | None = None
    delayed_jobs: int | None = None
    delay_s: float | None = None
    as_of_unix_s: float | None = None


@dataclass(frozen=True)
class TrialBlock:
    """A drawn period of a trial, and whether the lever is on in it; no partition: on the whole cluster."""

    trial: str
    lever: str
    from_unix_s: float
    until_unix_s: float
    is_on: bool
    seed: str
    drawn_unix_s: float
    partition: str = ""

    @property
    def name(self) -> str:
        """The lever, and its partition."""
        return f"{self.lever} of {self.partition}" if self.partition else self.lever


@dataclass(frozen=True)
class JobMark:
    """A change of a job by offpeak: `kind` is "rank" (priority or offset) or "begin" (earliest start, Unix s).

    `was` is the value of the site, `to` the last value of offpeak. Schedulers reuse job numbers: the number and the
    submission time identify a job.
    """

    job: str
    submitted_unix_s: float
    kind: str
    was: int
    to: int
    at_unix_s: float


@dataclass(frozen=True)
class MemoryRecord:
    """A small text, mostly JSON, from which a program resumes after a restart."""

    name: str
    text: str
    at_unix_s: float


@dataclass(frozen=True)
class SubmissionRecord:
    """A job that a broker submits to a site, identified by its `key`; `digest` is the digest of the submission.

    `state` is "waiting" until a cycle finds a site for a stored job, "tried" from before the request to the site
    until its result is known (the attempt began at `tried_unix_s`), "taken" as `job`, "failed" if no site has it, or
    "cancelled". `message` is the last one of the site or the broker, `answer` the choice as JSON.
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


COLUMN_OF = {"message": "said", "error_kind": "trouble"}
"""Fields whose columns have other names."""


def columns_of(record: object) -> dict[str, Any]:
    """Return the fields of a record by their columns."""
    return {COLUMN_OF.get(name, name): value for name, value in vars(record).items()}
