"""Jobs that may yet be put off: no node is woken for one of them before the queue loop has dealt with it."""

from collections.abc import Container
from dataclasses import replace
from datetime import tzinfo

from plugin.queue_hook.user_hints import parse_user_hints
from plugin.scheduler.job import JobState
from plugin.scheduler.port import SchedulerView

LONGEST_S = 60
"""A job that the queue loop has not dealt with by then, whatever ails that, has its nodes woken all the same."""


def undecided(view: SchedulerView, decided: Container[str], zone: tzinfo) -> frozenset[str]:
    """Return the jobs that are new, may be put off by their owners' word, and are not among those decided."""
    return frozenset(
        job.job_id
        for job in view.jobs
        if job.state is JobState.PENDING
        and job.job_id not in decided
        and view.at_s - job.submit_s < LONGEST_S
        and parse_user_hints(job.comment, zone).allows_delay
    )


def without(view: SchedulerView, jobs: Container[str]) -> SchedulerView:
    """Return the view without these jobs."""
    return replace(view, jobs=tuple(job for job in view.jobs if job.job_id not in jobs))
