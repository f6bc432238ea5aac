"""Small random logs that have run: when each job was submitted, started and ended, and the state at each second."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.predictors.waits.questions import WaitOutcomes, WaitQuestions
from offpeak.predictors.waits.states import snapshot_features

UNITS = 16


@dataclass(frozen=True)
class LoggedJobs:
    jobs: Jobs
    start_s: Int64
    end_s: Int64


def jobs_of(rows) -> Jobs:
    """Return jobs of rows (submit, run, estimate, size, user, queue)."""
    submit_s, runtime_s, estimate_s, size, user, queue = np.array(rows, dtype=np.int64).reshape(-1, 6).T.copy()
    unknown, no_power = np.full(len(size), -1), np.full(len(size), np.nan)
    return Jobs(
        np.arange(1, len(size) + 1), submit_s, runtime_s, estimate_s, size, user, unknown, queue, unknown, unknown,
        no_power,
    )  # fmt: skip


@st.composite
def logged_jobs(draw, *, most=25) -> LoggedJobs:
    """Jobs that waited and ran as chance has it, often none of both; they need not fit beside each other."""
    short, code = st.integers(0, 20), st.sampled_from([-1, 0, 1])
    row = st.tuples(st.integers(0, 40), short, short, st.integers(1, UNITS), code, code)
    jobs = jobs_of(sorted(draw(st.lists(row, min_size=1, max_size=most)), key=lambda job: job[0]))
    wait_s = draw(
        st.lists(st.one_of(st.integers(0, 15), st.integers(0, 10**6)), min_size=len(jobs), max_size=len(jobs))
    )
    start_s = jobs.submit_s + np.array(wait_s)
    return LoggedJobs(jobs, start_s, start_s + jobs.runtime_s)


def snapshot_before(log: LoggedJobs, job: int) -> Snapshot:
    """Return the state that a job is submitted into, without the starts of its second."""
    jobs, start_s, now_s = log.jobs, log.start_s, int(log.jobs.submit_s[job])
    runs = sorted(
        (index for index in range(len(jobs)) if start_s[index] < now_s < log.end_s[index]),
        key=lambda index: start_s[index],
    )
    waits = [index for index in range(job) if start_s[index] >= now_s]
    running = RunningJobs(jobs.size[runs], jobs.submit_s[runs], start_s[runs], start_s[runs] + jobs.estimate_s[runs])
    queued = QueuedJobs(jobs.size[waits], jobs.submit_s[waits], jobs.estimate_s[waits])
    units = max(UNITS, int(running.size.sum()))
    return Snapshot(now_s, 1, *all_active(units, now_s=now_s), (0, 0, 0), running, queued)


def question_of(log: LoggedJobs, job: int) -> WaitQuestions:
    """Return how long a job would wait, asked as it is submitted."""
    snapshot, one = snapshot_before(log, job), slice(job, job + 1)
    jobs = log.jobs
    rows = snapshot_features(snapshot, jobs.size[one], jobs.estimate_s[one])
    return WaitQuestions(jobs.job_id[one], jobs.user[one], jobs.queue[one], rows, np.array([0]), (snapshot,))


def outcome_of(log: LoggedJobs, job: int) -> WaitOutcomes:
    """Return how long it did wait."""
    return WaitOutcomes(question_of(log, job), (log.start_s - log.jobs.submit_s)[job : job + 1])
