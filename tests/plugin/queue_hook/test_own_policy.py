"""A policy from outside in the queue hook: what it sees, what it may move, and what a failure leaves."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from queue_site import HOUR_S, NOW_S, RULES, Site, a_job, with_draws

from offpeak.errors import OffpeakError
from offpeak.ledger.rows import JobMark
from offpeak.plugin.queue_hook.facts import QueueRules
from offpeak.plugin.queue_hook.queue_plan import QueuePlan
from offpeak.plugin.window_policy import WindowView
from offpeak.prices.peak import Peak

pytestmark = pytest.mark.quick

THREE = with_draws(412, 300, 180)


def last_first(views: Sequence[WindowView]) -> list[list[int]]:
    return [list(reversed(range(len(view.size)))) for view in views]


def fails(_views: Sequence[WindowView]) -> list[list[int]]:
    raise OffpeakError("the window policy 'own' failed: it is tired")


def rules(own_policy: object) -> QueueRules:
    return replace(RULES, policy="own", own_policy=own_policy)  # type: ignore[arg-type]


def planned(site: Site, **others: object) -> tuple[QueuePlan, list[WindowView]]:
    """Return the plan by `last_first`, and what the policy saw."""
    seen: list[WindowView] = []

    def ask(views: Sequence[WindowView]) -> list[list[int]]:
        seen.extend(views)
        return last_first(views)

    return site.plan(rules(ask), **others), seen


def test_the_queue_has_the_order_of_the_policy_and_each_move_names_it() -> None:
    plan, _ = planned(THREE)
    assert THREE.apply(plan).order() == ["3", "2", "1"]
    assert [decision.reason.partition(";")[0] for decision in plan.decisions] == [
        "before 2: so orders the policy own",
        "behind 3: so orders the policy own",
        "behind 2: so orders the policy own",
    ]
    assert plan.problem == ""


def test_the_policy_sees_nodes_limits_waits_and_the_price() -> None:
    jobs = (
        a_job(7, nodes=3, limit_s=60, submit_s=NOW_S - 500),
        a_job(8, limit_s=None),
        a_job(9, limit_s=None, submit_s=NOW_S + 5),
    )
    facts = {"node_power_w": {"7": 400.0, "8": 100.0, "9": 50.0}, "expected_run_s": {"8": 90}}
    _, (view,) = planned(Site(jobs, facts=facts), free_nodes=(6,), peak=Peak.OFF_PEAK)
    assert (view.now_s, view.peak, view.free) == (NOW_S, Peak.OFF_PEAK, 6)
    assert view.job_id.tolist() == [7, 8, 9]
    assert view.size.tolist() == [3, 1, 1]
    assert view.estimate_s.tolist() == [60, 90, 365 * 24 * HOUR_S]
    assert view.waited_s.tolist() == [500, HOUR_S, 0]
    assert view.node_power_w.tolist() == [400.0, 100.0, 50.0]
    with pytest.raises(ValueError, match="read-only"):
        view.size[0] = 1


def test_jobs_that_keep_their_place_are_neither_shown_nor_moved_and_take_their_nodes() -> None:
    by_hand = JobMark("2", NOW_S - HOUR_S, "rank by hand", 0, 0, NOW_S)
    jobs = (a_job(1), a_job(2, nodes=2), a_job(3, comment="offpeak:now"), a_job(4), a_job(5))
    draws = {str(number): 100.0 for number in (1, 2, 3, 4)}
    site = Site(jobs, marks=(by_hand,), facts={"node_power_w": draws})
    plan, (view,) = planned(site, free_nodes=(8,))
    assert view.job_id.tolist() == [1, 4]
    assert view.free == 8 - 2 - 1 - 1
    assert site.apply(plan).order() == ["4", "2", "3", "1", "5"]


def test_a_job_that_was_passed_for_too_long_keeps_its_place() -> None:
    overdue = JobMark("2", NOW_S - HOUR_S, "passed", NOW_S - 25 * HOUR_S, NOW_S - 25 * HOUR_S, NOW_S)
    site = replace(THREE, marks=(overdue,))
    plan, (view,) = planned(site)
    assert view.job_id.tolist() == [3]
    assert site.apply(plan).order() == ["1", "2", "3"]


def test_each_group_is_a_window_of_its_own_and_all_are_asked_at_once() -> None:
    jobs = tuple(a_job(number, partitions=("a" if number % 2 else "b",)) for number in range(1, 6))
    site = Site(jobs, facts={"node_power_w": {job.job_id: 100.0 for job in jobs}})
    plan, views = planned(site)
    assert [view.job_id.tolist() for view in views] == [[1, 3, 5], [2, 4]]
    assert site.apply(plan).order() == ["5", "4", "3", "2", "1"]


def test_without_a_price_the_policy_decides_and_knows_it() -> None:
    plan, (view,) = planned(THREE, peak=Peak.UNKNOWN)
    assert view.peak == Peak.UNKNOWN
    assert THREE.apply(plan, now_s=NOW_S).order() == ["3", "2", "1"]


def test_an_empty_queue_asks_the_policy_nothing_of_a_job() -> None:
    plan, views = planned(Site(()))
    assert (plan.changes_nothing, views) == (True, [])


def test_where_the_policy_fails_the_queue_has_the_order_of_the_site() -> None:
    untouched = THREE.plan(rules(fails))
    assert untouched.changes_nothing
    assert untouched.problem == "the queue keeps the site's order: the window policy 'own' failed: it is tired"
    moved = THREE.apply(planned(THREE)[0])
    assert moved.apply(moved.plan(rules(fails))).order() == ["1", "2", "3"]
