"""Puts the plans of all pools together: one plan of the queue, in the scheduler's words and on its clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plugin.day_plan.beside import idle_w
from plugin.day_plan.bind import bound
from plugin.day_plan.course import course_of
from plugin.day_plan.day_plan import DayPlan, Load, PlannedJob
from plugin.day_plan.holds import Hold
from plugin.day_plan.moves import moves_of
from plugin.day_plan.pools import run_s_of
from plugin.day_plan.question import Question
from plugin.day_plan.remarks import remarks_of
from plugin.day_plan.sight import Sight
from plugin.planner.plan import TOMORROW, Plan, first_unit
from plugin.planner.problem import Rates
from plugin.planner.verify import verify
from plugin.queue_hook.consent import consent_of
from plugin.scheduler.job import Job


@dataclass(frozen=True, eq=False)
class Answer:
    """A pool's question and plan under its holds; `wished` are the jobs for which, alone, a cheaper hour is best."""

    question: Question
    plan: Plan
    holds: Mapping[str, Hold]
    wished: frozenset[str] = frozenset()


def joined(
    sight: Sight,
    rates: Rates,
    loads: tuple[Load, ...],
    left_out: Mapping[str, str],
    answers: Sequence[Answer],
    standing: DayPlan | None,
) -> DayPlan:
    """Return the plan of all pools; `loads` are all jobs that have nodes, `rates` hold for the whole machine."""
    jobs = tuple(bound(job, sight) for answer in answers for job in _planned(sight, answer))
    wished = frozenset[str]().union(*(answer.wished for answer in answers))
    held = {job.job_id for job in jobs if job.waits_for_price}
    plan = DayPlan(
        at_s=sight.queue.now_s,
        until_s=sight.queue.now_s + rates.horizon_s,
        currency=sight.queue.prices.currency if sight.queue.prices else "",
        jobs=jobs,
        loads=loads,
        left_out=left_out,
        course=course_of(sight, rates, jobs, loads, idle_w=idle_w(sight)),
        caps=sight.caps,
        not_held=wished - held,
        violations=tuple(each for one in answers for each in verify(one.question.problem, one.plan).violations),
    )
    notes = dict.fromkeys(answer.plan.note for answer in answers if answer.plan.note)
    return replace(plan, moves=moves_of(standing, plan), remarks=(*remarks_of(sight, plan), *notes))


def _planned(sight: Sight, answer: Answer) -> list[PlannedJob]:
    pool, plan, work = answer.question.pool, answer.plan, answer.question.problem.work
    firsts, found = first_unit(work).tolist(), []
    for at, job in enumerate(pool.waiting):
        start_s = int(plan.start_s[at])
        rows = plan.node[firsts[at] : firsts[at + 1]].tolist() if start_s != TOMORROW else ()
        hosts = tuple(pool.nodes[row].name for row in rows)
        found.append(_planned_job(sight, job, answer.holds[job.job_id], start_s, hosts))
    return found


def _planned_job(sight: Sight, job: Job, hold: Hold, start_s: int, hosts: tuple[str, ...]) -> PlannedJob:
    facts = sight.queue
    return PlannedJob(
        job.job_id,
        job.user,
        job.partitions,
        max(job.nodes, 1),
        None if start_s == TOMORROW else facts.now_s + start_s,
        run_s_of(job, facts) or 1,
        facts.node_power_w[job.job_id] * max(job.nodes, 1),
        hosts,
        hold.begin_s,
        "electricity is cheaper then" if hold.for_price else "",
        hold.latest_start_s,
        hold.for_price,
        consent_of(job.comment, sight.rules.zone).now,
    )
