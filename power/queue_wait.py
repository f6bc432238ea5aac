"""How long would one more job wait? The scheduling engine, run on from a snapshot, and the job at the queue's end."""

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from power.what_if import EASY_RULES, all_start_s, check_units, workload_of
from sim_backend.engine.start_forecast import KnownSchedule, start_times_of_one_more


def planned_waits_s(snapshot: Snapshot, size: Int64, estimate_s: Int64) -> Float64:
    """Return the wait [s] under EASY of each of n jobs, were it alone submitted now: float64[n].

    All run as long as the snapshot expects and no more come. Queued jobs too wide for what is usable are left out.
    BadInput if one of the n jobs is, or if running jobs hold more.
    """
    snapshot = snapshot.without_too_wide()
    units, now_s = snapshot.usable_units, snapshot.now_s
    _check(snapshot, int(size.max(initial=0)))
    workload, holders = workload_of(snapshot, units)
    start_s = all_start_s(workload, holders, units, EASY_RULES)
    known = KnownSchedule(start_s, start_s + workload.runtime_s, workload.size)
    return (start_times_of_one_more(known, now_s, units, size, np.maximum(estimate_s, 1)) - now_s).astype(np.float64)


def _check(snapshot: Snapshot, widest: int) -> None:
    check_units(snapshot, snapshot.usable_units)
    if widest > snapshot.usable_units:
        message = f"a job of {widest:,} units cannot run on the {snapshot.usable_units:,} that are usable"
        raise BadInput(message, hint="ask for fewer units, or repair nodes")
