"""Rule-based scheduling, strict and not."""

import numpy as np
import pytest

from offpeak.plugin.planner.problem import compute_profit
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling.rule_based import rule_based


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("cap_w", "running"), [(2**60, 0), (700, 4)])
def test_plans_break_no_rule(drawn, strict: bool, seed: int, cap_w: int, running: int) -> None:
    problem = drawn(40, seed=seed, cap_w=cap_w, running=running)
    plan = rule_based(problem, np.argsort(problem.work.release_s, kind="stable"), "test", strict=strict)
    verdict = verify_plan(problem, plan)
    assert verdict.violations == ()
    assert verdict.profit == pytest.approx(compute_profit(problem, plan).total, rel=1e-9)


def test_strict_order_holds_up_what_is_behind(drawn) -> None:
    problem = drawn(40, seed=1)
    order = np.argsort(problem.work.release_s, kind="stable")
    strict = rule_based(problem, order, "strict", strict=True)
    loose = rule_based(problem, order, "loose", strict=False)
    assert loose.placed.sum() > strict.placed.sum()
    released = problem.work.release_s[order]
    starts = strict.start_s[order]
    begun = starts[starts >= 0]
    assert len(released) == 40
    assert (np.diff(begun) >= 0).all() or problem.work.latest_end_s.min() < 2**60


def test_a_job_starts_in_the_second_in_which_another_ends(drawn) -> None:
    problem = drawn(30, seed=5, nodes=3)
    plan = rule_based(problem, np.arange(30), "test", strict=False)
    ends = set((plan.start_s + problem.work.duration_s)[plan.placed].tolist())
    moments = ends | set(problem.work.release_s.tolist()) | {0, 500}
    assert set(plan.start_s[plan.placed].tolist()) <= moments
