"""The bound of place: below every policy on small federations, exact where it can be, and the recorded tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from study_tables import stored

from benchmarks.logs import trace_file
from benchmarks.place_bound import (
    BOUND_HEAD,
    POLICIES,
    RECORD,
    REFERENCE,
    RULES,
    SAVED_HEAD,
    SHARE_HEAD,
    TABLES,
    DailySeries,
    HourlyWork,
    Sample,
    bound_table,
    draw_sample,
    find_schedule,
    grid_of,
    lower_bound,
    measure_policy,
    read_rows,
    run_policy,
    saved_table,
    share_table,
    work_of,
)
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs, make_jobs

SAME_END, SAME_WAIT, PLACE, NO_LIMIT = RULES
MONDAY_S = 1_704_067_200
DAYS = 20
MWH_OF_NODE_HOUR = 300.0 / 1e6


def jobs_from(rows: list[tuple[int, int, int, int]], most: int) -> Jobs:
    """Return jobs from their submissions [s], nodes, run times [s] and estimates, none wider than its home."""
    submit_s, size, runtime_s, over_s = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return make_jobs(MONDAY_S + 7 * DAY_S + submit_s, np.minimum(size, most), runtime_s, runtime_s + over_s)


def federation(kind: str, sizes: list[int], seed: int, parts: list[Jobs], pue: list[float]) -> Sample:
    """Return sites on random electricity, also below zero."""
    rng = np.random.default_rng(seed)
    series = tuple(DailySeries(rng.uniform(-50, 100, (DAYS, 24)), MONDAY_S, kind) for _ in sizes)
    return Sample(kind, "", grid_of(kind, sizes, series, parts, pue), series)


@st.composite
def federations(draw: st.DrawFn) -> Sample:
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    row = st.tuples(st.integers(0, DAY_S), st.integers(1, 4), st.integers(1, 8 * HOUR_S), st.integers(0, HOUR_S))
    parts = [jobs_from(draw(st.lists(row, min_size=1, max_size=6)), size) for size in sizes]
    pue = [draw(st.sampled_from([1.0, 1.5])) for _ in sizes]
    return federation(draw(st.sampled_from(["cost", "CO2"])), sizes, draw(st.integers(0, 99)), parts, pue)


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


@settings(max_examples=8, deadline=None)
@given(federations())
def test_the_found_schedule_keeps_the_rules(sample: Sample) -> None:
    reference = run_policy(sample, POLICIES[REFERENCE])
    work = work_of(sample, reference)
    bound = lower_bound(work, SAME_WAIT)
    found = find_schedule(sample, reference, bound)
    close = 1e-6 * max(abs(sample.charge(reference)), 1.0)
    assert bound.cost - close <= sample.charge(found) <= sample.charge(reference)
    assert work_of(sample, found).waiting_node_h <= work.waiting_node_h + 1e-9
    jobs = sample.grid.log.jobs
    assert (found.start_s >= jobs.submit_s).all()
    assert np.array_equal(found.end_s - found.start_s, jobs.runtime_s)
    for at_s in found.start_s:
        runs = (found.start_s <= at_s) & (found.end_s > at_s)
        assert (np.bincount(found.site[runs], jobs.size[runs], len(work.nodes)) <= work.nodes).all()


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
    best = cost[linear_sum_assignment(cost)].sum()
    assert lower_bound(work, SAME_END).cost == pytest.approx(best)


def test_place_alone_takes_the_cheapest_site_of_each_hour_with_free_nodes() -> None:
    jobs = make_jobs(np.full(2, MONDAY_S + 7 * DAY_S), np.ones(2, np.int64), np.full(2, 7200), np.full(2, 7200))
    sample = federation("cost", [2, 1], 0, [jobs.take(np.arange(2)), jobs.take(np.arange(0))], [1.0, 1.0])
    price = np.zeros((2, DAYS, 24))
    price[0, 7, :4], price[1, 7, :4] = [5, 5, 1, 1], [4, 9, 1, 1]
    series = tuple(replace(each, value=own) for each, own in zip(sample.electricity, price, strict=True))
    sample = Sample("cost", "", grid_of("cost", [2, 1], series, [jobs, jobs.take(np.arange(0))]), series)
    work = work_of(sample, run_policy(sample, POLICIES[REFERENCE]))
    assert sample.charge(run_policy(sample, POLICIES[REFERENCE])) == pytest.approx(20 * MWH_OF_NODE_HOUR)
    assert lower_bound(work, PLACE).cost == pytest.approx((4 + 5 + 5 + 5) * MWH_OF_NODE_HOUR)
    assert lower_bound(work, NO_LIMIT).cost == pytest.approx((4 + 4 + 5 + 5) * MWH_OF_NODE_HOUR)


def test_a_broker_takes_later_hours_from_the_week_before() -> None:
    value = np.arange(DAYS * 24.0).reshape(DAYS, 24)
    series = DailySeries(value, MONDAY_S, "EUR/MWh")
    at_s = MONDAY_S + 9 * DAY_S + 5 * HOUR_S
    known, all_known = (series.known(later=later).at(at_s) for later in (False, True))
    assert np.array_equal(known.value[:24], value[9])
    assert np.array_equal(known.value[24:], value[3:7].ravel())
    assert np.array_equal(all_known.value, value[9:14].ravel())


@pytest.mark.parametrize(
    ("name", "header", "table"),
    [
        ("federation/place-bound", BOUND_HEAD, bound_table),
        ("federation/place-saved", SAVED_HEAD, saved_table),
        ("federation/place-share", SHARE_HEAD, share_table),
    ],
)
def test_the_tables_are_those_of_the_record(name: str, header: tuple[str, ...], table) -> None:
    assert stored(name) == [list(header), *table(read_rows(RECORD))]


@pytest.mark.thorough
def test_a_recorded_sample_comes_out_again() -> None:
    if not trace_file("KTH-SP2").exists():
        pytest.skip("no logs")
    recorded = [row for row in read_rows(RECORD) if row[:2] == ["2024", "0"]]
    sample = draw_sample("2024", 0)
    again = [row for name in (REFERENCE, "eca-queue") for row in measure_policy(sample, name)]
    assert [["2024", "0", *row] for row in again] == [row for row in recorded if row[3] in {row[1] for row in again}]


def test_the_page_quotes_the_tables() -> None:
    rows = read_rows(RECORD)
    page = " ".join((TABLES.parents[1] / "explanation" / "federation-studies.md").read_text().split())
    bounds = bound_table(rows)
    no_limit, place, found, same_wait = (span([row[at].split()[0] for row in bounds[:-1]]) for at in range(2, 6))
    assert f"the best placement saves {place} % (medians of the years)" in page
    assert f"With nodes without limit it saves {no_limit} %" in page
    assert f"with the same mean wait the bound is {same_wait} %, and schedules that save {found} % are found" in page
    assert f"place alone saves {bounds[-1][3].split()[0]} %**, and {bounds[-1][2].split()[0]} % with nodes" in page
    assert "the schedules that were found save a third to half of the bound on the cost" in page
    assert all(0.3 < float(row[4].split()[0]) / float(row[5].split()[0]) < 0.55 for row in bounds[:-1])
    found, same_wait = (bounds[-1][at].split()[0] for at in (4, 5))
    assert f"With the same mean wait {found} % are found, and {same_wait} % are the bound." in page
    saved, share = ({row[0]: row[1:] for row in table(rows)} for table in (saved_table, share_table))
    mcmf, eca, fastest = saved["mcmf"], saved["eca-queue"], saved[REFERENCE]
    assert f"`mcmf` saves {span(mcmf[3:8])} % of the cost and {mcmf[8]} % of the CO2**" in page
    assert f"{span(share['mcmf'][:5])} and {share['mcmf'][5]} % of what its own wait allows" in page
    assert (
        f"jobs wait {mcmf[1]} h for cost and {mcmf[2]} h for CO2, under `fastest` {fastest[1]} and {fastest[2]} h"
        in page
    )
    assert f"{span(eca[3:8])} % of the cost and {eca[8]} % of the CO2, at waits of {eca[1]} and {eca[2]} h" in page
    known, run_times = share["mcmf, electricity known"], share["mcmf, run times known, too"]
    assert f"its shares are {span(known[:5])} % of the cost and {known[5]} % of the CO2" in page
    assert f"with the run times they are {span(run_times[:5])} and {run_times[5]} %" in page
    captured = f"{span(share['mcmf'][:5])} %; {share['mcmf'][5]} %"
    assert f"five years of prices; CO2 | {captured} |" in (TABLES.parents[1] / "benchmarks.md").read_text()
    assert min(float(wait) for wait in saved["mcmf, w_t 0"][1:3]) > 48


def span(cells: list[str]) -> str:
    """Return the least and the greatest of numbers as they are written."""
    ordered = sorted(cells, key=float)
    return f"{ordered[0]} to {ordered[-1]}"
