"""Fits a log's jobs to a machine: in its allocation unit, without those that could never run on it."""

from dataclasses import replace

from offpeak.errors import BadTrace
from offpeak.model.jobs import Jobs, RejectedJobs, Trace


def runnable(trace: Trace, size_limit: int) -> tuple[Jobs, tuple[RejectedJobs, ...]]:
    """Return the jobs of at most `size_limit` units, and all rejected ones; BadTrace if no job is left."""
    wide = trace.jobs.size > size_limit
    rejected = trace.rejected
    if wide.any():
        job_ids = tuple(trace.jobs.job_id[wide].tolist())
        rejected = (*rejected, RejectedJobs(f"wider than the machine ({size_limit})", job_ids))
    if wide.all():
        fault = f"no job can run: {reasons_text(rejected)}"
        raise BadTrace(f"{trace.name}: {fault}", hint="give the machine's size with --nodes")
    return (trace.jobs.take(~wide) if wide.any() else trace.jobs), rejected


def reasons_text(rejected: tuple[RejectedJobs, ...]) -> str:
    """Say why no job of a log is left."""
    return "; ".join(f"{len(each.job_ids):,} {each.reason}" for each in rejected) or "it is empty"


def whole_nodes(jobs: Jobs, processors_per_node: int) -> Jobs:
    """Return the jobs with sizes in whole nodes instead of processors, rounded up."""
    asked, used = (-(-size // processors_per_node) for size in (jobs.size, jobs.as_logged().size))
    return replace(jobs.with_size(asked), logged_size=None if jobs.logged_size is None else used)
