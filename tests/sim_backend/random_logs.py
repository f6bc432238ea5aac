"""Random small logs, machines, prices and rules: many ties, bursts, late and empty jobs, machine-wide jobs."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from plain_conservative import PlainConservative
from plain_scheduler import PlainJob, PlainScheduler

from offpeak.model.arrays import Float64
from offpeak.model.cluster import Cluster, NodeType, Pool
from offpeak.model.jobs import Jobs
from offpeak.model.request import Chunk, Request
from offpeak.plugin.window_policy import ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE, NO_POLICY
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import (
    BEST_FIT,
    CONSERVATIVE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FIRST_FIT,
    PREDICTED_RUNTIME,
    USER_ESTIMATE,
    PeakTimes,
    SchedulingRules,
)
from offpeak.sim_backend.replay.equal_nodes import replay, unit_replay
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import Replay
from offpeak.sim_backend.replay.schedule import Schedule

DISCIPLINES = (FCFS, EASY, CONSERVATIVE, FIRST_FIT, BEST_FIT)
BACKFILLING = (FCFS, EASY, FIRST_FIT, BEST_FIT)
POLICIES = (ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE)
ESTIMATES = (USER_ESTIMATE, EXACT_RUNTIME, PREDICTED_RUNTIME)
NO_BOUND_S = 10**12
PLAIN = SchedulingRules(EASY, ARRIVAL, 5, 0, NO_BOUND_S, USER_ESTIMATE, False)


@dataclass(frozen=True)
class Log:
    """Jobs, their draw per unit [W], a machine that can run each of them, and when its price changes."""

    jobs: Jobs
    node_power_w: Float64
    machine_size: int
    peaks: PeakTimes

    def cut_at_estimate(self) -> "Log":
        """Return the log with no job longer than its estimate."""
        return replace(self, jobs=replace(self.jobs, runtime_s=np.minimum(self.jobs.runtime_s, self.jobs.estimate_s)))

    def with_price(self, *peaks) -> "Log":
        """Return the log with the price in one state for all time, or unknown."""
        at_s = np.full(len(peaks), int(self.jobs.submit_s[0]))
        return replace(self, peaks=PeakTimes(at_s, np.array(peaks, dtype=np.int8)))

    def with_exact_estimates(self) -> "Log":
        """Return the log with estimates that are the run times."""
        return replace(self, jobs=replace(self.jobs, estimate_s=self.jobs.runtime_s))


def log_of(rows, *, machine_size, peaks=()) -> Log:
    """Return the log of rows (submit, run, estimate, size, W per unit[, user]); peaks are pairs (second, Peak)."""
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    submit, run, estimate, size, power, *user = columns
    none = np.full(len(rows), -1)
    who = user[0] if user else none
    job_id = np.arange(1, len(rows) + 1)
    jobs = Jobs(job_id, submit, run, estimate, size, who, none, none, none, none, none * np.nan)
    at_s, state = zip(*peaks, strict=True) if peaks else ((), ())
    times = PeakTimes(np.array(at_s, dtype=np.int64), np.array(state, dtype=np.int8))
    return Log(jobs, power.astype(float), machine_size, times)


@st.composite
def logs(draw, *, shortest_s=0, most_jobs=60) -> Log:
    """Up to 60 jobs on 1 to 200 units; a third is submitted within the same second as the one before."""
    machine_size = draw(st.sampled_from([1, 2, 3, 5, 8, 63, 64, 65, 130, 200]))
    size = st.one_of(st.integers(1, machine_size), st.integers(1, -(-machine_size // 4)), st.just(machine_size))
    job = st.tuples(
        st.sampled_from([0, 0, 1, 2, 3, 9]), st.integers(shortest_s, 20), st.integers(shortest_s, 25), size,
        st.integers(1, 4), st.integers(0, 2),
    )  # fmt: skip
    rows = draw(st.lists(job, min_size=1, max_size=most_jobs))
    submit_s = np.cumsum([row[0] for row in rows])
    changes = draw(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(list(Peak))), max_size=8))
    at_s = draw(st.integers(-5, 10)) + np.cumsum([change[0] for change in changes])
    peaks = [(at, change[1]) for at, change in zip(at_s, changes, strict=True)]
    jobs = [(submit, *row[1:]) for submit, row in zip(submit_s, rows, strict=True)]
    return log_of(jobs, machine_size=machine_size, peaks=peaks)


def many(log: Log) -> Log:
    """Return the log many times over, one after the other, so that the choice has enough outcomes."""
    jobs, times = log.jobs, 1 + 120 // len(log.jobs)
    which = np.tile(np.arange(len(jobs)), times)
    length_s = int(jobs.submit_s[-1] - jobs.submit_s[0]) + 10
    repeated = jobs.take(which)
    submit_s = jobs.submit_s[which] + length_s * np.repeat(np.arange(times), len(jobs))
    repeated = replace(repeated, submit_s=submit_s, job_id=np.arange(1, len(which) + 1))
    return replace(log, jobs=repeated, node_power_w=log.node_power_w[which])


def rules(*, disciplines=BACKFILLING, policies=POLICIES, periods_s=(0, 0, 7, 10), estimates=ESTIMATES):
    """Rules of any kind, with small windows (a knapsack is compared with all its subsets)."""
    return st.builds(
        SchedulingRules,
        discipline=st.sampled_from(disciplines),
        policy=st.sampled_from(policies),
        window=st.integers(1, 6),
        period_s=st.sampled_from(periods_s),
        max_postponement_s=st.sampled_from([0, 3, 20, NO_BOUND_S]),
        estimates=st.sampled_from(estimates),
        pass_per_event=st.booleans(),
    )


def policy_of(rules: SchedulingRules) -> Policy:
    """Return the policy of these rules; runs are cut at the estimate where there is a pass per event, as always."""
    return Policy("under test", rules, NO_POLICY, kill_at_estimate=rules.pass_per_event)


def schedule(log: Log, rules: SchedulingRules) -> Schedule:
    """Return what the engine makes of the log."""
    return replay(
        log.jobs, log.node_power_w, machine_size=log.machine_size, policy=policy_of(rules), peaks=log.peaks
    )  # fmt: skip


def starts(log: Log, rules: SchedulingRules) -> list[int]:
    """Return when the engine starts each job."""
    return schedule(log, rules).start_s.tolist()


def engine(log: Log, rules: SchedulingRules) -> Replay:
    """Return the engine before the first event."""
    return unit_replay(log.jobs, log.node_power_w, log.machine_size, policy_of(rules), peaks=log.peaks)


def plain(log: Log, rules: SchedulingRules) -> PlainScheduler:
    """Return the plain scheduler for the log, before the first event."""
    cut = log.cut_at_estimate() if rules.pass_per_event else log
    columns = (
        cut.jobs.submit_s,
        cut.jobs.runtime_s,
        cut.jobs.estimate_s,
        cut.jobs.size,
        cut.node_power_w,
        cut.jobs.user,
    )
    jobs = [PlainJob(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    peaks = [(at, Peak(state)) for at, state in zip(log.peaks.at_s.tolist(), log.peaks.peak.tolist(), strict=True)]
    # Without a window policy the price wakes nobody.
    peaks = [] if rules.policy == ARRIVAL else peaks
    kind = PlainConservative if rules.discipline == CONSERVATIVE else PlainScheduler
    return kind(jobs, log.machine_size, rules, peaks)


def one_pool(log: Log) -> EngineCase:
    """Return the case of a log: a pool of nodes of which nothing is known, and a request for each size."""
    sizes, request = np.unique(log.jobs.size, return_inverse=True)
    cluster = Cluster((Pool(NodeType(0), frozenset(), log.machine_size),))
    requests = [Request((), (Chunk(int(size)),)) for size in sizes]
    columns = (log.jobs.job_id, log.jobs.submit_s, log.jobs.runtime_s, log.jobs.estimate_s)
    jobs = RequestedJobs(*columns, request.astype(np.int64), log.node_power_w, user=log.jobs.user)
    return engine_case(cluster, requests, jobs)
