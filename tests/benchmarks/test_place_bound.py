"""The bound of place is below every policy on small federations, and exact where it can be."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.place_bound import (
    POLICIES,
    REFERENCE,
    RULES,
    DailySeries,
    HourlyWork,
    Sample,
    grid_of,
    lower_bound,
    run_policy,
    work_of,
)
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs, make_jobs

SAME_END, SAME_WAIT, PLACE, NO_LIMIT = RULES
MONDAY_S = 1_704_067_200
DAYS = 20


def jobs_from(rows: list[tuple[int, int, int, int]], most: int) -> Jobs:
    """Return jobs from their submissions [s], nodes, run times [s] and estimates, none wider than its home."""
    submit_s, size, runtime_s, over_s = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return make_jobs(MONDAY_S + 7 * DAY_S + submit_s, np.minimum(size, most), runtime_s, runtime_s + over_s)


@st.composite
def federations(draw: st.DrawFn) -> Sample:
    """Return sites on random electricity, also below zero."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    row = st.tuples(st.integers(0, DAY_S), st.integers(1, 4), st.integers(1, 8 * HOUR_S), st.integers(0, HOUR_S))
    parts = [jobs_from(draw(st.lists(row, min_size=1, max_size=6)), size) for size in sizes]
    pue = [draw(st.sampled_from([1.0, 1.5])) for _ in sizes]
    kind, rng = draw(st.sampled_from(["cost", "CO2"])), np.random.default_rng(draw(st.integers(0, 99)))
    series = tuple(DailySeries(rng.uniform(-50, 100, (DAYS, 24)), MONDAY_S, kind) for _ in sizes)
    return Sample(kind, "", grid_of(kind, sizes, series, parts, pue), series)


@settings(max_examples=8, deadline=None)
@given(federations())
def test_no_policy_is_below_a_bound(sample: Sample) -> None:
    schedules = {name: run_policy(sample, policy) for name, policy in POLICIES.items()}
    reference = work_of(sample, schedules[REFERENCE])
    for schedule in schedules.values():
        work, charge = work_of(sample, schedule), sample.charge(schedule)
        bounds = [lower_bound(work, rule).cost for rule in RULES]
        close = 1e-6 * max(abs(charge), 1.0)
        assert all(bound <= charge + close for bound in bounds)
        assert bounds[0] <= bounds[1] + close
        assert bounds[3] <= bounds[2] + close
        ends_in_time = work.done.shape[1] <= reference.done.shape[1]
        if ends_in_time and work.waiting_node_h <= reference.waiting_node_h:
            assert lower_bound(reference, SAME_WAIT).cost <= charge + close


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_bound_is_the_best_schedule_of_jobs_of_one_node_and_hour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, hours, nodes = int(rng.integers(1, 8)), 8, rng.integers(1, 3, 2)
    submitted, value = rng.integers(0, 4, jobs), rng.uniform(-5, 10, (2, hours))
    soonest = np.bincount(submitted, minlength=hours)[None, :].astype(np.float64)
    work = HourlyWork(np.ones((1, 2), np.bool_), soonest, soonest, nodes, value)
    cells = [(site, hour) for site in (0, 1) for hour in range(hours) for _ in range(nodes[site])]
    cost = np.array([[value[cell] if cell[1] >= at else 1e6 for cell in cells] for at in submitted])
    best = cost[scipy.optimize.linear_sum_assignment(cost)].sum()
    assert lower_bound(work, SAME_END).cost == pytest.approx(best)
