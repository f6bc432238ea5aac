"""Which nodes jobs are offered while the capacity is limited, and which are withdrawn."""

from dataclasses import replace

import pytest
from scheduler_values import NOW, NOW_S, job_of, node_of, record_of, running
from small_site import changes_of, cluster_snapshot, planned, site_of

from offpeak.door.effect import Hold
from offpeak.errors import BadInput
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.capacity.port import CapacityTargets
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse, Reservation
from offpeak.power.capacity.registry import check_policy_name
from offpeak.power.lifecycle.node_record import DesiredState
from offpeak.power.live.cluster_snapshot import NodeMemory, PoolMemory
from offpeak.power.live.power_plan import PowerMemory
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

OFF = NodeState.OFF
NAMES = ("n01", "n02", "n03", "n04")
BY_US = {"closed": True, "reason": "offpeak: capacity: ols:1h offers 1 of 4 nodes"}


def limited(sla=200.0, **agent):
    """Return a site of four nodes with as few on offer as keep the slowdown SLA."""
    bounds = replace(CapacitySettings(), sla=sla)
    return site_of(4, bounds=bounds, **({"capacity": "ols:1h", "limit_capacity": True} | agent))


def asleep(name, **given):
    return node_of(name, power=PowerState.OFF, **given)


def sleepers(*names, **given):
    """Return nodes that sleep, their records, and the memory of them."""
    records = {name: record_of(name, OFF) for name in names}
    memory = PowerMemory({name: NodeMemory(False, NOW_S - 86_400, slept_s=(NOW_S - 80_000,)) for name in names})
    return [asleep(name, **given) for name in names], records, memory


def busy(name, **given):
    return node_of(name, use=NodeUse.USED, cpus_used=4, **given)


def test_a_sleeping_node_is_withdrawn_and_stays_closed() -> None:
    nodes, records, memory = sleepers("n02", "n03", "n04")
    jobs = [running(hosts="n01")]
    first = planned(cluster_snapshot([busy("n01"), *nodes], jobs=jobs, records=records), limited(), memory)
    assert changes_of(first) == dict.fromkeys(("n02", "n03", "n04"), "withdraw")
    assert first.changes[0].reason == "offpeak: capacity: ols:1h offers 1 of 4 nodes"
    closed = [asleep(name, **BY_US) for name in ("n02", "n03", "n04")]
    second = planned(cluster_snapshot([busy("n01"), *closed], jobs=jobs, records=records), limited(), first.memory)
    assert (changes_of(second), set(second.withdrawn)) == ({}, {"n02", "n03", "n04"})


@pytest.mark.parametrize("site", [limited(limit_capacity=False), limited(capacity="timeout:10min")])
def test_a_withdrawn_node_is_open_again_when_nothing_limits_the_capacity(site) -> None:
    _, records, memory = sleepers("n01", "n02", "n03")
    nodes = [*(asleep(name, **BY_US) for name in ("n01", "n02", "n03")), busy("n04", **BY_US)]
    plan = planned(cluster_snapshot(nodes, jobs=[running(hosts="n04")], records=records), site, memory)
    assert changes_of(plan) == dict.fromkeys(NAMES, "open")
    assert plan.withdrawn == {}


def test_no_time_out_limits_capacity() -> None:
    check_policy_name("ols:1h", to_limit=True)
    with pytest.raises(BadInput, match="the policy timeout decides no number of nodes"):
        check_policy_name("timeout:10min", to_limit=True)


def waits(job="9", **given):
    return job_of(job, state=JobState.PENDING, limit_s=3600, submit_s=NOW_S - 86_400, **given)


def test_a_waiting_job_that_threatens_the_sla_gets_nodes_back_at_once() -> None:
    # It has waited for a day, and would wait for another on the only node that is on offer.
    _, records, memory = sleepers("n02", "n03", "n04")
    nodes = [busy("n01"), *(asleep(name, **BY_US) for name in ("n02", "n03", "n04"))]
    jobs = [running(hosts="n01", limit_s=86_400), waits()]
    site = limited(sla=20.0)
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=records), site, memory)
    # A drain must end before the node comes up.
    assert [str(each.change) for each in plan.changes if each.node == "n02"] == ["open", "power_up"]
    nodes[1] = node_of("n02", power=PowerState.POWERING_ON, **BY_US)
    records |= {"n02": record_of("n02", NodeState.BOOTING)}
    again = planned(cluster_snapshot(nodes, jobs=jobs, records=records), site, plan.memory)
    assert changes_of(again)["n02"] == "open"


def test_a_busy_node_beyond_the_number_is_withdrawn_ahead_and_sleeps_when_it_is_free() -> None:
    site, nodes = limited(), [busy(name) for name in NAMES]
    decided = PowerMemory(pools={"batch": PoolMemory("ols:1h", NOW_S, CapacityTargets(1))})
    jobs = [
        running(name, hosts=name, start_s=NOW_S - 60, limit_s=3600 * at, nodes=1) for at, name in enumerate(NAMES, 1)
    ]
    first = planned(cluster_snapshot(nodes, jobs=jobs), site, decided)
    # The node that is free last stays on offer: the next one that is free does not go to a waiting job.
    assert changes_of(first) == {"n01": "withdraw", "n02": "withdraw", "n03": "withdraw"}
    closed = [node_of("n01", **BY_US), busy("n02", **BY_US), busy("n03", **BY_US), busy("n04")]
    second = planned(cluster_snapshot(closed, jobs=jobs[1:]), site, first.memory)
    assert changes_of(second) == {}
    assert second.desired_states["n01"].order is NodeOrder.SOFT_OFF
    assert second.desired_states["n01"].why.startswith("capacity: ")


