"""Why jobs start at other times than the plan before had said."""

from plugin.day_plan.day_plan import DayPlan, Move, PlannedJob
from plugin.day_plan.refit import NEWS_S


def moves_of(before: DayPlan | None, plan: DayPlan) -> tuple[Move, ...]:
    """Return each job whose start is another, in the order of the new plan; new jobs are no news."""
    if before is None:
        return ()
    general = _what_happened(before, plan)
    return tuple(
        Move(job.job_id, old.start_s, job.start_s, _why(old, job, before, plan) or general)
        for job in plan.jobs
        if (old := before.by_id.get(job.job_id)) is not None and _differs(old.start_s, job.start_s)
    )


def _differs(one_s: int | None, other_s: int | None) -> bool:
    if one_s is None or other_s is None:
        return one_s is not other_s
    return abs(one_s - other_s) > NEWS_S


def _why(old: PlannedJob, job: PlannedJob, before: DayPlan, plan: DayPlan) -> str:
    """Return what of the job itself has changed, "" if nothing has."""
    if job.waits_for_price != old.waits_for_price:
        return job.why if job.waits_for_price else "a cheaper hour is not worth the wait any more"
    if plan.caps != before.caps:
        return "a power cap has changed"
    if old.begin_s != job.begin_s and job.begin_s:
        return job.why or "its begin was set by hand"
    if old.start_s is not None and old.start_s <= plan.at_s:
        return "the nodes it was to have are not free yet"
    if old.run_s != job.run_s:
        return "another run time is expected"
    return ""


def _what_happened(before: DayPlan, plan: DayPlan) -> str:
    """Return what has happened since to others."""
    ran, runs = ({load.job_id: load for load in each.loads} for each in (before, plan))
    early = sum(job not in runs and load.until_s > plan.at_s for job, load in ran.items())
    late = sum(job in ran and load.until_s > ran[job].until_s + NEWS_S for job, load in runs.items())
    new = len(plan.by_id.keys() - before.by_id.keys())
    gone = len(before.by_id.keys() - plan.by_id.keys() - runs.keys())
    said = [
        f"{early} ended early" if early else "",
        f"{late} run longer than expected" if late else "",
        f"{new} were submitted" if new else "",
        f"{gone} vanished" if gone else "",
    ]
    return ", ".join(each for each in said if each) or "nodes, prices or the order have changed"
