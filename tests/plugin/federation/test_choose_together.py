"""The jobs of a live cycle are placed together: within the capacity of sites, at the least total, with their data."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.weighing import Weights, parse_weights
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.jobs import BY_WEIGHTS, PlacementRequest
from offpeak.plugin.federation.live_cycle import CycleChoices, SiteReply, choose_together
from offpeak.plugin.federation.site_report import SiteReport, WaitTable
from offpeak.plugin.federation.sites import Grid, Link, Reach, Site
from offpeak.prices.tariff import parse_tariff
from tests.peers.one_choice import choose

NOW_S = 1_795_215_600
ALONE = GridRules(together=False)


def site(name: str, *, price: int = 80, most: int | None = None) -> Site:
    tariff = parse_tariff(f"on={price}EUR/MWh,off={price}EUR/MWh,hours=08:00-20:00")
    reach = Reach("local")
    return Site(name, 8, 100.0, cores_per_unit=4, tariff=tariff, esc_g_per_kwh=100.0, max_per_cycle=most, reach=reach)


def reply(wait_s: float = 0.0) -> SiteReply:
    """Return the reply of a site that is busy, where each job waits so long."""
    return SiteReply(SiteReport(NOW_S, "c", "slurm", 32, 0, 1, 8, WaitTable((32,), (86_400,), ((wait_s,),))))


def together(requests: list[PlacementRequest], grid: Grid, waits_s: list[float], **options: object) -> CycleChoices:
    replies = {name: reply(wait_s) for name, wait_s in zip(grid.names, waits_s, strict=True)}
    options = {"policy": "mcmf", "now_s": NOW_S, "stale_s": 60} | options
    return choose_together(requests, grid, replies, **options)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(
    cores=st.lists(st.sampled_from([4, 8, 16, 32]), min_size=1, max_size=4),
    prices=st.lists(st.integers(10, 200), min_size=3, max_size=3),
    most=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_as_many_as_possible_at_the_least_cost(cores: list[int], prices: list[int], most: list[int]) -> None:
    grid = Grid(tuple(site(f"s{at}", price=prices[at], most=most[at]) for at in range(3)))
    requests = [PlacementRequest(each, 3600, "cost") for each in cores]
    found = together(requests, grid, [0.0] * 3, rules=ALONE)
    chosen = [choice.chosen for choice in found.choices if choice.chosen is not None]
    taken = Counter(each.site for each in chosen)
    assert all(taken[f"s{at}"] <= most[at] for at in range(3))
    assert len(chosen) == min(len(cores), sum(most))
    alone = [[_cost(request, grid, at) for at in range(3)] for request in requests]
    least = min(
        sum(alone[job][at] for job, at in enumerate(places) if at < 3)
        for places in product(range(4), repeat=len(cores))
        if sum(at < 3 for at in places) == len(chosen) and all(places.count(at) <= most[at] for at in range(3))
    )
    rounding = (max(map(max, alone)) - min(map(min, alone))) * 1e-4 * len(cores)
    assert sum(each.cost for each in chosen) <= least + rounding + 1e-12


def _cost(request: PlacementRequest, grid: Grid, at: int) -> float:
    one = Grid((replace(grid.sites[at], max_per_cycle=None),))
    (choice,) = together([request], one, [0.0]).choices
    assert choice.chosen is not None
    return choice.chosen.cost


def test_jobs_beyond_the_capacity_of_all_sites_wait_and_impossible_ones_do_not() -> None:
    grid = Grid((site("a", most=1), site("b", most=1)))
    requests = [PlacementRequest(4, 3600)] * 3 + [PlacementRequest(99, 3600)]
    found = together(requests, grid, [0.0, 0.0]).choices
    assert [choice.site is not None for choice in found].count(True) == 2
    assert [choice.may_wait for choice in found if choice.site is None] == [True, False]
    assert found[3].reason.startswith("no site can run it: a: 99 cores requested, 32 are the most; b: 99 cores")


def test_competing_jobs_keep_the_weights() -> None:
    grid = Grid((site("cheap", price=50), site("mid", price=90), site("soon", price=140)))
    found = together([PlacementRequest(16, 1800, BY_WEIGHTS)] * 6, grid, [26.0, 13.0, 0.0]).choices
    # All wait at the cheap site: the last for 2.5 h of work, 25 against 75.
    assert [choice.site for choice in found] == ["cheap"] * 6
    assert found[-1].chosen is not None
    assert found[-1].second is not None
    assert [found[-1].chosen.score, found[-1].second.score] == [pytest.approx(25.0), pytest.approx(33.4, abs=0.1)]


@pytest.mark.parametrize(("weights", "where"), [("time=100", "soon"), ("cost=100", "cheap")])
def test_the_weights_decide_for_jobs_without_a_goal(weights: str, where: str) -> None:
    grid = Grid((site("cheap", price=10), site("soon", price=200)))
    rules = GridRules(weights=parse_weights(weights))
    (choice,) = together([PlacementRequest(4, 3600, BY_WEIGHTS)], grid, [9000.0, 60.0], rules=rules).choices
    assert choice.site == where
    (own,) = together([PlacementRequest(4, 3600, "time")], grid, [9000.0, 60.0], rules=rules).choices
    assert own.site == "soon"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("time=25", "weights of 25 %"),
        ("time=125,cost=-25", "weights of 100 %"),
        ("speed=100", "'speed' is not a weight"),
        ("time=50,time=50", "'time' stands there twice"),
        ("time=much,cost=50", "'time=much' has no share in per cent"),
        ("time=nan,cost=50", "'time=nan' has no share"),
        ("", "is not a weight"),
    ],
)
def test_wrong_weights_are_refused(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        parse_weights(text)
    assert parse_weights("cost=75, time=25") == Weights()


def test_data_stay_where_their_way_would_take_longer_than_the_wait() -> None:
    sites = Grid((site("here"), site("there")), (Link(("here", "there"), 0.0, 10.0),))
    job = PlacementRequest(4, 3600, "time")
    waits_s = [0.0, 600.0]
    assert together([job], sites, waits_s).choices[0].site == "here"
    light, heavy = (replace(job, data_mb=data_mb, data_at="there") for data_mb in (1000.0, 20_000.0))
    found = together([light, heavy], sites, waits_s, rules=ALONE).choices
    assert [choice.site for choice in found] == ["here", "there"]
    assert found[0].chosen is not None
    assert (found[0].chosen.transfer_s, found[0].chosen.delay_s) == (100.0, 100.0)
    with pytest.raises(BadInput, match="there is no site 'nowhere'"):
        together([replace(light, data_at="nowhere")], sites, waits_s)


def test_turns_go_on_in_the_next_cycle() -> None:
    grid = Grid(tuple(site(name) for name in "abc"))
    requests = [PlacementRequest(4, 3600)] * 2
    first = together(requests, grid, [0.0] * 3, policy="round-robin")
    second = together(requests, grid, [0.0] * 3, policy="round-robin", turn=first.turn)
    assert [choice.site for choice in (*first.choices, *second.choices)] == ["a", "b", "c", "a"]


def test_a_site_is_left_out_for_one_job_of_the_cycle() -> None:
    grid = Grid((site("a"), site("b", price=90)))
    requests = [PlacementRequest(4, 3600, "cost")] * 2
    found = together(requests, grid, [0.0, 0.0], without=({"a": "refused it: no"}, {})).choices
    assert [choice.site for choice in found] == ["b", "a"]
    assert [(miss.site, miss.text) for miss in found[0].misses] == [("a", "refused it: no")]


def test_the_limit_of_the_queue_is_a_rule() -> None:
    grid = Grid((site("short", price=200), site("long", price=10)))
    replies = {"short": reply(), "long": reply(600.0)}
    long = replies["long"].report
    assert long is not None
    replies["long"] = SiteReply(replace(long, queued=5))
    request = PlacementRequest(4, 3600, "cost")
    for limit, where in ((5, "long"), (4, "short")):
        rules = GridRules(queue_limit=limit)
        assert choose(request, grid, replies, now_s=NOW_S, stale_s=60, rules=rules).site == where
