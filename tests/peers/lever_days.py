"""Days of a small site of equal nodes: the engine plays them in the site's own order or in that of offpeak.

The ledger gets what an agent would have written: jobs, prices, and the orders that the door let through or refused.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from offpeak.door.effect import MODE_RULE, Effect, Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, Price
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_class_file import node_class_named
from offpeak.model.orders import NodeChange, QueueChange
from offpeak.model.time_range import TimeRange
from offpeak.prices.peak import Peak
from offpeak.services.accounts.lever_site import LeverSite
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.engine.rules import NO_PEAKS, PeakTimes
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.schedule import Schedule

BEGIN_S = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
"""A Monday."""
NODES, DAYS = 16, 6
PEAK_HOURS = range(8, 20)
ON_PEAK, OFF_PEAK = 120.0, 40.0
CLASS = node_class_named("server")


def prices() -> list[Price]:
    """Return a price for each hour of the days and of a week behind them."""
    return [
        Price(
            float(BEGIN_S + HOUR_S * hour),
            float(BEGIN_S + HOUR_S * (hour + 1)),
            ON_PEAK if hour % 24 in PEAK_HOURS else OFF_PEAK,
            "EUR",
            "published",
            300.0,
        )
        for hour in range(24 * (DAYS + 7))
    ]


def days_jobs(seed: int = 5, per_day: int = 90) -> Jobs:
    """Return jobs of one to six whole nodes, most of them submitted by day."""
    random = np.random.default_rng(seed)
    count = per_day * DAYS
    hour = np.where(random.random(count) < 0.7, random.uniform(7, 16, count), random.uniform(0, 24, count))
    submit_s = np.sort((random.integers(0, DAYS, count) * DAY_S + hour * HOUR_S).astype(np.int64))
    runtime_s = random.integers(900, 3 * HOUR_S, count)
    unknown = np.full(count, -1)
    return Jobs(
        job_id=np.arange(count),
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=(runtime_s * random.uniform(1.1, 2.0, count)).astype(np.int64),
        size=random.choice([1, 1, 1, 2, 2, 4, 6], count).astype(np.int64),
        user=unknown,
        group=unknown,
        queue=unknown,
        application=unknown,
        logged_start_s=unknown,
        node_power_w=random.choice([180.0, 220.0, 400.0, 450.0], count),
    )


def played(jobs: Jobs, policy: str, settings: Settings) -> Schedule:
    """Return when the jobs start under a policy."""
    hours = np.arange(24 * (DAYS + 7))
    peak = np.where(np.isin(hours % 24, PEAK_HOURS), Peak.ON_PEAK, Peak.OFF_PEAK).astype(np.int8)
    peaks = PeakTimes(hours * HOUR_S, peak) if policy != "easy" else NO_PEAKS
    made = parse_policy(policy, settings.scheduling)
    return replay(jobs, jobs.node_power_w, machine_size=NODES, policy=made, peaks=peaks)


@dataclass(frozen=True)
class LeverDaysSite:
    """The jobs as they were played, the settings, and the URL of the ledger."""

    jobs: Jobs
    url: str
    settings: Settings = field(default_factory=lambda: settings_of())

    def site(self, *, is_active: bool | None = False, **changes: object) -> LeverSite:
        """Return the site after its days."""
        names = frozenset(f"n{number:02}" for number in range(NODES))
        pool = Pool(NodeType(16, 64_000), frozenset({"batch"}), NODES, names)
        site = LeverSite(
            self.settings, Cluster((pool,), {"batch": Partition("batch")}), (CLASS,), ((),), UTC, BEGIN_S, (), is_active
        )
        return replace(site, **changes)


def settings_of(**agent: object) -> Settings:
    """Return the settings of the site."""
    values: dict[str, object] = {"capacity": "timeout:10min", "queue": "greedy", "min_on": 0, "cycles_per_day": 100}
    return Settings(agent=AgentSettings(**(values | agent)))  # type: ignore[arg-type]


def day(number: int, days: int = 1) -> TimeRange:
    """Return some of the days."""
    return TimeRange(float(BEGIN_S + number * DAY_S), float(BEGIN_S + (number + days) * DAY_S))


def lever_days(
    file: Path, *, policy: str = "easy", mode: str = "shadow", jobs: Jobs | None = None, **changes: object
) -> LeverDaysSite:
    """Write the ledger of days that were played under this policy in this mode; a job's row may get `changes`."""
    settings, jobs = settings_of(), days_jobs() if jobs is None else jobs
    if len(jobs):
        jobs = replace(jobs, logged_start_s=played(jobs, policy, settings).start_s)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}"))
    ledger.ready()
    ledger.write_jobs([replace(job_use(jobs, at), **changes) for at in range(len(jobs))])
    ledger.write_prices(prices())
    for number in range(DAYS):
        noon = float(BEGIN_S + number * DAY_S + 12 * HOUR_S)
        order = Effect("queue of batch", QueueChange.RANK, "offpeak", "on-peak")
        close = Effect("n01", NodeChange.CLOSE, "offpeak", "idle")
        if mode == "active":
            ledger.write_outcome(ledger.write_intent(order, noon), Outcome("done", "accepted"), noon + 1)
            off = replace(close, order=NodeChange.POWER_DOWN)
            ledger.write_outcome(ledger.write_intent(off, noon), Outcome("done", "accepted"), noon + 1)
        else:
            for effect in (order, close):
                ledger.write_refusal(effect, Refusal(MODE_RULE, "is only recorded", "set the mode"), noon)
    assert ledger.close() == 0
    return LeverDaysSite(jobs, f"sqlite:///{file}")


def job_use(jobs: Jobs, at: int) -> JobUse:
    """Return the row of a job."""
    start, run = BEGIN_S + int(jobs.logged_start_s[at]), int(jobs.runtime_s[at])
    size = int(jobs.size[at])
    return JobUse(
        job=str(at),
        started_unix_s=float(start),
        ended_unix_s=float(start + run),
        user="ann",
        account="a",
        partition="batch",
        nodes="n[00-05]",
        energy_j=float(jobs.node_power_w[at]) * size * run,
        cost=None,
        currency="",
        basis="measured",
        submitted_unix_s=float(BEGIN_S + int(jobs.submit_s[at])),
        limit_s=float(jobs.estimate_s[at]),
        node_count=size,
        cpus=16 * size,
    )
