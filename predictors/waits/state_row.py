"""A job and the state that it is submitted into, as one row of numbers: what waits are predicted from.

The first eight are those of Murali and Vadhiyar, "Qespera", CCPE 28(9), 2016, as listed in their "Metascheduling of HPC
jobs in day-ahead electricity markets", section 3.1. The others measure how far the machine is from having room.
"""

from typing import NamedTuple

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, WEEK_S

FEATURES = (
    "size",
    "estimate_s",
    "queued_units",
    "queued_estimate_s",
    "queued_waited_s",
    "used_units",
    "running_since_s",
    "running_estimate_s",
    "queued_jobs",
    "queued_work_s",
    "queued_work_narrower_s",
    "queued_work_shorter_s",
    "queued_within_hour",
    "longest_waited_s",
    "running_work_s",
    "missing_units",
    "room_after_s",
    "second_of_day",
    "second_of_week",
)
"""Work is unit-seconds by estimates, divided by the machine's units: seconds of the whole machine."""

PUBLISHED = 8


class JobColumns(NamedTuple):
    """Jobs as columns of one length; a job that has not started has no start and no end."""

    size: Int64
    submit_s: Int64
    estimate_s: Int64
    start_s: Int64
    expected_end_s: Int64


class SubmittedJob(NamedTuple):
    """A job that is submitted at `now_s` to a machine with so many usable units."""

    now_s: int
    units: int
    size: int
    estimate_s: int


@kernel
def write_row(row: Float64, submitted: SubmittedJob, jobs: JobColumns, running: Int64, queued: Int64) -> None:
    """Write the features of a job. `running` are indices of `jobs` by expected end, `queued` others."""
    row[0] = submitted.size
    row[1] = submitted.estimate_s
    _write_queue(row, submitted, jobs, queued)
    _write_running(row, submitted, jobs, running)
    row[16] = _room_after_s(submitted, jobs, running)
    row[17] = submitted.now_s % DAY_S
    row[18] = submitted.now_s % WEEK_S


@kernel
def _write_queue(row: Float64, submitted: SubmittedJob, jobs: JobColumns, queued: Int64) -> None:
    row[8] = len(queued)
    for job in queued:
        waited_s = submitted.now_s - jobs.submit_s[job]
        work_s = jobs.size[job] * jobs.estimate_s[job] / submitted.units
        row[2] += jobs.size[job]
        row[3] += jobs.estimate_s[job]
        row[4] += waited_s
        row[9] += work_s
        row[10] += work_s if jobs.size[job] <= submitted.size else 0.0
        row[11] += work_s if jobs.estimate_s[job] <= submitted.estimate_s else 0.0
        row[12] += waited_s < HOUR_S
        row[13] = max(row[13], waited_s)


@kernel
def _write_running(row: Float64, submitted: SubmittedJob, jobs: JobColumns, running: Int64) -> None:
    for job in running:
        row[5] += jobs.size[job]
        row[6] += submitted.now_s - jobs.start_s[job]
        row[7] += jobs.expected_end_s[job] - jobs.start_s[job]
        row[14] += jobs.size[job] * max(jobs.expected_end_s[job] - submitted.now_s, 0) / submitted.units
    row[15] = row[5] + submitted.size - submitted.units


@kernel
def _room_after_s(submitted: SubmittedJob, jobs: JobColumns, running: Int64) -> float:
    """Return the seconds until the job would fit with only the running jobs; at least a second if not now."""
    missing = submitted.size - submitted.units
    for job in running:
        missing += jobs.size[job]
    if missing <= 0:
        return 0.0
    for job in running:
        missing -= jobs.size[job]
        if missing <= 0:
            return float(max(jobs.expected_end_s[job] - submitted.now_s, 1))
    return float(WEEK_S)
