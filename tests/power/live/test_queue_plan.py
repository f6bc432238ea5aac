"""While the capacity is limited by a plan of the queue: which nodes are woken, kept awake and on offer."""

import pytest
from scheduler_values import NOW_S, job_of, node_of, record_of, running
from small_site import changes_of, cluster_snapshot, planned, site_of

from offpeak.door.effect import Hold
from offpeak.model.orders import NodeState, PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.live.cluster_snapshot import NodeMemory
from offpeak.power.live.power_plan import PowerMemory
from offpeak.settings.capacity import CapacitySettings

BOOT_S = 300
"""How long a node of this class takes to come up."""
BIG = Request(("batch",), (Chunk(1, features=(frozenset({"big"}),)),))


def site(nodes=4, **agent):
    by_plan = {"capacity": "planned:20min", "limit_capacity": True}
    return site_of(nodes, bounds=CapacitySettings(depths=("off",)), **(by_plan | agent))


def plan_of(sleeping, busy=(), idle=(), jobs=(), *, idle_s=86_400, features=None, **agent):
    """Return the plan for nodes of these names; a busy node's job has the seconds left that are given."""
    features = features or {}
    nodes = [node_of(name, power=PowerState.OFF, features=features.get(name, ())) for name in sleeping]
    nodes += [node_of(name, use=NodeUse.USED, cpus_used=4, features=features.get(name, ())) for name, _ in busy]
    nodes += [node_of(name, idle_since_s=NOW_S - idle_s, features=features.get(name, ())) for name in idle]
    held = [
        running(f"r{name}", hosts=name, start_s=NOW_S - 3600, limit_s=3600 + left_s, end_s=NOW_S + left_s)
        for name, left_s in busy
    ]
    memory = {name: NodeMemory(False, NOW_S - 86_400, slept_s=(NOW_S - 80_000,)) for name in sleeping}
    memory |= {name: NodeMemory(True, NOW_S - idle_s, NOW_S - 80_000) for name in idle}
    records = {name: record_of(name, NodeState.OFF) for name in sleeping}
    snapshot = cluster_snapshot(nodes, jobs=[*held, *jobs], records=records)
    return planned(snapshot, site(len(nodes), **agent), PowerMemory(memory))


def waits(job_id="9", **given):
    return job_of(job_id, state=JobState.PENDING, submit_s=NOW_S - 60, **given)


def woken(plan) -> set[str]:
    return {each.node for each in plan.changes if str(each.change) == "power_up"}


def test_a_job_waits_for_a_node_that_is_free_sooner_than_a_boot_takes() -> None:
    soon = plan_of(["n02", "n03"], busy=[("n01", BOOT_S - 1)], jobs=[waits()])
    assert (woken(soon), set(soon.withdrawn)) == (set(), {"n02", "n03"})
    late = plan_of(["n02", "n03"], busy=[("n01", BOOT_S + 1)], jobs=[waits()])
    assert (woken(late), set(late.withdrawn)) == ({"n02"}, {"n03"})


def test_as_many_nodes_as_a_job_lacks_are_woken_when_a_boot_ends_with_the_others() -> None:
    early = plan_of(["n02", "n03", "n04"], busy=[("n01", 2 * BOOT_S)], jobs=[waits(nodes=4)])
    # The scheduler reserves them for the job, and nothing wakes them yet.
    assert (woken(early), early.withdrawn, changes_of(early)) == (set(), {}, {})
    due = plan_of(["n02", "n03", "n04"], busy=[("n01", BOOT_S)], jobs=[waits(nodes=3)])
    assert (woken(due), set(due.withdrawn)) == ({"n02", "n03"}, {"n04"})


def test_jobs_share_the_nodes_that_become_free() -> None:
    jobs = [waits("8", limit_s=100), waits("9", limit_s=100)]
    plan = plan_of(["n02"], busy=[("n01", 50)], jobs=jobs)
    assert (woken(plan), set(plan.withdrawn)) == (set(), {"n02"})
    plan = plan_of(["n02"], busy=[("n01", 250)], jobs=jobs)
    assert woken(plan) == {"n02"}


