"""Random small populations of jobs: habits, unknown and huge numbers, ties, over-run estimates, no reading."""

import numpy as np
from hypothesis import strategies as st

from offpeak.model.jobs import Jobs

FAR = 2**62
codes = st.sampled_from([-1, 0, 1, 2, FAR])
times = st.one_of(st.sampled_from([0, 1, 60, 3600]), st.integers(0, 10**6))
readings = st.one_of(st.just(float("nan")), st.sampled_from([0.0, 1e-30, 1e9]), st.floats(50, 500))
row = st.tuples(
    st.integers(0, 5000), times, times, st.integers(1, 10**6), codes, codes, codes, codes, st.integers(0, 100), readings
)


def jobs_of(rows) -> Jobs:
    """Return jobs of rows (submit, run time, estimate, size, user, group, queue, application, wait, reading)."""
    rows = sorted(rows, key=lambda each: each[0])
    whole = np.array([each[:9] for each in rows], np.int64).reshape(-1, 9).T.copy()
    reading = np.array([each[9] for each in rows], np.float64)
    return Jobs(np.arange(1, len(rows) + 1), *whole[:8], whole[0] + whole[8], reading)


populations = st.lists(row, max_size=25).map(jobs_of)
alike = st.tuples(row, st.integers(1, 25)).map(lambda one: jobs_of([one[0]] * one[1]))


def user_habits(count: int, seed: int) -> Jobs:
    """Return jobs whose run time and draw hang on user and application, with a tenth of noise; a minute apart."""
    rng = np.random.default_rng(seed)
    user, application = rng.integers(0, 8, count), rng.integers(0, 3, count)
    share = (1 + (3 * user + application) % 7) / 8 * rng.uniform(0.9, 1.0, count)
    estimate_s = rng.choice([3600, 7200, 86_400], count)
    submit_s = 60 * np.arange(count)
    none = np.full(count, -1)
    drawn_w = (100 + 25 * user + 60 * application) * rng.uniform(0.95, 1.05, count)
    return Jobs(
        np.arange(count), submit_s, (share * estimate_s).astype(np.int64), estimate_s, rng.choice([1, 2, 4], count),
        user, none, none, application, submit_s + 10, drawn_w,
    )  # fmt: skip
