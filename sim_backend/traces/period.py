"""Cuts a log to a period: what was waiting or running at its begin is there from its first second on."""

from dataclasses import replace

import numpy as np

from offpeak.errors import BadTrace
from offpeak.jobs import Jobs, Trace
from offpeak.zones import DAY_S
from sim_backend.traces.fitting import reasons_text

FEW_JOBS = 100
"""So few jobs are not taken for the last days of a busy machine: such a log is whole from its first start on."""


def known_period_s(jobs: Jobs) -> tuple[int, int]:
    """Return the seconds between which a log of jobs that ran is whole: the last one before any job ended, and the end.

    A scheduler asked for the jobs of some days answers with all that ran in them, also those that began long before.
    """
    ends = jobs.logged_start_s + jobs.runtime_s
    begins = jobs.logged_start_s if len(jobs) < FEW_JOBS else ends - 1
    return int(begins.min()), int(ends.max())


def last_days(trace: Trace, days: int | None) -> Trace:
    """Return the log of its last days, or all that it knows whole. BadTrace if no job ran then."""
    if not len(trace.jobs):
        raise BadTrace(f"{trace.name}: no job ran: {reasons_text(trace.rejected)}", hint="a log of more days is needed")
    begin_s, until_s = known_period_s(trace.jobs)
    return between(trace, begin_s if days is None else max(begin_s, until_s - days * DAY_S), until_s)


def between(trace: Trace, begin_s: int, until_s: int) -> Trace:
    """Return the log as if it had begun at `begin_s` and ended at `until_s`: all jobs whose starts were logged in it.

    A job that was running at the begin is submitted then with the rest of its run time and estimate, one that was
    waiting is submitted then; one that is running at the end has the run time up to there. BadTrace if no job ran.
    """
    jobs = trace.jobs
    if len(jobs) and jobs.submit_s[0] >= begin_s and (jobs.logged_start_s + jobs.runtime_s).max() <= until_s:
        return trace
    start_s = np.maximum(jobs.logged_start_s, begin_s)
    end_s = np.minimum(jobs.logged_start_s + jobs.runtime_s, until_s)
    inside = ((end_s > begin_s) | (jobs.logged_start_s >= begin_s)) & (jobs.logged_start_s <= until_s)
    if not inside.any():
        raise BadTrace(f"{trace.name}: no job ran in the period asked for", hint="more --days, or a newer log")
    cut = replace(
        jobs,
        submit_s=np.clip(jobs.submit_s, begin_s, start_s),
        logged_start_s=start_s,
        runtime_s=end_s - start_s,
        estimate_s=np.maximum(jobs.estimate_s - (start_s - jobs.logged_start_s), 1),
    ).take(inside)
    return replace(trace, jobs=cut.take(np.argsort(cut.submit_s, kind="stable")))
