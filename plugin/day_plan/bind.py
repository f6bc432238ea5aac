"""Begin times that keep a cap: without them the scheduler starts a job as soon as nodes are free, whatever it draws."""

from dataclasses import replace

from offpeak.model.facility import PowerCap
from plugin.day_plan.day_plan import PlannedJob
from plugin.day_plan.sight import Sight
from plugin.queue_hook.words import clock


def bound(job: PlannedJob, sight: Sight) -> PlannedJob:
    """Return the job with its planned start as its begin, if by starting sooner it could run while a cap holds.

    When the cap is over it may start at any time. Nobody binds a job whose owner said offpeak:now.
    """
    now_s = sight.queue.now_s
    caps = _met(sight, job)
    if not caps or job.opted_out or (job.start_s is not None and job.start_s <= now_s):
        return job
    cap = max(caps, key=lambda each: each.until_s)
    begin_s = cap.until_s if job.start_s is None else min(job.start_s, cap.until_s)
    until = clock(cap.until_s, now_s, sight.rules.zone)
    why = f"power is capped at {cap.cap_w:,} W until {until}: {cap.reason}"
    return replace(job, begin_s=begin_s, waits_for_price=False, why=why)


def _met(sight: Sight, job: PlannedJob) -> list[PowerCap]:
    """Return the caps under which the job could run if it started between now and its planned start."""
    now_s = sight.queue.now_s
    over_s = (now_s if job.start_s is None else job.start_s) + job.run_s
    return [cap for cap in sight.caps if cap.until_s > now_s and cap.from_s < over_s]
