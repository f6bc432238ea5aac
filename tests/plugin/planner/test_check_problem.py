"""Problems that no plan can answer are refused in one line."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from plugin.planner.check_problem import check_problem


def changed(problem, **columns):
    return replace(problem, work=replace(problem.work, **columns))


def test_a_good_problem_has_no_remarks(drawn) -> None:
    assert check_problem(drawn(8, seed=1)) == ()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"units": np.full(8, 6)}, "jobs 1, 2, 3, 4, 5 and 3 more are larger than the machine"),
        ({"cores": np.array([1, 9, 1, 1, 1, 1, 1, 1])}, "job 2 is larger than the machine"),
        ({"cores": np.array([1, 0, 1, 1, 1, 1, 1, 1])}, "job 2 is without units, cores or duration"),
        ({"duration_s": np.full(8, 1001)}, "the plan ends after 1000 s, before the shortest job would"),
    ],
)
def test_jobs_that_cannot_be_planned(drawn, columns, said: str) -> None:
    with pytest.raises(BadInput) as problem:
        check_problem(changed(drawn(8, seed=1), **columns))
    assert str(problem.value) == said
    assert problem.value.hint


def test_an_infeasible_cap_names_the_jobs(drawn) -> None:
    problem = drawn(8, seed=1, cap_w=100)
    hungry = problem.work.job_id[problem.work.power_w > 100]
    with pytest.raises(BadInput, match=rf"jobs {hungry[0]}, .* above the cap of 100 W at all times"):
        check_problem(problem)


def test_a_cap_below_what_runs_is_refused(drawn) -> None:
    problem = drawn(8, seed=1, running=4)
    rates = replace(problem.rates, cap_w=np.array([99, 2**60]))
    with pytest.raises(BadInput, match="running jobs draw 100 W, above the cap of 99 W"):
        check_problem(replace(problem, rates=rates))


def test_odd_things_are_said_once_each(drawn) -> None:
    problem = changed(drawn(8, seed=1), revenue_per_s=np.zeros(8))
    rates = replace(problem.rates, price_per_kwh=np.array([-0.1, 0.2]), temperature_c=np.array([99.0, 98.0]))
    said = check_problem(replace(problem, rates=rates))
    assert [sentence.split()[0] for sentence in said] == ["facility", "some", "no"]


def test_edges_that_do_not_rise_are_refused(drawn) -> None:
    problem = drawn(8, seed=1)
    with pytest.raises(BadInput, match="do not rise"):
        check_problem(replace(problem, rates=replace(problem.rates, edge_s=np.array([0, 5, 5]))))
