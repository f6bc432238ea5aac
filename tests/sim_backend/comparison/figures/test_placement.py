"""Where jobs are drawn: each has its units while it runs, and never shares one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.comparison.figures import placed
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 12


@st.composite
def schedules(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Jobs that never need more units than there are: each starts when enough others have ended."""
    rows = draw(st.lists(st.tuples(st.integers(1, NODES), st.integers(1, 9), st.integers(0, 4)), max_size=30))
    running: list[tuple[int, int]] = []
    now, made = 0, []
    for size, length_s, pause_s in rows:
        now += pause_s
        while sum(held for end, held in running if end > now) + size > NODES:
            now += 1
        running.append((now + length_s, size))
        made.append((size, now, now + length_s))
    size, start_s, end_s = np.array(made, np.int64).reshape(-1, 3).T
    return size, start_s, end_s


@given(schedules())
def test_each_job_has_its_units_and_none_is_shared(schedule: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    size, start_s, end_s = schedule
    blocks = placed(size, start_s, end_s, machine_size=NODES)
    assert np.all((blocks.low >= 0) & (blocks.low < blocks.high) & (blocks.high <= NODES))
    assert np.bincount(blocks.job, weights=blocks.high - blocks.low, minlength=len(size)).tolist() == size.tolist()
    for second in range(int(end_s.max(initial=0))):
        running = (start_s[blocks.job] <= second) & (second < end_s[blocks.job])
        units = [
            u for low, high in zip(blocks.low[running], blocks.high[running], strict=True) for u in range(low, high)
        ]
        assert len(units) == len(set(units))


def test_the_lowest_block_that_is_wide_enough_else_pieces() -> None:
    """Units 0-3, 4-5, 6-9; the middle one goes: a job of 3 fits beyond, one of 4 needs the gap and the end."""
    start_s, end_s = np.array([0, 0, 0, 5, 6]), np.array([9, 5, 9, 6, 9])
    blocks = placed(np.array([4, 2, 3, 3, 5]), start_s, end_s, machine_size=12)
    made = list(zip(blocks.job.tolist(), blocks.low.tolist(), blocks.high.tolist(), strict=True))
    assert made == [(0, 0, 4), (1, 4, 6), (2, 6, 9), (3, 9, 12), (4, 4, 6), (4, 9, 12)]


def test_an_empty_schedule_has_no_blocks() -> None:
    none = np.empty(0, np.int64)
    assert len(placed(none, none, none, machine_size=3).job) == 0


def test_a_wide_machine_takes_no_longer_than_a_narrow_one() -> None:
    jobs = lublin_jobs(500, machine_size=100_000, seed=3)
    start_s = np.cumsum(jobs.runtime_s) - jobs.runtime_s
    blocks = placed(jobs.size, start_s, start_s + jobs.runtime_s, machine_size=100_000)
    assert len(blocks.job) == 500
