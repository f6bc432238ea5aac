"""Jobs with logged starts, drawn by hypothesis or written as rows."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from offpeak.model.jobs import Jobs, Trace
from offpeak_studies.workloads.generate import lublin_jobs

Row = tuple[int, int, int, int]
"""Submit, wait, run time [s] and size of a job."""

ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(0, 25), st.integers(1, 6)), min_size=1, max_size=25
)


def logged(rows: list[Row]) -> Jobs:
    """Return the jobs, in the order of their submission."""
    submit_s, wait_s, runtime_s, size = (np.array(column, np.int64) for column in zip(*sorted(rows), strict=True))
    jobs = lublin_jobs(len(rows), machine_size=8, seed=1)
    starts = submit_s + wait_s
    return replace(jobs, submit_s=submit_s, logged_start_s=starts, runtime_s=runtime_s, estimate_s=runtime_s, size=size)


def trace_of_jobs(jobs: Jobs) -> Trace:
    """Return a log of whole nodes that says nothing of its machine."""
    return Trace("a log", jobs, None, None, 0, None, units_per_node=1)
