"""Round-robin, fastest-possible and the two energy- and CO2-aware selections, by the paper's definitions."""

from collections.abc import Callable

import pytest

from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import NO_SITE, DecisionReason, GridCycle, GridRules
from offpeak.plugin.federation.jobs import Goal, grid_jobs
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Grid, Site

pytestmark = pytest.mark.quick

Make = Callable[..., GridCycle]
THREE = Grid((Site("a", 10, 100.0), Site("b", 10, 100.0), Site("c", 10, 100.0)))
HOUR_S = 3600


def decided(name: str, cycle: GridCycle) -> tuple[list[int], list[DecisionReason]]:
    decision = grid_policy(name).decide(cycle)
    return decision.site.tolist(), [DecisionReason(each) for each in decision.why.tolist()]


def jobs(count: int, cores: object = 1, **columns: object) -> object:
    return grid_jobs(job_id=list(range(count)), cores=cores, estimate_s=HOUR_S, **columns)


def test_round_robin_goes_on_where_the_last_cycle_ended(make: Make) -> None:
    first = grid_policy("round-robin").decide(make(THREE, jobs(4)))
    assert first.site.tolist() == [0, 1, 2, 0]
    assert first.turn == 1


def test_round_robin_leaves_out_a_site_that_cannot(make: Make) -> None:
    cycle = make(Grid((Site("a", 10, 1.0), Site("b", 5, 1.0), Site("c", 10, 1.0))), jobs(3, [1, 6, 1]))
    assert decided("round-robin", cycle) == ([0, 2, 0], [DecisionReason.TURN] * 3)


def test_baseline_stays_at_home_or_nowhere(make: Make) -> None:
    cycle = make(THREE, jobs(3, [1, 11, 1], home=[2, 0, 1]))
    assert decided("baseline", cycle) == (
        [2, NO_SITE, 1],
        [DecisionReason.HOME, DecisionReason.IMPOSSIBLE, DecisionReason.HOME],
    )
    cycle = make(Grid((Site("a", 5, 1.0), Site("b", 10, 1.0))), jobs(1, 6))
    assert decided("baseline", cycle) == ([NO_SITE], [DecisionReason.NOT_AT_HOME])


def test_fastest_takes_the_first_that_is_idle_even_if_another_waits_less(make: Make) -> None:
    cycle = make(THREE, jobs(1), [[0.0, 60.0, 0.0]], queued=[1, 0, 0])
    assert decided("fastest", cycle) == ([1], [DecisionReason.IDLE])


def test_fastest_else_waits_least(make: Make) -> None:
    cycle = make(THREE, jobs(1, 4), [[900.0, 700.0, 800.0]], idle_units=[3, 3, 10], queued=[0, 0, 1])
    assert decided("fastest", cycle) == ([1], [DecisionReason.SHORTEST_WAIT])


def test_fastest_knows_of_the_jobs_placed_before(make: Make) -> None:
    cycle = make(THREE, jobs(4, 6), [[0.0, 0.0, 500.0]] * 4, idle_units=[10, 6, 0])
    assert decided("fastest", cycle) == (
        [0, 1, 2, 0],
        [DecisionReason.IDLE, DecisionReason.IDLE, DecisionReason.SHORTEST_WAIT, DecisionReason.SHORTEST_WAIT],
    )


def test_eca_passes_over_long_queues(make: Make, constant: Callable[..., Series]) -> None:
    carbon = tuple(constant(value, "g/kWh") for value in (10.0, 20.0, 900.0))
    rules = GridRules(queue_limit=1)
    cycle = make(THREE, jobs(4, 10), 0.0, rules, carbon=carbon, idle_units=[0, 0, 0])
    least, next_best = DecisionReason.LEAST, DecisionReason.NEXT_BEST
    # The second job is the second in the queue, which is not over the limit; the third would find two before it.
    assert decided("eca-queue", cycle) == ([0, 0, 1, 1], [least, least, next_best, next_best])
    full = make(THREE, jobs(1, 10), [[9.0, 8.0, 7.0]], rules, carbon=carbon, queued=[2, 2, 2], idle_units=[0, 0, 0])
    assert decided("eca-queue", full) == ([2], [DecisionReason.ALL_QUEUES_LONG])


def test_eca_keeps_the_latest_finish(make: Make, constant: Callable[..., Series]) -> None:
    carbon = tuple(constant(value, "g/kWh") for value in (10.0, 20.0, 900.0))
    now_s = int(carbon[0].start_s[0])
    latest = [now_s + value for value in (4 * HOUR_S, 3 * HOUR_S, HOUR_S)]
    cycle = make(
        THREE,
        jobs(4, latest_end_s=[*latest, 1 << 62], cores=[1, 1, 1, 1]),
        [[3 * HOUR_S, 2 * HOUR_S, HOUR_S]] * 4,
        carbon=carbon,
        queued=[1, 1, 1],
    )
    found = grid_policy("eca-sla").decide(cycle)
    assert found.site[:3].tolist() == [0, 1, 2]
    assert [DecisionReason(each) for each in found.why[:3].tolist()] == [
        DecisionReason.LEAST,
        DecisionReason.NEXT_BEST,
        DecisionReason.NONE_IN_TIME,
    ]


def test_a_green_sla_already_past_goes_where_it_is_fastest(make: Make) -> None:
    cycle = make(THREE, jobs(1, latest_end_s=1), [[30.0, 20.0, 10.0]], queued=[1, 1, 1])
    assert decided("eca-sla", cycle) == ([2], [DecisionReason.NONE_IN_TIME])


@pytest.mark.parametrize(
    ("goal", "site"), [(Goal.CO2, 0), (Goal.COST, 1), (Goal.ENERGY, 2), (Goal.TIME, 1), (Goal.UNSPECIFIED, 2)]
)
def test_the_goal_is_the_owner_s(make: Make, constant: Callable[..., Series], goal: Goal, site: int) -> None:
    grid = Grid((Site("a", 10, 100.0), Site("b", 10, 100.0), Site("c", 10, 80.0)))
    cycle = make(
        grid,
        jobs(1, goal=goal),
        [[500.0, 100.0, 900.0]],
        GridRules(goal=Goal.ENERGY),
        carbon=tuple(constant(value, "g/kWh") for value in (10.0, 500.0, 900.0)),
        price=tuple(constant(value) for value in (70.0, 20.0, 90.0)),
    )
    assert decided("eca-queue", cycle)[0] == [site]


def test_policy_respects_site_limits_and_allocations(make: Make) -> None:
    grid = Grid((Site("a", 10, 1.0, max_per_cycle=1), Site("b", 10, 1.0, allocations={"climate": 2.0})))
    cycle = make(grid, jobs(4, project=[0, 0, 0, -1]), [[0.0, 0.0]] * 4)
    assert decided("fastest", cycle) == (
        [0, 1, 1, NO_SITE],
        [DecisionReason.IDLE, DecisionReason.IDLE, DecisionReason.IDLE, DecisionReason.NEXT_CYCLE],
    )


def test_sites_that_are_all_stale_get_nothing(make: Make) -> None:
    for name in ("baseline", "round-robin", "fastest", "eca-queue", "eca-sla", "mcmf", "inst", "two-price"):
        cycle = make(THREE, jobs(2), stale=[True, True, True])
        assert grid_policy(name).decide(cycle).site.tolist() == [NO_SITE, NO_SITE], name
