"""How long would one more job wait? The scheduling engine, run on from a snapshot with the job at the queue's end."""

from dataclasses import replace

import numpy as np

from offpeak.snapshot import QueuedJobs, Snapshot
from power.what_if import EASY_RULES, check_units, queued_start_s
from sim_backend.engine.rules import Rules


def planned_wait_s(snapshot: Snapshot, size: int, estimate_s: int, *, rules: Rules = EASY_RULES) -> float:
    """Return the wait [s] of a job submitted now, if all run as long as the snapshot expects and no more come.

    Queued jobs too wide for what is usable are left out. BadInput if this job is, or if running jobs hold more.
    """
    more = _with_job(snapshot.without_too_wide(), size, estimate_s)
    check_units(more, more.usable_units)
    return float(queued_start_s(more, more.usable_units, rules)[-1] - snapshot.now_s)


def _with_job(snapshot: Snapshot, size: int, estimate_s: int) -> Snapshot:
    queued = snapshot.queued
    longer = QueuedJobs(
        np.append(queued.size, size),
        np.append(queued.submit_s, snapshot.now_s),
        np.append(queued.estimate_s, estimate_s),
    )
    return replace(snapshot, queued=longer)
