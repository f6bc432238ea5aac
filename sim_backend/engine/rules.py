"""The scheduling rules of a replay, as the numbers that the kernels use."""

from typing import NamedTuple

FCFS, EASY, CONSERVATIVE, FIRST_FIT, BEST_FIT = range(5)
USER_ESTIMATE, EXACT_RUNTIME, PREDICTED_RUNTIME, FORESEEN_RUNTIME = range(4)
CAN_BE_OUTLIVED = PREDICTED_RUNTIME
"""From this code on, a job may run longer than the scheduler expects."""


class SchedulingRules(NamedTuple):
    """One policy's rules.

    `policy` is the code of a window policy (plugin.window_policy), `window` the number of queued jobs that it may
    reorder, `period_s` the interval of scheduling passes (0: at each event), `max_postponement_s` the time after which
    a job that was passed over keeps its place. `pass_per_event`: a pass after every single event, submissions first, as
    in the simulator pyss; otherwise one pass a second after all its events.
    """

    discipline: int
    policy: int
    window: int
    period_s: int
    max_postponement_s: int
    estimates: int
    pass_per_event: bool