def closing(plan) -> set[str]:
    """Return the nodes that begin to sleep."""
    return {each.node for each in plan.changes if str(each.change) == "close"}


def test_an_idle_node_stays_awake_for_a_job_that_soon_starts_on_it() -> None:
    soon = plan_of([], busy=[("n01", 60)], idle=["n02"], jobs=[waits(nodes=2)])
    late = plan_of([], busy=[("n01", 86_400)], idle=["n02"], jobs=[waits(nodes=2)])
    assert (closing(soon), closing(late)) == (set(), {"n02"})
    at_once = plan_of([], busy=[("n01", 60)], idle=["n02", "n03"], jobs=[waits()])
    assert len(closing(at_once)) == 1
    rested = plan_of([], busy=[("n01", 60)], idle=["n02", "n03"], idle_s=1100)
    assert changes_of(rested) == {}


def test_a_job_that_only_some_nodes_can_run_wakes_them_at_once() -> None:
    features = {"n02": ("big",), "n01": ("big",)}
    job = waits(request=BIG)
    plan = plan_of(["n02", "n03"], busy=[("n04", 10)], jobs=[job], features=features)
    assert woken(plan) == {"n02"}
    kept = plan_of(["n03"], busy=[("n04", 10)], idle=["n01", "n02"], jobs=[job], features=features)
    assert closing(kept) == {"n02"}


def test_a_node_that_a_job_names_is_woken() -> None:
    named = waits(request=Request(("batch",), (Chunk(1, host="n03"),)))
    assert woken(plan_of(["n02", "n03"], busy=[("n01", 10)], jobs=[named])) == {"n03"}


def test_without_limited_capacity_the_policy_is_a_time_out() -> None:
    plan = plan_of(["n02"], busy=[("n01", 60)], idle=["n03"], jobs=[waits(nodes=2)], limit_capacity=False)
    assert (plan.offers, plan.withdrawn) == ((), {})


def test_no_node_is_withdrawn_while_the_first_job_does_not_start_on_idle_nodes() -> None:
    fresh, old = waits(), waits()._replace(submit_s=NOW_S - 7200)
    for job, withdrawn in ((fresh, {"n02", "n03"}), (old, set())):
        plan = plan_of(["n02", "n03"], idle=["n01"], jobs=[job])
        assert (set(plan.withdrawn), woken(plan), closing(plan)) == (withdrawn, set(), set())
    assert plan_of(["n02", "n03"], idle=["n01"], jobs=[old], idle_s=60).withdrawn
    # It waits for its turn.
    first = old._replace(job_id="8", nodes=2, priority=200)
    behind = plan_of(["n02", "n03", "n05"], busy=[("n04", 86_400)], idle=["n01"], jobs=[old, first])
    assert (woken(behind), set(behind.withdrawn)) == ({"n02", "n03"}, {"n05"})


def test_a_node_on_hold_is_not_counted_on() -> None:
    held = {"n02": record_of("n02", NodeState.OFF, hold=Hold("jo", "repair"))}
    nodes = [node_of("n02", power=PowerState.OFF), node_of("n01", use=NodeUse.USED, cpus_used=4)]
    jobs = [running(hosts="n01", start_s=NOW_S - 60, limit_s=86_400), waits()]
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=held), site(2))
    assert changes_of(plan) == {}


@pytest.mark.parametrize("floor", [{"min_on": 3}, {"keep_hot": 2}])
def test_the_settings_keep_nodes_awake(floor) -> None:
    bounds = CapacitySettings(depths=("off",), keep_hot=floor.get("keep_hot", 0))
    nodes = [node_of(name, idle_since_s=NOW_S - 86_400) for name in ("n01", "n02", "n03", "n04")]
    by_plan = {"capacity": "planned:20min", "limit_capacity": True, "min_on": floor.get("min_on", 0)}
    plan = planned(cluster_snapshot(nodes), site_of(4, bounds=bounds, **by_plan))
    assert len(closing(plan)) == 4 - next(iter(floor.values()))
