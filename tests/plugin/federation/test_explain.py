"""Answers explain themselves: the reason, the second best, and what is missing at each site."""

from collections.abc import Callable

import pytest

from offpeak.errors import BadInput
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import GridCycle, SiteChoice
from offpeak.plugin.federation.jobs import grid_jobs
from offpeak.plugin.federation.live_cycle import explain_decision
from offpeak.plugin.federation.policies import POLICIES, grid_policy
from offpeak.plugin.federation.sites import Grid, Site

pytestmark = pytest.mark.quick

Make = Callable[..., GridCycle]
NORTH = Site("north", 64, 100.0, longest_job_s=7200, features=frozenset({"gpu"}), allocations={"climate": 10.0})
SOUTH = Site("south", 16, 100.0, features=frozenset({"infiniband"}))
HOUR_S = 3600


def explained(name: str, cycle: GridCycle) -> tuple[SiteChoice, ...]:
    return explain_decision(cycle, grid_policy(name).decide(cycle))


@pytest.mark.parametrize("name", [policy.name for policy in POLICIES if policy.name != "baseline"])
def test_a_job_that_no_site_can_run_hears_what_is_missing(make: Make, name: str) -> None:
    grid = Grid((NORTH, SOUTH))
    jobs = grid_jobs(job_id=7, cores=100, estimate_s=3 * HOUR_S, features=grid.feature_mask(["gpu"]))
    (choice,) = explained(name, make(grid, jobs, stale=[False, True]))
    assert choice.site is choice.chosen is choice.second is None
    north = (
        "100 cores requested, 64 are the most, 3 h requested, 2 h are the most, the job's project has 0 core-hours left"
    )
    south = "its last answer is too old, 100 cores requested, 16 are the most, has no gpu"
    assert [(miss.site, miss.text) for miss in choice.misses] == [("north", north), ("south", south)]
    assert choice.reason == f"no site can run it: north: {north}; south: {south}"


@pytest.mark.parametrize("name", [policy.name for policy in POLICIES])
@pytest.mark.parametrize("unknown", [float("nan"), float("inf")])
def test_no_job_goes_to_a_site_with_unknown_wait(make: Make, name: str, unknown: float) -> None:
    jobs = grid_jobs(job_id=[7, 8], cores=1, estimate_s=60, home=[1, 1])
    found = explained(name, make(Grid((SOUTH, Site("east", 16, 100.0))), jobs, [[unknown, 0.0]] * 2))
    assert [choice.site for choice in found] == ["east", "east"]
    assert [miss.text for miss in found[0].misses] == ["its wait is not known"]


def test_the_second_best_and_what_it_would_have_cost(make: Make, constant: Callable[..., Series]) -> None:
    grid = Grid((SOUTH, Site("east", 16, 100.0)))
    cycle = make(grid, grid_jobs(job_id=7, cores=10, estimate_s=HOUR_S), price=(constant(80.0), constant(20.0)))
    (choice,) = explained("mcmf", cycle)
    assert choice.site == "east"
    assert choice.reason == "east suits it best: ends in 1 h, 0.02 EUR, 0.40 kg CO2, 1.00 kWh"
    assert choice.chosen is not None
    assert choice.second is not None
    assert (choice.chosen.cost, choice.second.cost) == (pytest.approx(0.02), pytest.approx(0.08))
    assert choice.second.site == "south"


def test_reasons_of_the_other_policies(make: Make) -> None:
    grid = Grid((SOUTH, Site("east", 16, 100.0)))
    cycle = make(grid, grid_jobs(job_id=[7], cores=10, estimate_s=HOUR_S), [[1800.0, 5400.0]], queued=[3, 4])
    reasons = {policy.name: explained(policy.name, cycle)[0].reason for policy in POLICIES}
    figures = "ends in 1:30 h, 0.05 EUR, 0.40 kg CO2, 1.00 kWh"
    assert reasons == {
        "baseline": "it stays at home",
        "round-robin": "it is south's turn",
        "fastest": "it starts soonest at south, in 30 min",
        "eca-queue": f"south takes least: {figures}",
        "eca-sla": "it starts soonest at south, in 30 min",
        "mcmf": f"south suits it best: {figures}",
        "inst": "south suits it best: ends in 1 h, 0.05 EUR, 0.40 kg CO2, 1.00 kWh",
        "two-price": f"south suits it best: {figures}",
    }


def test_a_job_that_waits_for_the_next_cycle_hears_the_best(make: Make) -> None:
    grid = Grid((Site("a", 16, 100.0, max_per_cycle=1),))
    cycle = make(grid, grid_jobs(job_id=[7, 8], cores=10, estimate_s=[60, HOUR_S]))
    waiting = explained("mcmf", cycle)[1]
    assert waiting.site is None
    assert "all the jobs that they take in this cycle" in waiting.reason
    assert waiting.second is not None
    assert waiting.second.site == "a"


def test_unknown_names() -> None:
    with pytest.raises(BadInput, match="unknown grid policy 'mcfm'") as problem:
        grid_policy("mcfm")
    assert problem.value.hint == "did you mean mcmf?"
    with pytest.raises(BadInput, match="no site has the feature 'gpus'"):
        Grid((NORTH,)).feature_mask(["gpus"])
    with pytest.raises(BadInput, match="there is no site 'nort'"):
        Grid((NORTH,)).index("nort")
