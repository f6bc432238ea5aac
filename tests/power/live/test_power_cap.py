"""Under a cap on power idle nodes sleep at once, no wake breaks it, and only jobs that fit below it get nodes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_values import NOW_S, job_of, node_of, record_of, running
from small_site import changes_of, cluster_snapshot, planned, site_of

from offpeak.door.effect import Hold
from offpeak.model.facility import PowerCap
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.capacity.port import CapacityTargets
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.live.cluster_snapshot import NodeMemory, PoolMemory, SleepInProgress
from offpeak.power.live.power_plan import PowerMemory, PowerPlan
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

OFF = NodeState.OFF
IDLE_W, FULL_W, OFF_W, BOOT_W = 200, 700, 15, 300
WHY = "offpeak: cap of {:,} W: the grid asks"


def names(count: int) -> list[str]:
    return [f"n{number:02}" for number in range(1, count + 1)]


def cap(cap_w: int, *, from_s: int = -60, until_s: int = 3600) -> dict[str, tuple[PowerCap, ...]]:
    return {"caps": (PowerCap(NOW_S + from_s, NOW_S + until_s, cap_w, "the grid asks", "events.toml"),)}


def idle(*which: str, **given):
    """Return nodes whose last job has ended so recently that no time-out is over."""
    return [node_of(name, idle_since_s=NOW_S - 100, **given) for name in which]


def asleep(*which: str, **given):
    """Return nodes that sleep, their records, and the memory of them."""
    records = {name: record_of(name, OFF) for name in which}
    memory = PowerMemory({name: NodeMemory(False, NOW_S - 86_400, slept_s=(NOW_S - 80_000,)) for name in which})
    return [node_of(name, power=PowerState.OFF, **given) for name in which], records, memory


def busy(name: str):
    return node_of(name, use=NodeUse.USED, cpus_used=4)


def of(plan: PowerPlan, change: str) -> list[str]:
    return sorted(node for node, what in changes_of(plan).items() if what == change)


def test_as_many_idle_nodes_sleep_at_once_as_are_needed_and_the_rest_is_withdrawn() -> None:
    # Four idle nodes draw 800 W; with two of them asleep, 430 W.
    plan = planned(cluster_snapshot(idle(*names(4)), **cap(500)), site_of())
    assert (of(plan, "close"), of(plan, "withdraw")) == (["n03", "n04"], ["n01", "n02"])
    assert {change.reason for change in plan.changes} == {WHY.format(500)}
    assert plan.budget is not None
    assert plan.budget.draw_w == 2 * (IDLE_W + OFF_W)


def test_without_a_cap_in_reach_nothing_changes() -> None:
    for when in ({"from_s": 7200, "until_s": 9000}, {"from_s": -7200, "until_s": 0}):
        plan = planned(cluster_snapshot(idle(*names(4)), **cap(500, **when)), site_of())
        assert (changes_of(plan), plan.budget) == ({}, None)


def test_nodes_sleep_so_early_that_the_draw_is_low_when_the_cap_begins() -> None:
    # A shutdown takes a minute, and two cycles may pass before it.
    plan = planned(cluster_snapshot(idle(*names(4)), **cap(500, from_s=120)), site_of())
    assert of(plan, "close") == ["n03", "n04"]


def test_a_cap_that_is_far_above_the_draw_changes_nothing() -> None:
    plan = planned(cluster_snapshot(idle(*names(4)), **cap(4 * FULL_W)), site_of())
    assert changes_of(plan) == {}


def test_nodes_stay_open_on_which_a_job_of_full_power_still_fits() -> None:
    spare = cap(4 * IDLE_W + FULL_W - IDLE_W)
    plan = planned(cluster_snapshot(idle(*names(4)), **spare), site_of())
    assert of(plan, "withdraw") == ["n02", "n03", "n04"]


@pytest.mark.parametrize(
    ("settings", "sleepers"),
    [
        ({"bounds": replace(CapacitySettings(), keep_hot=3)}, 1),
        ({"min_on": 2}, 2),
        ({"capacity": "green-pool:1"}, 3),
        ({"capacity": "always-on"}, 0),
        ({"nodes_per_sweep": 1}, 1),
        ({"capacity": "forecast:1h"}, 4),
    ],
)
def test_what_the_settings_keep_awake_stays_awake(settings, sleepers) -> None:
    plan = planned(cluster_snapshot(idle(*names(4)), **cap(0)), site_of(**settings))
    assert len(of(plan, "close")) == sleepers
    reported = any("no other idle node may sleep" in what for what, _ in plan.problems)
    # Nodes that are still to sleep, in a later sweep, are no problem.
    assert reported is (sleepers < 4 and "nodes_per_sweep" not in settings)


def test_the_draw_of_idle_nodes_that_a_sweep_holds_back_is_known() -> None:
    site = site_of(nodes_per_sweep=1, min_on=1)
    budget = planned(cluster_snapshot(idle(*names(4)), **cap(0)), site).budget
    assert budget is not None
    assert budget.draw_w == 3 * IDLE_W + OFF_W
    assert budget.held_back_w == 2 * (IDLE_W - OFF_W), "one stays on"
    enough = planned(cluster_snapshot(idle(*names(4)), **cap(3 * IDLE_W)), site).budget
    assert enough is not None
    assert enough.held_back_w == IDLE_W - OFF_W


def test_a_node_that_a_limit_keeps_awake_for_long_counts_by_what_it_draws() -> None:
    for since_s, draw_w in ((NOW_S - 299, OFF_W), (NOW_S - 301, IDLE_W)):
        leaving = SleepInProgress(since_s, NodeOrder.SOFT_OFF, "")
        memory = PowerMemory({"n01": NodeMemory(True, NOW_S - 900, leaving=leaving)})
        budget = planned(cluster_snapshot(idle("n01"), **cap(0)), site_of(1), memory).budget
        assert budget is not None
        assert budget.draw_w == draw_w


def test_jobs_holds_and_admins_keep_their_nodes() -> None:
    nodes = [busy("n01"), *idle("n02"), *idle("n03", closed=True, reason="new DIMM"), *idle("n04")]
    records = {"n02": record_of("n02", hold=Hold("jo", "repair"))}
    plan = planned(cluster_snapshot(nodes, jobs=[running(hosts="n01")], records=records, **cap(0)), site_of())
    assert changes_of(plan) == {"n04": "close"}


def test_a_new_job_wakes_no_sleeping_node_and_gets_no_idle_one() -> None:
    nodes, records, memory = asleep("n01", "n02")
    plan = planned(cluster_snapshot([*nodes, *idle("n03")], records=records, **cap(300)), site_of(3), memory)
    assert of(plan, "withdraw") == ["n01", "n02", "n03"]


def test_a_job_that_waits_and_fits_wakes_a_node_and_one_whose_wake_does_not_fit_waits() -> None:
    nodes, records, memory = asleep("n01", "n02")
    for cap_w, woken in ((2 * BOOT_W - 1, ["n01"]), (2 * BOOT_W + 400, ["n01", "n02"]), (BOOT_W, [])):
        jobs = [job_of("1"), job_of("2")]
        sight = cluster_snapshot(nodes, jobs=jobs, records=records, job_w={"1": 250.0, "2": 250.0}, **cap(cap_w))
        plan = planned(sight, site_of(2), memory)
        assert of(plan, "power_up") == woken
        assert plan.budget is not None
        assert plan.budget.draw_w <= cap_w


def test_a_job_that_its_owner_never_lets_wait_gets_its_node() -> None:
    nodes, records, memory = asleep("n01", "n02")
    sight = cluster_snapshot(nodes, jobs=[job_of("1")], records=records, undelayable=frozenset("1"), **cap(0))
    assert of(planned(sight, site_of(2), memory), "power_up") == ["n01"]


def test_a_job_that_waits_for_the_end_of_the_cap_wakes_nothing_before_it() -> None:
    nodes, records, memory = asleep("n01", "n02")
    jobs = [job_of(begin_s=NOW_S + 60, reason="BeginTime", nodes=2)]
    sight = cluster_snapshot(nodes, jobs=jobs, records=records)
    assert of(planned(sight, site_of(2), memory), "power_up") == ["n01", "n02"]
    capped = replace(sight, **cap(300, until_s=60))
    assert of(planned(capped, site_of(2), memory), "power_up") == []


def test_when_the_cap_is_over_the_nodes_are_open_again() -> None:
    closed = {"closed": True, "reason": WHY.format(300)}
    nodes, records, memory = asleep("n01", "n02", **closed)
    sight = cluster_snapshot([*nodes, *idle("n03", **closed)], records=records)
    assert changes_of(planned(replace(sight, **cap(300)), site_of(3), memory)) == {}
    assert changes_of(planned(sight, site_of(3), memory)) == dict.fromkeys(names(3), "open")


def test_measured_power_counts_and_a_job_that_has_just_started_counts_as_expected() -> None:
    nodes = [busy("n01"), *idle("n02", "n03")]
    given = {"jobs": [running(hosts="n01")], "job_w": {"1": 400.0}}
    measured = {"n01": 90.0, "n02": 250.0, "n03": 180.0}
    plan = planned(cluster_snapshot(nodes, **given, measured_w=measured, **cap(600)), site_of(3))
    # 400 W of the job, 430 W of the idle nodes: the one that draws more sleeps.
    assert of(plan, "close") == ["n02"]
    assert plan.budget is not None
    assert plan.budget.draw_w == 400 + OFF_W + 180


@pytest.mark.parametrize("cap_w", [0, 4 * FULL_W])
def test_nodes_beyond_a_limited_capacity_stay_closed_under_any_cap(cap_w) -> None:
    closed = {"closed": True, "reason": "offpeak: capacity: ols:1h offers 1 of 4 nodes"}
    nodes, records, memory = asleep("n02", "n03", "n04", **closed)
    site = site_of(4, bounds=replace(CapacitySettings(), sla=200.0), capacity="ols:1h", limit_capacity=True)
    sight = cluster_snapshot([busy("n01"), *nodes], jobs=[running(hosts="n01")], records=records, **cap(cap_w))
    plan = planned(sight, site, memory)
    assert (changes_of(plan), set(plan.withdrawn)) == ({}, {"n02", "n03", "n04"})


def test_a_meter_that_still_shows_the_power_of_the_last_job_puts_no_node_to_sleep() -> None:
    given = {"measured_w": {"n01": 600.0, "n02": 600.0}, **cap(500)}
    assert of(planned(cluster_snapshot(idle("n01", "n02"), **given), site_of(2)), "close") == ["n01", "n02"]
    just = [node._replace(idle_since_s=NOW_S - 5) for node in idle("n01", "n02")]
    assert of(planned(cluster_snapshot(just, **given), site_of(2)), "close") == []


@given(
    uses=st.lists(st.sampled_from(("busy", "idle", "asleep")), min_size=1, max_size=8),
    cap_w=st.integers(0, 4000),
    keep_hot=st.integers(0, 3),
    watts=st.lists(st.integers(150, 260), min_size=8, max_size=8),
)
def test_no_more_nodes_sleep_than_needed_and_none_that_must_stay(uses, cap_w, keep_hot, watts) -> None:
    every = names(len(uses))
    by_use = {use: [name for name, each in zip(every, uses, strict=True) if each == use] for use in set(uses)}
    sleepers, records, memory = asleep(*by_use.get("asleep", ()))
    awake = by_use.get("idle", [])
    jobs = [running(str(at), hosts=name) for at, name in enumerate(by_use.get("busy", []))]
    measured = {name: float(watt) for name, watt in zip(awake, watts, strict=False)}
    sight = cluster_snapshot(
        [*map(busy, by_use.get("busy", [])), *idle(*awake), *sleepers],
        jobs=jobs,
        records=records,
        measured_w=measured,
        job_w={job.job_id: 500.0 for job in jobs},
        **cap(cap_w),
    )
    site = site_of(len(uses), bounds=replace(CapacitySettings(), keep_hot=keep_hot))
    plan = planned(sight, site, memory)
    closed = of(plan, "close")
    assert set(closed) <= set(awake)
    assert plan.budget is not None
    before_w = 500.0 * len(jobs) + sum(measured.values()) + OFF_W * len(sleepers)
    saved_w = {name: measured[name] - OFF_W for name in awake}
    woken = of(plan, "power_up")
    after_w = before_w - sum(saved_w[name] for name in closed) + len(woken) * (BOOT_W - OFF_W)
    assert plan.budget.draw_w == pytest.approx(after_w)
    may_sleep = max(0, min(len(awake), len(awake) + len(jobs) - keep_hot))
    assert len(closed) <= may_sleep
    if closed:
        assert plan.budget.draw_w + min(saved_w[name] for name in closed) > cap_w
    assert plan.budget.draw_w <= cap_w or len(closed) == may_sleep
    assert len(woken) <= max(0, keep_hot - len(awake) - len(jobs))
    assert not woken or plan.budget.draw_w <= cap_w


@pytest.mark.parametrize(
    ("settings", "woken"),
    [
        ({"bounds": replace(CapacitySettings(), keep_hot=2)}, 2),
        ({"capacity": "green-pool:1"}, 1),
    ],
)
def test_what_the_settings_keep_awake_wakes_as_far_as_the_cap_allows(settings, woken) -> None:
    nodes, records, memory = asleep(*names(3))
    sight, site = cluster_snapshot(nodes, records=records), site_of(3, **settings)
    assert of(planned(replace(sight, **cap(100_000)), site, memory), "power_up") == names(woken)
    assert of(planned(replace(sight, **cap(BOOT_W + 2 * OFF_W)), site, memory), "power_up") == ["n01"]
    assert of(planned(replace(sight, **cap(BOOT_W)), site, memory), "power_up") == []


def test_a_cap_that_is_far_above_the_draw_wakes_no_fewer_nodes_for_jobs() -> None:
    nodes, records, memory = asleep("n01", "n02")
    jobs = [job_of(begin_s=NOW_S + 60, reason="BeginTime", nodes=2)]
    sight = cluster_snapshot(nodes, jobs=jobs, records=records, **cap(100_000))
    assert of(planned(sight, site_of(2), memory), "power_up") == ["n01", "n02"]


@pytest.mark.parametrize("others", ["asleep", "busy"])
def test_a_cap_opens_no_node_that_the_limited_capacity_withdraws(others) -> None:
    nodes, records, memory = asleep("n02", "n03", "n04")
    jobs = [running("n01", hosts="n01"), job_of("9", submit_s=NOW_S - 86_400, limit_s=3600)]
    if others == "busy":
        nodes, records = [busy(name) for name in names(4)[1:]], {}
        jobs += [running(name, hosts=name, start_s=NOW_S - 60, limit_s=7200) for name in names(4)[1:]]
    decided = replace(memory, pools={"batch": PoolMemory("ols:1h", NOW_S, CapacityTargets(1))})
    site = site_of(4, bounds=replace(CapacitySettings(), sla=200.0), capacity="ols:1h", limit_capacity=True)
    sight = cluster_snapshot([busy("n01"), *nodes], jobs=jobs, records=records)
    without, capped = (planned(each, site, decided) for each in (sight, replace(sight, **cap(100_000))))
    assert without.withdrawn
    assert (capped.withdrawn, changes_of(capped)) == (without.withdrawn, changes_of(without))


@given(pools=st.lists(st.integers(1, 3), min_size=1, max_size=4), spare_w=st.integers(0, 3000))
def test_jobs_of_full_power_on_all_open_nodes_of_all_pools_fit_below_the_cap(pools, spare_w) -> None:
    every = names(sum(pools))
    of_pool = [number for number, count in enumerate(pools) for _ in range(count)]
    nodes = [node._replace(partitions=(f"p{at}",)) for node, at in zip(idle(*every), of_pool, strict=True)]
    plan = planned(cluster_snapshot(nodes, **cap(IDLE_W * len(every) + spare_w)), site_of(len(every)))
    still_open = len(every) - len(plan.withdrawn)
    assert still_open == min(spare_w // (FULL_W - IDLE_W), len(every))
