"""The flow's costs are the paper's, its answers keep every bound, and knowing of each other makes them better."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.snapshot import NEVER
from offpeak.model.step_series import Series
from offpeak.model.weighing import Weights
from offpeak.plugin.federation.cycle import NO_SITE, DecisionReason, GridCycle, GridRules, Predictions
from offpeak.plugin.federation.exchange import LEAST_GAIN
from offpeak.plugin.federation.jobs import Goal, grid_jobs
from offpeak.plugin.federation.metaschedule import (
    extra_wait_s,
    flow_cost,
    inst,
    integer_costs,
    longest_extra_wait_s,
    mcmf,
    scale_of,
    two_price,
    weights_of,
)
from offpeak.plugin.federation.placement_costs import CostModel
from offpeak.plugin.federation.policies import POLICIES
from offpeak.plugin.federation.sites import Grid, Link, Site

pytestmark = pytest.mark.quick

Make = Callable[..., GridCycle]
ALONE = GridRules(together=False)
TWO = Grid((Site("a", 10, 100.0), Site("b", 10, 100.0)))
HOUR_S = 3600


def predict_costs(cycle: GridCycle) -> Predictions:
    return CostModel(cycle).predict(cycle.wait_s)


def test_costs_are_those_of_equations_4_to_6(make: Make, constant: Callable[..., Series]) -> None:
    jobs = grid_jobs(job_id=[1, 2], cores=[1, 4], estimate_s=[HOUR_S, 2 * HOUR_S])
    cycle = make(TWO, jobs, [[0.0, HOUR_S], [0.0, 3 * HOUR_S]], price=(constant(10.0), constant(20.0)))
    predicted = predict_costs(cycle)
    cost = flow_cost(predicted, weights_of(cycle), scale_of(predicted.compatible, predicted))
    # Responses of 1, 2, 2 and 5 hours; electricity for 1, 2, 8 and 16 of one unit.
    time, money = np.array([[0, 1], [1, 4]]) / 4, np.array([[0, 1], [7, 15]]) / 15
    wanted = 25 * time + 75 * money
    assert cost.tolist() == [pytest.approx(row) for row in wanted.tolist()]
    assert integer_costs(cost, predicted.compatible).tolist() == np.rint(100 * wanted).astype(int).tolist()


def test_a_range_of_nothing_is_nothing(make: Make) -> None:
    cycle = make(TWO, grid_jobs(job_id=[1, 2], cores=1, estimate_s=60))
    predicted = predict_costs(cycle)
    assert flow_cost(predicted, weights_of(cycle), scale_of(predicted.compatible, predicted)).tolist() == [[0, 0]] * 2


def test_equal_costs_leave_jobs_at_home(make: Make) -> None:
    three = Grid((*TWO.sites, Site("c", 10, 100.0)))
    cycle = make(three, grid_jobs(job_id=[1, 2, 3], cores=1, estimate_s=60, home=[2, 0, 1]))
    assert mcmf(cycle).site.tolist() == [2, 0, 1]


def test_a_job_s_goal_has_all_the_weight(make: Make) -> None:
    jobs = grid_jobs(job_id=[1, 2, 3], cores=1, estimate_s=60, goal=[Goal.UNSPECIFIED, Goal.CO2, Goal.TIME])
    weights = weights_of(make(TWO, jobs, 0.0, GridRules(Weights(10, 60, 20, 10))))
    assert weights.tolist() == [[10, 60, 20, 10], [0, 0, 100, 0], [100, 0, 0, 0]]


@pytest.mark.parametrize("shares", [(50, 60, 0, 0), (120, -20, 0, 0), (10, 10, 10, 10)])
def test_weights_are_shares(shares: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="weights of"):
        Weights(*shares)


def test_max_q_makes_jobs_give_way_or_wait(make: Make, constant: Callable[..., Series]) -> None:
    grid = Grid((replace(TWO.sites[0], max_per_cycle=1), replace(TWO.sites[1], max_per_cycle=1)))
    jobs = grid_jobs(job_id=[1, 2, 3], cores=[8, 2, 2], estimate_s=[HOUR_S, HOUR_S, 9 * HOUR_S])
    cycle = make(grid, jobs, price=(constant(10.0), constant(20.0)))
    found = mcmf(cycle)
    assert found.site.tolist() == [0, 1, NO_SITE]
    assert [DecisionReason(each) for each in found.why.tolist()] == [
        DecisionReason.CHEAPEST,
        DecisionReason.GIVES_WAY,
        DecisionReason.NEXT_CYCLE,
    ]


def test_inst_assumes_empty_queues(make: Make) -> None:
    jobs = grid_jobs(job_id=[1], cores=1, estimate_s=60)
    cycle = make(
        Grid((Site("a", 10, 90.0), Site("b", 10, 100.0))), jobs, [[9 * HOUR_S, 0.0]], GridRules(Weights(75, 25))
    )
    assert inst(cycle).site.tolist() == [0]
    assert inst(cycle).predicted.delay_s.tolist() == [[0, 0]]
    assert mcmf(cycle).site.tolist() == [1]


def test_two_price_knows_half_days_only(make: Make, constant: Callable[..., Series]) -> None:
    now_s = int(constant(1.0).start_s[0])
    midnight_s = now_s // 86_400 * 86_400
    hours = midnight_s + HOUR_S * np.arange(48)
    # One dear hour in a cheap morning, one cheap hour in a dear afternoon.
    price = np.tile(np.where(np.arange(24) < 12, 20.0, 80.0), 2)
    price[[30, 42]] = 500.0, 0.0
    curve = Series(hours, int(hours[-1]) + HOUR_S, price, "EUR/MWh", "test")
    jobs = grid_jobs(job_id=[1, 2], cores=1, estimate_s=HOUR_S)
    starts = midnight_s + HOUR_S * np.array([[30], [42]]) - now_s
    cycle = make(Grid((Site("a", 9, 1e6),)), jobs, starts.astype(float), ALONE, price=(curve,))
    assert mcmf(cycle).predicted.cost.tolist() == [[pytest.approx(500.0)], [pytest.approx(0.0)]]
    assert two_price(cycle).predicted.cost.tolist() == [[pytest.approx(20.0)], [pytest.approx(80.0)]]


def test_jobs_of_one_cycle_know_of_each_other(make: Make) -> None:
    jobs = grid_jobs(job_id=range(4), cores=10, estimate_s=HOUR_S)
    waits = [[0.0, 60.0]] * 4
    timely = GridRules(Weights(100, 0))
    assert mcmf(make(TWO, jobs, waits, replace(timely, together=False))).site.tolist() == [0, 0, 0, 0]
    found = mcmf(make(TWO, jobs, waits, timely))
    assert found.site.tolist() == [0, 0, 1, 1]
    assert found.predicted.delay_s.tolist()[-1] == [2 * HOUR_S, HOUR_S + 60]


def test_behind_is_the_work_of_those_before(make: Make) -> None:
    jobs = grid_jobs(job_id=range(3), cores=[4, 6, 5], estimate_s=HOUR_S)
    cycle = make(TWO, jobs, idle_units=[10, 10], queued=[0, 1])
    predicted = predict_costs(cycle)
    all_on_both = np.ones((3, 2), np.bool_)
    assert extra_wait_s(cycle, predicted, all_on_both).tolist() == [[0, 0], [0, 0.4 * HOUR_S], [HOUR_S, HOUR_S]]


def test_the_longest_wait_is_behind_as_many_as_the_site_takes(make: Make) -> None:
    grid = Grid((replace(TWO.sites[0], max_per_cycle=3), replace(TWO.sites[1], largest_job_cores=4)))
    jobs = grid_jobs(job_id=range(5), cores=[4, 5, 1, 3, 2], estimate_s=HOUR_S)
    cycle = make(grid, jobs, idle_units=[10, 10], queued=[1, 0])
    # The two largest before it; where a job of five cores cannot run, all four others together start at once.
    expected_h = [[0, 0], [0.4, 0], [0.9, 0], [0.9, 0], [0.9, 0]]
    assert longest_extra_wait_s(cycle, predict_costs(cycle)).tolist() == (HOUR_S * np.array(expected_h)).tolist()


@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([None, 1, 3]))
def test_no_move_and_no_exchange_is_better_by_the_weights(
    draw: Callable[..., GridCycle], jobs: int, sites: int, seed: int, most: int | None
) -> None:
    cycle, rng = draw(jobs, sites, seed, most=most), np.random.default_rng(seed)
    left_core_s = rng.choice([np.inf, 1e6, 1e8], cycle.states.left_core_s.shape)
    latest_end_s = cycle.now_s + rng.choice([NEVER - cycle.now_s, 2 * 86_400, 4 * 86_400], jobs)
    goal = rng.choice([Goal.UNSPECIFIED, Goal.TIME, Goal.COST, Goal.CO2], jobs)
    data_mb, links = rng.choice([0.0, 1e6], jobs), tuple(Link(("s0", f"s{at}"), 60.0, 50.0) for at in range(1, sites))
    columns = replace(cycle.jobs, latest_end_s=latest_end_s, goal=goal, data_mb=data_mb)
    cycle = replace(cycle, grid=Grid(cycle.grid.sites, links), jobs=columns, rules=GridRules(Weights(25, 45, 20, 10)))
    cycle = replace(cycle, states=replace(cycle.states, left_core_s=left_core_s))
    site = mcmf(cycle).site
    late, cost = lateness_and_cost(cycle, site)
    assert cost < np.inf
    for other in neighbours(site, sites):
        other_late, other_cost = lateness_and_cost(cycle, other)
        assert other_cost == np.inf or (other_late, other_cost) >= (late, cost - LEAST_GAIN - 1e-6), other


def neighbours(site: Int64, sites: int) -> Iterator[Int64]:
    """Yield all placements in which one job has moved or two have exchanged their places."""
    for job in range(len(site)):
        for place in range(sites if site[job] != NO_SITE else 0):
            yield np.where(np.arange(len(site)) == job, place, site)
        for other in range(job):
            exchanged = site.copy()
            exchanged[[job, other]] = site[[other, job]]
            yield exchanged


def lateness_and_cost(cycle: GridCycle, site: Int64) -> tuple[int, float]:
    """Return how many jobs are too late, and the weighted sum; inf if a limit is broken."""
    alone, placed = predict_costs(cycle), np.flatnonzero(site != NO_SITE)
    at = (placed, site[placed])
    core_s = np.zeros_like(cycle.states.left_core_s)
    np.add.at(core_s, (cycle.jobs.project[placed], site[placed]), (alone.units * alone.runtime_s)[at])
    too_many = np.bincount(site[placed], minlength=len(cycle.grid)) > cycle.grid.max_per_cycle
    if not alone.compatible[at].all() or too_many.any() or (core_s > cycle.states.left_core_s * (1 + 1e-9)).any():
        return 0, np.inf
    if not len(placed):
        return 0, 0.0
    is_there = site[:, None] == np.arange(len(cycle.grid))
    longest, own = (
        predict_costs(replace(cycle, wait_s=cycle.wait_s + extra_s))
        for extra_s in (longest_extra_wait_s(cycle, alone), extra_wait_s(cycle, alone, is_there))
    )
    cost = flow_cost(own, weights_of(cycle), scale_of(alone.compatible, alone, longest))
    late = cycle.now_s + own.response_s > cycle.jobs.latest_end_s[:, None]
    return int(late[at].sum()), float(cost[at].sum())


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([None, 1, 3]))
def test_every_policy_keeps_every_bound_and_answers_the_same_again(
    draw: Callable[..., GridCycle], jobs: int, sites: int, seed: int, most: int | None
) -> None:
    cycle = draw(jobs, sites, seed, most=most)
    left = np.random.default_rng(seed).choice([np.inf, 1e6, 1e8], cycle.states.left_core_s.shape)
    cycle = replace(cycle, states=replace(cycle.states, left_core_s=left))
    for policy in POLICIES:
        found = policy.decide(cycle)
        placed = np.flatnonzero(found.site != NO_SITE)
        site = found.site[placed]
        assert found.predicted.compatible[placed, site].all(), policy.name
        assert np.isfinite(found.score[placed, site]).all(), policy.name
        assert (np.bincount(site, minlength=sites) <= cycle.grid.max_per_cycle).all(), policy.name
        core_s = (found.predicted.units * cycle.grid.cores_per_unit * found.predicted.runtime_s)[placed, site]
        assert (np.bincount(site, core_s, sites) <= left[-1] * (1 + 1e-9)).all(), policy.name
        again = policy.decide(cycle)
        assert again.site.tolist() == found.site.tolist(), policy.name


def test_an_allocation_goes_to_the_first_jobs(make: Make, constant: Callable[..., Series]) -> None:
    grid = Grid((Site("a", 10, 100.0, allocations={"climate": 2.5}), Site("b", 10, 100.0)))
    jobs = grid_jobs(job_id=range(4), cores=1, estimate_s=HOUR_S, project=[0, 0, 0, -1], home=1)
    found = mcmf(make(grid, jobs, price=(constant(10.0), constant(90.0))))
    assert found.site.tolist() == [0, 0, 1, 1]


def test_a_green_sla_is_kept_where_it_can_be(make: Make, constant: Callable[..., Series]) -> None:
    price = (constant(10.0), constant(90.0))
    now_s = int(price[0].start_s[0])
    jobs = grid_jobs(job_id=range(3), cores=1, estimate_s=60, latest_end_s=[now_s + 4000, now_s + 90, 1])
    cycle = make(TWO, jobs, [[3600.0, 0.0]] * 3, GridRules(Weights(0, 100)), price=price, queued=[1, 0])
    assert mcmf(cycle).site.tolist() == [0, 1, 0]


def test_co2_can_be_what_counts(make: Make, constant: Callable[..., Series]) -> None:
    carbon = (constant(800.0, "g/kWh"), constant(20.0, "g/kWh"))
    price = (constant(10.0), constant(90.0))
    jobs = grid_jobs(job_id=[1], cores=1, estimate_s=60)
    assert mcmf(make(TWO, jobs, carbon=carbon, price=price)).site.tolist() == [0]
    green = GridRules(Weights(10, 10, 80))
    assert mcmf(make(TWO, jobs, 0.0, green, carbon=carbon, price=price)).site.tolist() == [1]


def test_five_thousand_jobs_behind_each_other_are_solved(draw: Callable[..., GridCycle]) -> None:
    assert (mcmf(draw(5000, 8)).site != NO_SITE).all()
