"""The measures of a schedule: each once, with its unit and its source.

Times are trace seconds. `wait` is from submission to start, `response` from submission to end.
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64

SHORTEST_S = 10
"""Jobs shorter than this count as this long in a bounded slowdown."""


def bounded_slowdown(wait_s: Int64, runtime_s: Int64) -> Float64:
    """Return max((wait + run) / max(run, 10 s), 1).

    Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", 2018, section 4; the
    definition of Feitelson et al., JSSPP 1997.
    """
    return np.maximum((wait_s + runtime_s) / np.maximum(runtime_s, SHORTEST_S), 1.0)


def bounded_slowdown_by_delay(wait_s: Int64, runtime_s: Int64) -> Float64:
    """Return 1 + wait / max(10 s, run): differs from `bounded_slowdown` for jobs shorter than 10 s.

    Source: Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005.
    """
    return 1.0 + wait_s / np.maximum(runtime_s, SHORTEST_S)


def makespan_s(submit_s: Int64, end_s: Int64) -> int:
    """Return the time from the first submission to the last end."""
    return int(end_s.max() - submit_s.min())


def utilization(size: Int64, runtime_s: Int64, *, machine_size: int, period_s: int) -> float:
    """Return the share of the machine's unit-seconds over the period that ran jobs (0 for an empty period).

    Source: Yang et al., SC 2013: node-hours used for computation over elapsed node-hours.
    """
    return float((size * runtime_s).sum()) / (machine_size * period_s) if period_s > 0 else 0.0


def postponement_s(start_s: Int64, baseline_start_s: Int64) -> Int64:
    """Return how much later than under the baseline each job starts; negative where it starts earlier."""
    return start_s - baseline_start_s


def response_ratio(response_s: Int64, baseline_response_s: Int64) -> float:
    """Return the geometric mean over jobs of baseline response over response: above 1 users are served faster.

    Responses below 1 s count as 1 s. Source: Murali and Vadhiyar 2018, section 4, fairness to the system.
    """
    ratio = np.log(np.maximum(baseline_response_s, 1)) - np.log(np.maximum(response_s, 1))
    return float(np.exp(ratio.mean()))
