"""To which run of its job a step belongs."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.slurm.jobs import with_energy_of_steps

Line = tuple[int, bool, bool]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=30))
def test_a_step_belongs_to_the_last_line_of_its_job_before_it_else_to_the_first(lines: list[Line]) -> None:
    """Lines are (number of the job, whether it is a step, whether that is the extern step)."""
    jobs = [(row, number) for row, (number, is_step, _) in enumerate(lines) if not is_step]
    steps = [(row, number, extern) for row, (number, is_step, extern) in enumerate(lines) if is_step]
    parts = {job: [0.0, 0.0] for job in jobs}
    for row, number, extern in steps:
        runs = [job for job in jobs if job[1] == number]
        if runs:
            parts[max((run for run in runs if run[0] < row), default=runs[0])][extern] += 2.0**row
    expected = [sums[1] or sums[0] or np.nan for sums in parts.values()]
    row, number = np.array(jobs, np.int64).reshape(-1, 2).T
    table = pa.table(
        {
            "row": pa.array([step[0] for step in steps], pa.int64()),
            "energy_j": pa.array([2.0 ** step[0] for step in steps], pa.float64()),
            "is_extern": pa.array([step[2] for step in steps], pa.bool_()),
        }
    )
    step_number = np.array([step[1] for step in steps], np.int64)
    found = with_energy_of_steps(np.full(len(jobs), np.nan), number, row, table, step_number)
    np.testing.assert_array_equal(found, expected)
