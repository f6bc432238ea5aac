"""A site's pending jobs for tests of the queue hook, and what becomes of them when its plan is written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from offpeak.ledger.rows import JobMark
from offpeak.model.cluster import UNKNOWN, Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import job_number
from offpeak.plugin.queue_hook.queue_plan import QueuePlan, plan_queue
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

HOUR_S = 3600
MIDNIGHT_S = 1_795_215_600  # 2026-11-21 00:00 in Berlin
NOW_S = MIDNIGHT_S + 18 * HOUR_S
ZONE = ZoneInfo("Europe/Berlin")
TOP = 4_294_901_759
RULES = QueueRules("greedy", 20, 24 * HOUR_S, 100, 72 * HOUR_S, ZONE)


def a_job(number: int, **fields: Any) -> Job:
    """Return a plain pending job as priority/basic would have it."""
    job = Job(
        job_id=str(number),
        state=JobState.PENDING,
        native_state="PENDING",
        reason="Priority",
        user="ann",
        account="",
        name="job",
        comment="",
        partitions=("batch",),
        request=None,
        reservation="",
        qos="",
        priority=TOP - number,
        offset=0,
        nodes=1,
        cpus=1,
        whole_nodes=True,
        limit_s=HOUR_S,
        submit_s=NOW_S - HOUR_S,
        begin_s=None,
        start_s=None,
        end_s=None,
        hosts="",
        plain=True,
    )
    job = job._replace(**fields)
    return job if "request" in fields else job._replace(request=plain_request(job))


def plain_request(job: Job) -> Request:
    """Return a request for as many nodes as the job has."""
    chunk = Chunk(max(job.nodes, 1), -(-job.cpus // max(job.nodes, 1)))
    return Request(job.partitions, (chunk,), whole_nodes=job.whole_nodes, reservation=job.reservation)


def plain_cluster(jobs: Iterable[Job]) -> Cluster:
    """Return a cluster with many nodes of unknown equipment in each partition of the jobs."""
    names = sorted({name for job in jobs for name in job.partitions})
    pools = tuple(Pool(NodeType(UNKNOWN), frozenset({name}), 10_000) for name in names)
    return Cluster(pools, {name: Partition(name, shared=True) for name in names})


def prices(*per_mwh: float, from_s: int = MIDNIGHT_S, step_s: int = HOUR_S) -> Series:
    """Return prices from midnight on, an hour each."""
    start_s = from_s + step_s * np.arange(len(per_mwh), dtype=np.int64)
    return Series(start_s, from_s + step_s * len(per_mwh), np.array(per_mwh, np.float64), "EUR/MWh", "test")


@dataclass(frozen=True)
class Site:
    """Jobs and marks as they are, and the rest of the facts of the hook."""

    jobs: tuple[Job, ...]
    ranking: Ranking = Ranking.VALUE
    marks: tuple[JobMark, ...] = ()
    notices: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, rules: QueueRules = RULES, *, now_s: int = NOW_S, **others: Any) -> QueuePlan:
        """Return the hook's plan; `others` are facts besides jobs and marks."""
        known = {
            "cluster": plain_cluster(self.jobs),
            "peak": Peak.ON_PEAK,
            "marks": self.marks,
            "notices": self.notices,
            **self.facts,
            **others,
        }
        return plan_queue(QueueFacts(now_s, self.jobs, self.ranking, **known), rules)

    def apply(self, plan: QueuePlan, *, now_s: int = NOW_S) -> "Site":
        """Write the plan as Slurm and the ledger would."""
        jobs = tuple(self._written(job, plan, now_s) for job in self.jobs)
        return replace(self.remember(plan), jobs=jobs, notices={**self.notices, **plan.tell})

    def remember(self, plan: QueuePlan) -> "Site":
        """Write only the marks, as before a crash; what a mark says that `was` stays."""
        kept = {(mark.job, mark.submitted_unix_s, mark.kind): mark for mark in self.marks}
        for mark in (*plan.remember, *plan.seen):
            key = (mark.job, mark.submitted_unix_s, mark.kind)
            kept[key] = replace(mark, was=kept.get(key, mark).was)
        for mark in plan.forget:
            kept.pop((mark.job, mark.submitted_unix_s, mark.kind), None)
        return replace(self, marks=tuple(kept.values()))

    def _written(self, job: Job, plan: QueuePlan, now_s: int) -> Job:
        if job.job_id in plan.begin_s:
            job = job._replace(begin_s=max(now_s, plan.begin_s[job.job_id]))
        if job.job_id not in plan.rank:
            return job
        value = plan.rank[job.job_id]
        if self.ranking is Ranking.VALUE:
            return job._replace(priority=value)
        priority = job.priority + value - job.offset
        return job._replace(offset=value, priority=priority if self.ranking is Ranking.TERM else max(1, priority))

    def order(self) -> list[str]:
        """Return all pending jobs in the scheduler's order."""
        pending = [job for job in self.jobs if job.state is JobState.PENDING]
        return [job.job_id for job in sorted(pending, key=lambda job: (-job.priority, job_number(job.job_id)))]


def with_draws(*power_w: float, **fields: Any) -> Site:
    """Return a site of jobs 1, 2, ... with these draws [W per node]."""
    jobs = tuple(a_job(at) for at in range(1, len(power_w) + 1))
    draws = {job.job_id: float(value) for job, value in zip(jobs, power_w, strict=True)}
    return Site(jobs, facts={"node_power_w": draws}, **fields)


def by_id(jobs: Iterable[Job]) -> dict[str, Job]:
    """Return the jobs by their ids."""
    return {job.job_id: job for job in jobs}
