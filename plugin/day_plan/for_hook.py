"""Hands a plan to the queue hook."""

from plugin.day_plan.day_plan import DayPlan
from plugin.queue_hook.planned import Bound, Planned


def planned_of(plan: DayPlan) -> Planned:
    """Return what the hook is to carry out."""
    return Planned(
        start_s={job.job_id: job.start_s for job in plan.jobs if job.start_s is not None},
        bound={
            job.job_id: Bound(job.begin_s, job.why)
            for job in plan.jobs
            if job.begin_s > plan.at_s and job.why and not job.waits_for_price
        },
        not_held=plan.not_held,
    )
