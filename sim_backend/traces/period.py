"""Cuts a log to a period: what was waiting or running at its begin is there from its first second on."""

from dataclasses import fields, replace

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.jobs import Jobs, Trace
from offpeak.model.local_time import DAY_S
from sim_backend.traces.fitting import reasons_text

FEW_JOBS = 100
"""So few jobs are not taken for the last days of a busy machine: such a log is whole from its first start on."""

_NONE = np.empty(0, np.int64)
NO_JOBS = Jobs(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0))


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
    if days is not None:
        begin_s = max(begin_s, until_s - days * DAY_S)
    # Nothing refers to a trace that only this function was given: `between` can free what it has cut.
    given = [trace]
    del trace
    return between(given.pop(), begin_s, until_s)


def between(trace: Trace, begin_s: int, until_s: int) -> Trace:
    """Return the log as if it had begun at `begin_s` and ended at `until_s`: all jobs whose starts were logged in it.

    A job that was running at the begin is submitted then with the rest of its run time and estimate, one that was
    waiting is submitted then; one that is running at the end has the run time up to there. BadTrace if no job ran.
    """
    jobs = trace.jobs
    if len(jobs) and jobs.submit_s[0] >= begin_s and (jobs.logged_start_s + jobs.runtime_s).max() <= until_s:
        return trace
    columns = {each.name: getattr(jobs, each.name) for each in fields(Jobs)}
    whole = replace(trace, jobs=NO_JOBS)
    del trace, jobs
    logged_start_s = columns.pop("logged_start_s")
    start_s = np.maximum(logged_start_s, begin_s)
    end_s = np.minimum(logged_start_s + columns.pop("runtime_s"), until_s)
    inside = ((end_s > begin_s) | (logged_start_s >= begin_s)) & (logged_start_s <= until_s)
    if not inside.any():
        raise BadTrace(f"{whole.name}: no job ran in the period asked for", hint="more --days, or a newer log")
    submit_s = np.clip(columns.pop("submit_s"), begin_s, start_s)
    order = np.flatnonzero(inside)
    order = order[np.argsort(submit_s[order], kind="stable")]
    cut = {"submit_s": submit_s[order]}
    del submit_s, inside
    cut["estimate_s"] = np.maximum(columns.pop("estimate_s") - (start_s - logged_start_s), 1)[order]
    del logged_start_s
    cut["runtime_s"] = (end_s - start_s)[order]
    del end_s
    cut["logged_start_s"] = start_s[order]
    del start_s
    logged_size = columns.pop("logged_size")
    while columns:
        name, column = columns.popitem()
        cut[name] = column[order]
    return replace(whole, jobs=Jobs(**cut, logged_size=None if logged_size is None else logged_size[order]))
