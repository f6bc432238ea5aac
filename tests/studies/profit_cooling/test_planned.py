"""What one scenario finds serves the others, and nothing else does."""

from dataclasses import replace

from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.problem import NOTHING_RUNS, Problem, compute_profit
from offpeak_studies.profit_cooling.run import SCENARIOS, facility_of, machine, rates_of, solve_day, work_of
from offpeak_studies.profit_cooling.solvers import SOLVERS
from offpeak_studies.workloads.generate import lublin_jobs


def day_of(scenario: str, seed: int = 1) -> Problem:
    jobs = lublin_jobs(80, machine_size=256, seed=1, load=1.5)
    work = work_of(replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0]), seed)
    place = SCENARIOS[scenario]
    return Problem(work, machine(8), NOTHING_RUNS, rates_of(place, 86_400), facility_of(place, machine(8)))


def test_each_scenario_has_the_plan_that_the_solver_alone_finds() -> None:
    for solver in ["multi", "strict WT"]:
        for scenario in SCENARIOS:
            problem = day_of(scenario)
            alone = SOLVERS[solver](problem, budget_of(3600.0))
            found = solve_day(problem, solver, 0.0)
            assert compute_profit(problem, found.plan).total == compute_profit(problem, alone).total
            assert (found.is_own, found.search_s) == (True, 0.0)


def test_other_jobs_have_another_plan() -> None:
    first = solve_day(day_of("air winter"), "multi", 0.0)
    other = solve_day(day_of("air winter", seed=2), "multi", 0.0)
    assert other.plan is not first.plan


def test_a_search_begins_with_the_first_plan_and_says_whether_it_has_found_another() -> None:
    problem = day_of("air summer")
    first = solve_day(problem, "multi", 0.0).plan
    searched = solve_day(problem, "delay", 0.5)
    gain = compute_profit(problem, searched.plan).total - compute_profit(problem, first).total
    assert gain >= 0
    assert searched.is_own == (gain > 0)
    assert 0 < searched.search_s < searched.seconds
