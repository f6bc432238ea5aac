"""The schedule of a battery: its laws, an independent programme with binary variables everywhere, and cases by hand."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.model.arrays import Float64
from offpeak.model.site_devices import NO_BATTERY, Battery
from offpeak.plugin.planner.dispatch import Dispatch, DispatchProblem, cost_of, hold, operate, solve_dispatch

NEAR = 1e-5


def problem_of(
    load: list[float],
    price: list[float],
    *,
    pv: list[float] | None = None,
    export: list[float] | None = None,
    battery: Battery = NO_BATTERY,
    peak_per_kw: float = 0.0,
) -> DispatchProblem:
    slots = len(load)
    return DispatchProblem(
        hours=np.ones(slots),
        load_kw=np.array(load, float),
        pv_kw=np.array(pv or [0.0] * slots),
        import_per_kwh=np.array(price, float),
        export_per_kwh=np.array(export or [0.0] * slots),
        battery=battery,
        demand=np.ones((1, slots), bool),
        peak_per_kw=np.array([peak_per_kw]),
        peak_so_far_kw=np.zeros(1),
    )


def column(slots: int, low: float, high: float) -> st.SearchStrategy[Float64]:
    numbers = st.integers(round(low * 20), round(high * 20)).map(lambda number: number / 20)
    return st.lists(numbers, min_size=slots, max_size=slots).map(np.array)


def flags(slots: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=slots, max_size=slots)


@st.composite
def problems(draw: st.DrawFn, *, lowest_price: float = -0.5) -> DispatchProblem:
    slots = draw(st.integers(1, 8))
    capacity = draw(st.sampled_from([0.0, 5.0, 40.0]))
    end = draw(st.sampled_from([0.0, 0.5]))
    charges = draw(st.integers(0, 2))
    price = draw(column(slots, lowest_price, 1.0))
    if draw(st.booleans()):
        price[draw(st.integers(0, slots - 1))] = np.nan
    return DispatchProblem(
        hours=draw(st.lists(st.sampled_from([0.25, 1.0]), min_size=slots, max_size=slots).map(np.array)),
        load_kw=draw(column(slots, 0, 30)),
        pv_kw=draw(column(slots, 0, 30)),
        import_per_kwh=price,
        export_per_kwh=draw(st.one_of(column(slots, lowest_price, 1.0), st.just(np.zeros(slots)))),
        battery=Battery(capacity, 8.0, 16.0, draw(st.sampled_from([0.7, 0.9, 1.0])), capacity / 2, end * capacity),
        demand=np.array(draw(st.lists(flags(slots), min_size=charges, max_size=charges)), bool).reshape(charges, slots),
        peak_per_kw=np.full(charges, 0.3),
        peak_so_far_kw=draw(column(charges, 0, 10)),
    )


def check_dispatch(problem: DispatchProblem, found: Dispatch) -> None:
    """Assert balance of power and energy, all bounds, and one direction at a time."""
    battery, one_way = problem.battery, problem.battery.efficiency**0.5
    into = problem.load_kw + found.charge_kw - problem.pv_kw + found.curtailed_kw - found.discharge_kw
    assert found.import_kw - found.export_kw == pytest.approx(into, abs=NEAR)
    change = problem.hours * (found.charge_kw * one_way - found.discharge_kw / one_way)
    assert found.stored_kwh == pytest.approx(battery.start_kwh + np.cumsum(change), abs=NEAR)
    for values, most in (
        (found.import_kw, np.inf),
        (found.export_kw, np.inf),
        (found.charge_kw, battery.charge_kw * problem.priced),
        (found.discharge_kw, battery.discharge_kw * problem.priced),
        (found.curtailed_kw, problem.pv_kw),
        (found.stored_kwh, battery.capacity_kwh),
    ):
        assert np.all(values >= -NEAR)
        assert np.all(values <= most + NEAR)
    assert np.minimum(found.charge_kw, found.discharge_kw) == pytest.approx(0, abs=NEAR)
    assert np.minimum(found.import_kw, found.export_kw) == pytest.approx(0, abs=NEAR)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_a_dispatch_is_physical_and_as_cheap_as_the_plain_programme(problem: DispatchProblem) -> None:
    found = solve_dispatch(problem)
    check_dispatch(problem, found)
    assert cost_of(problem, found) == pytest.approx(plain_optimum(problem), abs=1e-4)
    assert cost_of(problem, solve_dispatch(problem, relaxed=True)) <= cost_of(problem, found) + NEAR
    reachable = problem.battery.start_kwh + problem.battery.efficiency**0.5 * problem.battery.charge_kw * float(
        problem.hours @ problem.priced
    )
    assert found.stored_kwh[-1] >= min(problem.battery.end_kwh, reachable) - NEAR


@given(problems())
@settings(max_examples=100, deadline=None)
def test_no_battery_and_no_plan_is_never_cheaper(problem: DispatchProblem) -> None:
    best = cost_of(problem, solve_dispatch(problem))
    # What the battery holds at the end of a plan is not worth more than nothing: its end is at most its begin here.
    assert best <= cost_of(problem, hold(problem)) + NEAR
    without = replace(problem, battery=NO_BATTERY)
    assert best <= cost_of(without, hold(without)) + NEAR


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_a_plan_carried_out_is_physical_and_no_cheaper_than_perfect_knowledge(
    problem: DispatchProblem, seed: int
) -> None:
    random = np.random.default_rng(seed)
    actual = replace(
        problem,
        load_kw=problem.load_kw * random.choice([0.0, 0.5, 1.0, 1.5], len(problem)),
        pv_kw=problem.pv_kw * random.choice([0.0, 0.5, 1.0, 1.5], len(problem)),
    )
    plan = solve_dispatch(problem)
    done = operate(actual, plan)
    check_dispatch(actual, done)
    if not len(problem.demand):
        assert np.all(done.stored_kwh >= plan.stored_kwh - NEAR)
    best = replace(actual, battery=replace(actual.battery, end_kwh=min(actual.battery.end_kwh, done.stored_kwh[-1])))
    assert cost_of(actual, solve_dispatch(best, relaxed=True)) <= cost_of(actual, done) + NEAR


@given(problems(lowest_price=0.0))
@settings(max_examples=100, deadline=None)
def test_a_plan_on_the_right_forecast_costs_what_it_says(problem: DispatchProblem) -> None:
    plan = solve_dispatch(problem)
    assert cost_of(problem, operate(problem, plan)) <= cost_of(problem, plan) + NEAR


@given(problems(), st.data())
@settings(max_examples=80, deadline=None)
def test_the_marginal_price_is_below_what_another_kwh_costs(problem: DispatchProblem, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(problem) - 1))
    problem = replace(problem, import_per_kwh=np.abs(problem.import_per_kwh), export_per_kwh=np.zeros(len(problem)))
    found = solve_dispatch(problem)
    more_kw = np.zeros(len(problem))
    more_kw[at] = 1.0
    dearer = cost_of(problem, solve_dispatch(replace(problem, load_kw=problem.load_kw + more_kw)))
    # The least bill is convex in the load.
    assert dearer - cost_of(problem, found) >= found.marginal_per_kwh[at] * problem.hours[at] - NEAR


def plain_optimum(problem: DispatchProblem) -> float:
    """Return the least bill by a dense programme with a binary variable in each slot for battery and grid."""
    slots, battery, hours = len(problem), problem.battery, problem.hours
    one_way, big = battery.efficiency**0.5, 1000.0
    price, export = np.nan_to_num(problem.import_per_kwh), np.nan_to_num(problem.export_per_kwh)
    eye, none = np.eye(slots), np.zeros((slots, slots))
    width = len(problem.demand)
    wide = np.zeros((slots, width))
    sums = np.tril(np.ones((slots, slots))) * hours
    may = problem.priced.astype(float)
    # import, export, charge, discharge, curtailed, charges?, imports?, peak
    net = problem.load_kw - problem.pv_kw
    reach = battery.start_kwh + one_way * battery.charge_kw * float(hours @ may)
    last = np.zeros(slots)
    last[-1] = min(battery.end_kwh, reach)
    stored = np.hstack([none, none, sums * one_way, -sums / one_way, none, none, none, wide])
    rules = [
        scipy.optimize.LinearConstraint(np.hstack([eye, -eye, -eye, eye, -eye, none, none, wide]), net, net),
        scipy.optimize.LinearConstraint(stored, last - battery.start_kwh, battery.capacity_kwh - battery.start_kwh),
        scipy.optimize.LinearConstraint(
            np.hstack([none, none, eye, none, none, -battery.charge_kw * np.diag(may), none, wide]), -np.inf, 0
        ),
        scipy.optimize.LinearConstraint(
            np.hstack([none, none, none, eye, none, battery.discharge_kw * np.diag(may), none, wide]),
            -np.inf,
            battery.discharge_kw * may,
        ),
        scipy.optimize.LinearConstraint(np.hstack([eye, none, none, none, none, none, -big * eye, wide]), -np.inf, 0),
        scipy.optimize.LinearConstraint(np.hstack([none, eye, none, none, none, none, big * eye, wide]), -np.inf, big),
        *(
            scipy.optimize.LinearConstraint(
                np.hstack([eye[mask], *[none[mask]] * 6, -np.eye(width)[[charge] * mask.sum()]]), -np.inf, 0
            )
            for charge, mask in enumerate(problem.demand)
            if mask.any()
        ),
    ]
    cost = np.concatenate([hours * price, -hours * export, np.zeros(5 * slots), problem.peak_per_kw])
    low = np.concatenate([np.zeros(7 * slots), problem.peak_so_far_kw])
    high = np.concatenate([np.full(4 * slots, np.inf), problem.pv_kw, np.ones(2 * slots), np.full(width, np.inf)])
    whole = np.concatenate([np.zeros(5 * slots), np.ones(2 * slots), np.zeros(width)])
    found = scipy.optimize.milp(cost, constraints=rules, bounds=np.stack([low, high]).tolist(), integrality=whole)
    return float(found.fun - problem.peak_per_kw @ problem.peak_so_far_kw)


def test_a_battery_moves_energy_from_the_cheap_hour_to_the_expensive_one() -> None:
    # 10 kW are charged at 0.10, of which 81 % come back at 0.50.
    battery = Battery(20.0, 10.0, 10.0, 0.81, 0.0, 0.0)
    problem = problem_of([30, 30], [0.1, 0.5], battery=battery)
    found = solve_dispatch(problem)
    assert found.charge_kw == pytest.approx([10, 0])
    assert found.discharge_kw == pytest.approx([0, 8.1])
    assert found.stored_kwh == pytest.approx([9, 0], abs=NEAR)
    assert cost_of(problem, found) == pytest.approx(40 * 0.1 + 21.9 * 0.5)
    # A kWh more in the second hour costs its price: the battery is limited by what it can charge in the first.
    assert found.marginal_per_kwh == pytest.approx([0.1, 0.5])


def test_a_loss_that_exceeds_the_difference_of_prices_is_not_made() -> None:
    battery = Battery(20.0, 10.0, 10.0, 0.81, 0.0, 0.0)
    found = solve_dispatch(problem_of([30, 30], [0.1, 0.12], battery=battery))
    assert found.charge_kw.sum() == pytest.approx(0)


def test_negative_prices_do_not_make_the_battery_burn_energy() -> None:
    # Full, and held full to the end: charging and discharging at once would earn 10 x (1 - 0.81) x 0.5.
    battery = Battery(20.0, 10.0, 10.0, 0.81, 20.0, 20.0)
    problem = problem_of([5, 5], [-0.5, -0.5], battery=battery)
    found = solve_dispatch(problem)
    assert np.minimum(found.charge_kw, found.discharge_kw) == pytest.approx([0, 0], abs=NEAR)
    assert cost_of(problem, solve_dispatch(problem, relaxed=True)) < cost_of(problem, found) - 0.1


def test_peaks_are_shaved_down_to_the_one_that_is_paid() -> None:
    battery = Battery(10.0, 10.0, 10.0, 1.0, 10.0, 0.0)
    problem = replace(
        problem_of([10, 20, 10], [0.1, 0.1, 0.1], battery=battery, peak_per_kw=5.0), peak_so_far_kw=np.array([12.0])
    )
    found = solve_dispatch(problem)
    assert found.import_kw.max() <= 12 + NEAR
    assert cost_of(problem, found) == pytest.approx(0.1 * 30)


def test_pv_is_used_stored_exported_and_curtailed_in_this_order_of_value() -> None:
    battery = Battery(10.0, 10.0, 10.0, 1.0, 0.0, 0.0)
    problem = problem_of([5, 5, 5], [0.3, 0.3, 0.3], pv=[25, 25, 0], export=[0.05, -0.05, 0.05], battery=battery)
    found = solve_dispatch(problem)
    assert found.import_kw == pytest.approx([0, 0, 0], abs=NEAR)
    assert found.export_kw == pytest.approx([20, 0, 5], abs=NEAR)
    assert found.curtailed_kw == pytest.approx([0, 10, 0], abs=NEAR)


def test_an_end_that_cannot_be_reached_is_approached() -> None:
    battery = Battery(100.0, 10.0, 10.0, 1.0, 0.0, 100.0)
    assert solve_dispatch(problem_of([0, 0], [0.1, 0.2], battery=battery)).stored_kwh[-1] == pytest.approx(20)


def test_while_no_price_is_known_the_battery_holds() -> None:
    battery = Battery(20.0, 10.0, 10.0, 1.0, 10.0, 0.0)
    problem = problem_of([5, 5, 5], [0.1, np.nan, 0.5], battery=battery)
    found = solve_dispatch(problem)
    assert (found.charge_kw[1], found.discharge_kw[1]) == (0, 0)
    assert cost_of(problem, found) < 0.1 * 20


def test_a_plan_that_curtails_does_not_make_a_peak_of_its_own() -> None:
    # Much PV at a negative price is forecast: the plan curtails it and charges from the grid. Then the load is higher.
    battery = Battery(20.0, 10.0, 10.0, 1.0, 0.0, 0.0)
    forecast = problem_of([0, 0], [-0.5, 0.5], pv=[30, 0], battery=battery, peak_per_kw=0.2)
    plan = solve_dispatch(forecast)
    assert plan.curtailed_kw[0] == pytest.approx(30)
    actual = replace(forecast, load_kw=np.array([25.0, 0.0]))
    done = operate(actual, plan)
    check_dispatch(actual, done)
    assert done.import_kw.max() <= plan.import_kw.max() + NEAR


def test_a_battery_holds_in_a_gap_of_the_prices_also_under_a_peak() -> None:
    battery = Battery(20.0, 10.0, 10.0, 1.0, 10.0, 0.0)
    problem = problem_of([5, 25], [0.1, np.nan], battery=battery, peak_per_kw=3.0)
    done = operate(problem, replace(solve_dispatch(problem), import_kw=np.zeros(2)))
    assert done.discharge_kw[1] == 0
    check_dispatch(problem, done)
