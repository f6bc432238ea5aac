"""The rules by which the engine schedules, and the codes that its kernels share with their callers.

Time is integer seconds of the trace. Ties are decided by the order of submission and, among running jobs, by the number
of the start.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import by_reference
from offpeak.model.arrays import Int64
from offpeak.plugin.priority_bands import NO_BANDS, BandWidths

NEVER = np.iinfo(np.int64).max
NOT_YET = -1
PAUSED, FINISHED, DECIDE, CAPACITY, LOG_FULL, FULL = range(6)
"""Why `advance` returns."""

FCFS, EASY, CONSERVATIVE, FIRST_FIT, BEST_FIT = range(5)
USER_ESTIMATE, EXACT_RUNTIME, PREDICTED_RUNTIME, FORESEEN_RUNTIME = range(4)
CAN_BE_OUTLIVED = PREDICTED_RUNTIME
"""From this code on, a job may run longer than the scheduler expects."""


class SchedulingRules(NamedTuple):
    """One policy's rules.

    `policy` is the code of a window policy (offpeak.plugin.window_policy), `window` the number of queued jobs that it
    may reorder, `period_s` the interval of scheduling passes (0: at each event), `max_postponement_s` the time after
    which a job that was passed over keeps its place. `pass_per_event`: a pass after every single event, submissions
    first, as in the simulator pyss; otherwise one pass a second after all its events.
    """

    discipline: int
    policy: int
    window: int
    period_s: int
    max_postponement_s: int
    estimates: int
    pass_per_event: bool


@by_reference
class EngineRules(NamedTuple):
    """How the engine schedules.

    `reservations`: of so many blocked jobs of each competition group the start is reserved, and later jobs start only
    where they do not delay it: 0 is FCFS, 1 is EASY. With `ends_before` they start only where they end before it, as
    first and best fit demand; with `widest_first`, as for best fit, the widest of them starts first. `policy`,
    `window`, `max_postponement_s`, `estimates`, `pass_per_event`: see SchedulingRules.
    Slurm's timing, 0 for none: full passes take place at multiples of `bf_interval_s`, and passes at multiples of
    `sched_interval_s`; nodes are taken for `completing_s` after a job has ended. A job that was stopped waits again
    after `requeue_s`. The policy orders the queue at
    multiples of `order_interval_s`, as the agent does in its cycles; 0: at each pass. `knapsack-slide` keeps jobs from
    starting, so it always decides at each pass. Slurm's search for the start of a blocked job takes expected ends
    within a window together. The window begins at the multiple of `end_window_s` behind the first end and is as long, 0
    for none; at each step it is extended by `end_window_step_s`, or doubled where that is 0. A reservation keeps whole
    nodes, also of those that jobs share, for whole steps of `bf_resolution_s`; 0: what its job requests, for the time
    of the job. A job on woken nodes starts at the next multiple of `boot_check_s`. `widths` are those of the bands
    within which the policy may move jobs. With `promises` every job has a promised start, on a pool of which only the
    units are counted.
    """

    reservations: int
    policy: int
    window: int
    max_postponement_s: int
    sched_interval_s: int
    bf_interval_s: int
    completing_s: int
    order_interval_s: int = 0
    end_window_s: int = 0
    end_window_step_s: int = 0
    boot_check_s: int = 0
    requeue_s: int = 0
    bf_resolution_s: int = 0
    ends_before: bool = False
    widest_first: bool = False
    estimates: int = USER_ESTIMATE
    pass_per_event: bool = False
    widths: BandWidths = NO_BANDS
    promises: bool = False


class PeakTimes(NamedTuple):
    """From `at_s[i]` on the price is in state `peak[i]` (a `Peak`); before `at_s[0]` it is unknown."""

    at_s: Int64
    peak: NDArray[np.int8]


NO_PEAKS = PeakTimes(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8))
