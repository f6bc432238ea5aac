"""The features of jobs that are, or would be, submitted into a snapshot."""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from predictors.waits.question import NO_JOB, WaitQuestions
from predictors.waits.state_row import FEATURES, Asked, Columns, write_row

UNKNOWN = -1


def features(snapshot: Snapshot, size: Int64, estimate_s: Int64) -> Float64:
    """Return float64[n, len(FEATURES)]: one row for each of n jobs, each submitted alone after those in the queue."""
    running, queued = snapshot.running, snapshot.queued
    unknown_s = np.zeros(len(queued.size), dtype=np.int64)
    jobs = Columns(
        np.concatenate([running.size, queued.size]),
        np.concatenate([running.submit_s, queued.submit_s]),
        np.concatenate([running.expected_end_s - running.start_s, queued.estimate_s]),
        np.concatenate([running.start_s, unknown_s]),
        np.concatenate([running.expected_end_s, unknown_s]),
    )
    by_end = np.argsort(running.expected_end_s, kind="stable")
    waiting = np.arange(len(by_end), len(jobs.size))
    return _rows(snapshot.now_s, max(snapshot.usable_units, 1), size, estimate_s, jobs, by_end, waiting)


@kernel
def _rows(
    now_s: int, units: int, size: Int64, estimate_s: Int64, jobs: Columns, running: Int64, queued: Int64
) -> Float64:
    rows = np.zeros((len(size), len(FEATURES)))
    for number in range(len(size)):
        asked = Asked(now_s, units, size[number], estimate_s[number])
        write_row(rows[number], asked, jobs, running, queued)
    return rows


def if_submitted_now(
    snapshot: Snapshot, *, size: int, estimate_s: int, user: int = UNKNOWN, queue: int = UNKNOWN
) -> WaitQuestions:
    """Return the question how long a job that does not exist yet would wait, were it submitted into the snapshot."""
    rows = features(snapshot, np.array([size]), np.array([estimate_s]))
    return WaitQuestions(np.array([NO_JOB]), np.array([user]), np.array([queue]), rows, np.array([0]), (snapshot,))