def test_a_job_keeps_the_nodes_on_offer_that_alone_can_run_it() -> None:
    nodes, records, memory = sleepers("n01", "n02", features=("big",))
    nodes = [*nodes, busy("n03"), busy("n04")]
    request = Request(("batch",), (Chunk(1, features=(frozenset({"big"}),)),))
    jobs = [running(hosts="n03,n04", nodes=2), waits(request=request)]
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=records), limited(capacity="two-level:2"), memory)
    assert sorted(changes_of(plan).values()) == ["power_up", "withdraw", "withdraw"]
    assert len({"n01", "n02"} & plan.withdrawn.keys()) == 1


@pytest.mark.parametrize("named", ["reservation", "job"])
def test_a_node_that_somebody_names_is_on_offer(named) -> None:
    _, records, memory = sleepers("n02", "n03", "n04")
    nodes = [busy("n01"), *(asleep(name, **BY_US) for name in ("n02", "n03", "n04"))]
    jobs, reservations = [running(hosts="n01")], []
    if named == "job":
        jobs.append(waits(request=Request(("batch",), (Chunk(1, host="n03"),))))
    else:
        reservations.append(Reservation("demo", NOW_S + 60, NOW_S + 3600, ("n03",), maintenance=False))
    snapshot = cluster_snapshot(nodes, jobs=jobs, records=records, reservations=reservations)
    plan = planned(snapshot, limited(), memory)
    assert changes_of(plan) == {"n03": "power_up"}


def test_what_an_admin_closes_holds_wakes_or_opens_is_not_withdrawn() -> None:
    records = {name: record_of(name, OFF) for name in NAMES}
    woken = DesiredState(NodeOrder.ON, "admin jo", float(NOW_S - 60), "to look at it")
    records |= {"n02": record_of("n02", OFF, hold=Hold("jo", "repair")), "n03": record_of("n03", desired=woken)}
    nodes = [asleep("n01", closed=True, reason="new DIMM"), asleep("n02"), node_of("n03"), asleep("n04")]
    # Somebody has opened n04 since the last plan.
    memory = PowerMemory({"n04": NodeMemory(False, NOW_S - 86_400, withdrawn=True)})
    plan = planned(cluster_snapshot(nodes, records=records), limited(), memory)
    assert (changes_of(plan), plan.withdrawn) == ({}, {})
    later = replace(NOW, monotonic_s=NOW.monotonic_s + 3600, unix_s=NOW.unix_s + 3600)
    after = planned(cluster_snapshot(nodes, records=records, now=later), limited(), plan.memory)
    assert changes_of(after) == {"n03": "close", "n04": "withdraw"}


def test_as_many_nodes_stay_on_offer_as_the_widest_job_needs() -> None:
    _, records, memory = sleepers(*NAMES)
    nodes = [asleep(name, **BY_US) for name in NAMES]
    plan = planned(cluster_snapshot(nodes, jobs=[waits(nodes=3)], records=records), limited(), memory)
    assert sorted(changes_of(plan).values()) == ["power_up"] * 3
    assert len(plan.withdrawn) == 1


def test_idle_nodes_that_must_stay_on_stay_on_offer() -> None:
    plan = planned(cluster_snapshot([node_of(name) for name in NAMES]), limited(min_on=2))
    assert (changes_of(plan), plan.withdrawn) == ({"n04": "close", "n03": "close"}, {})


def test_a_job_gets_nodes_other_than_those_that_it_excludes() -> None:
    _, records, memory = sleepers("n02", "n03", "n04")
    nodes = [busy("n01"), *(asleep(name, **BY_US) for name in ("n02", "n03", "n04"))]
    excludes = Request(("batch",), (Chunk(1),), excluded=frozenset({"n01", "n02"}))
    jobs = [running(hosts="n01"), waits(request=excludes)]
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=records), limited(capacity="two-level:1"), memory)
    assert {"n03", "n04"} - plan.withdrawn.keys()


def test_each_chunk_of_a_job_keeps_nodes_that_can_run_it() -> None:
    nodes, records, memory = sleepers("n04", features=("big",))
    nodes = [busy("n01"), busy("n02"), busy("n03"), *nodes]
    request = Request(("batch",), (Chunk(2), Chunk(1, features=(frozenset({"big"}),))))
    jobs = [running(hosts="n01,n02,n03", nodes=3), waits(request=request, nodes=3)]
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=records), limited(), memory)
    assert changes_of(plan)["n04"] == "power_up"


def test_while_a_job_waits_that_is_not_understood_its_partition_is_open() -> None:
    _, records, memory = sleepers("n02", "n03", "n04")
    nodes = [busy("n01"), *(asleep(name, **BY_US) for name in ("n02", "n03", "n04"))]
    jobs = [running(hosts="n01"), waits(request_problem="a licence server is not known")]
    plan = planned(cluster_snapshot(nodes, jobs=jobs, records=records), limited(), memory)
    assert (changes_of(plan), plan.withdrawn) == (dict.fromkeys(("n02", "n03", "n04"), "open"), {})


def test_a_node_that_comes_up_is_on_offer_instead_of_another_one() -> None:
    # slurmctld already waits for n02 and n03, which the last poll saw off.
    _, records, memory = sleepers("n02", "n03", "n04")
    rising = [node_of(name, power=PowerState.POWERING_ON) for name in ("n02", "n03")]
    nodes = [busy("n01"), *rising, asleep("n04", **BY_US)]
    snapshot = cluster_snapshot(nodes, jobs=[running(hosts="n01")], records=records)
    plan = planned(snapshot, limited(capacity="two-level:3"), memory)
    assert (changes_of(plan), set(plan.withdrawn)) == ({}, {"n04"})
