"""Who sleeps, who wakes, and why: the plan of a cycle."""

from dataclasses import replace

import pytest
from scheduler_values import NOW, NOW_S, job_of, node_of, record_of, running
from small_site import HARDWARE, SERVER, changes_of, cluster_snapshot, planned, site_of, slept_long_ago

from offpeak.door.effect import Hold
from offpeak.machines.inventory import Enrolment, SleepMethod
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.capacity.port import CapacityTargets
from offpeak.plugin.scheduler.node import NodeUse, Reservation
from offpeak.power.lifecycle.node_context import MeasuredDurations
from offpeak.power.lifecycle.node_record import Attempts, DesiredState, Instant, ObservedState, PendingOrder, SentOrder
from offpeak.power.live.cluster_snapshot import UNTAKEN_S, NodeMemory, PastUse, PoolMemory, SleepInProgress
from offpeak.power.live.cycle_watch import CycleWatch
from offpeak.power.live.observe import REST_S
from offpeak.power.live.power_plan import PowerMemory
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

NAMES = ("n01", "n02", "n03", "n04")
GPU_REQUEST = Request(("batch",), (Chunk(1, features=(frozenset({"gpu"}),)),))
OFF = NodeState.OFF


def four(**given):
    return [node_of(name, **given) for name in NAMES]


def down(name, **given):
    return node_of(name, power=PowerState.OFF, **given)


def off_records(*names):
    return {name: record_of(name, OFF) for name in names}


def test_nodes_that_idle_for_long_are_closed_and_the_reason_has_numbers() -> None:
    nodes = four(idle_since_s=NOW_S - 840)
    plan = planned(cluster_snapshot(nodes), site_of())
    assert changes_of(plan) == dict.fromkeys(NAMES, "close")
    assert str(plan.decisions[0]) == "n01 sleeps: timeout:10min: 4 idle nodes; idle 14 min; break-even 9 min"
    assert plan.changes[0].reason.startswith("offpeak: ")
    assert plan.desired_states == {}


def test_a_closed_free_node_is_ordered_off_then_powered_down_and_opened() -> None:
    site = site_of(1)
    first = planned(cluster_snapshot([node_of("n01")]), site)
    closed = {"closed": True, "reason": first.changes[0].reason}
    second = planned(cluster_snapshot([node_of("n01", **closed)]), site, first.memory)
    assert second.desired_states["n01"].order is NodeOrder.SOFT_OFF
    assert second.desired_states["n01"].by == "offpeak"
    third = planned(cluster_snapshot([node_of("n01", **closed)], records=off_records("n01")), site, second.memory)
    assert changes_of(third) == {"n01": "power_down"}
    fourth = planned(cluster_snapshot([down("n01", **closed)], records=off_records("n01")), site, third.memory)
    assert changes_of(fourth) == {"n01": "open"}
    fifth = planned(cluster_snapshot([down("n01")], records=off_records("n01")), site, fourth.memory)
    assert changes_of(fifth) == {}


FAILED = {"failed": True, "responds": False, "reason": "ResumeTimeout reached"}


@pytest.mark.parametrize(
    ("use", "shown", "change"),
    [
        (NodeUse.FREE, FAILED, "close"),
        (NodeUse.FREE, {}, "close"),
        # A job that the scheduler has forgotten, too, may still be there.
        (NodeUse.USED, FAILED, None),
        (NodeUse.USED, {}, None),
    ],
)
def test_a_node_that_the_scheduler_has_forgotten_to_be_up_boots_again(use, shown, change) -> None:
    """slurmctld, killed within seconds of a wake, counts the nodes as powered down that are up."""
    site, booted = site_of(1), record_of("n01")
    records = {"n01": replace(booted, observed=replace(booted.observed, since_unix_s=NOW_S - 60.0))}
    up = planned(cluster_snapshot([node_of("n01", use=use)], records=records), site)
    forgotten = planned(cluster_snapshot([down("n01", **shown)], records=records), site, up.memory)
    assert changes_of(forgotten) == ({"n01": change} if change else {})
    if change:
        closed = {**shown, "closed": True, "reason": forgotten.changes[0].reason}
        ordered = planned(cluster_snapshot([down("n01", **closed)]), site, forgotten.memory)
        assert ordered.desired_states["n01"].order is NodeOrder.SOFT_OFF


OURS = {"closed": True, "reason": "offpeak: idle 14 min"}
UNKNOWN = {"use": NodeUse.UNKNOWN, "responds": False, "native_state": "UNKNOWN"}


@pytest.mark.parametrize(
    ("given", "record", "change"),
    [
        # Slurm began without its state, or PBS anew: a node that is off by our order holds no job.
        (UNKNOWN, {}, "power_down"),
        (UNKNOWN | OURS, {}, "power_down"),
        (UNKNOWN | OURS | {"power": PowerState.OFF}, {}, "open"),
        # Our mark alone, after the ledger was lost.
        (UNKNOWN | OURS | {"power": PowerState.OFF}, {"by": "unknown"}, "open"),
        (UNKNOWN, {"by": "unknown"}, None),
        (UNKNOWN, {"by": "admin jo"}, None),
        (UNKNOWN | {"closed": True, "reason": "new DIMM"}, {}, None),
        (UNKNOWN | OURS, {"state": NodeState.UNKNOWN}, None),
        (UNKNOWN | OURS, {"state": NodeState.ON}, None),
        (UNKNOWN | OURS | {"responds": True}, {}, None),
        (UNKNOWN | OURS | {"cpus_used": 1}, {}, None),
    ],
)
def test_what_offpeak_has_put_to_sleep_is_woken_for_a_job_whatever_the_scheduler_has_forgotten(
    given, record, change
) -> None:
    sleeper = record_of("n01", OFF)
    records = {"n01": replace(sleeper, observed=replace(sleeper.observed, **record))}
    snapshot = cluster_snapshot([node_of("n01", **given)], jobs=[job_of()], records=records)
    plan = planned(snapshot, site_of(1), slept_long_ago(["n01"]))
    assert changes_of(plan).get("n01") == change


def test_a_node_that_the_scheduler_does_not_count_as_powered_down_wakes_and_the_others_stay_up() -> None:
    site, memory = site_of(), PowerMemory(watch=CycleWatch(is_proven=False))
    nodes = {name: node_of(name, idle_since_s=NOW_S - 840) for name in NAMES}

    def after(seconds, memory, records=None):
        now = Instant(NOW.monotonic_s + seconds, NOW.unix_s + seconds)
        return planned(cluster_snapshot(nodes.values(), records=records, now=now), site, memory)

    first = after(0, memory)
    assert changes_of(first) == {"n04": "close"}
    nodes["n04"] = node_of("n04", **OURS)
    off = off_records("n04")
    second = after(60, first.memory, off)
    assert changes_of(second) == {"n04": "power_down"}
    third = after(60 + UNTAKEN_S + 1, second.memory, off)
    assert (changes_of(third), third.desired_states["n04"].order) == ({}, NodeOrder.ON)
    assert third.memory.watch.problem == "it does not count n04, which went off, as powered down"
    fourth = after(60 + UNTAKEN_S + 100, third.memory)
    assert changes_of(fourth) == {"n04": "open"}
    nodes["n04"] = node_of("n04", idle_since_s=NOW_S - 840)
    assert changes_of(after(60 + UNTAKEN_S + 599, fourth.memory)) == {}
    # It is tried again, each time after a longer pause, until the scheduler takes part.
    fifth = after(60 + UNTAKEN_S + 602, fourth.memory)
    assert len(changes_of(fifth)) == 1
    (tried,) = changes_of(fifth)
    nodes[tried] = node_of(tried, **OURS)
    sixth = after(900, fifth.memory, off_records(tried))
    nodes[tried] = down(tried, **OURS)
    seventh = after(930, sixth.memory, off_records(tried))
    assert seventh.memory.watch == CycleWatch()
    assert sorted(changes_of(seventh).values()) == ["close", "close", "open"]
    refused = replace(fifth.memory, watch=replace(fifth.memory.watch, failures=3))
    nodes[tried] = node_of(tried, **OURS)
    begun = after(900, refused, off_records(tried))
    again = after(900 + UNTAKEN_S + 1, begun.memory, off_records(tried))
    assert again.memory.watch.next_s - (NOW_S + 900 + UNTAKEN_S + 1) == 8 * REST_S


def test_where_no_node_follows_its_order_the_others_stay_open() -> None:
    sent = SentOrder(NodeOrder.SOFT_OFF, "offpeak", NOW.monotonic_s - 1300, NodeState.ON, clear=False)
    nodes = [
        *(node_of(name, idle_since_s=NOW_S - 840) for name in NAMES[:2]),
        *(node_of(name, **OURS) for name in NAMES[2:]),
    ]
    records = {name: record_of(name, sent=sent) for name in NAMES[2:]}
    snapshot = cluster_snapshot(nodes, records=records)
    assert changes_of(planned(snapshot, site_of(nodes_per_sweep=3))) == {"n02": "close"}
    stuck = planned(snapshot, site_of(nodes_per_sweep=2))
    assert changes_of(stuck) == {}
    ((message, _),) = stuck.problems
    assert message.startswith("n03 was ordered to sleep 22 min ago, as were n04, and may still follow")
    assert stuck.overdue == {"n03": 1300.0, "n04": 1300.0}


def test_a_held_node_that_is_off_says_nothing_about_the_scheduler() -> None:
    held = replace(record_of("n01", OFF), hold=Hold("jo", "new DIMM", None))
    memory = PowerMemory()
    for seconds in (0, UNTAKEN_S + 1):
        now = Instant(NOW.monotonic_s + seconds, NOW.unix_s + seconds)
        memory = planned(
            cluster_snapshot([node_of("n01", **OURS)], records={"n01": held}, now=now), site_of(1), memory
        ).memory
    assert memory.watch == CycleWatch()


def test_nodes_of_a_partition_that_must_be_awake_wake_and_the_others_sleep() -> None:
    gpu = {"partitions": ("gpu",)}
    nodes = [node_of("n01"), node_of("n02"), node_of("n03", **gpu), down("n04", **gpu)]
    memory = slept_long_ago(["n04"])
    snapshot = cluster_snapshot(nodes, records=off_records("n04"))
    plan = planned(snapshot, replace(site_of(), awake_partitions=frozenset({"gpu"})), memory)
    assert changes_of(plan) == {"n01": "close", "n02": "close", "n04": "power_up"}
    usual = planned(snapshot, site_of(), memory)
    assert changes_of(usual) == {"n01": "close", "n02": "close", "n03": "close"}
    # A job that may run in both makes them one pool: all of it is awake.
    both = cluster_snapshot(nodes, records=off_records("n04"), jobs=[running("5", "n02", partitions=("batch", "gpu"))])
    plan = planned(both, replace(site_of(), awake_partitions=frozenset({"gpu"})), memory)
    assert changes_of(plan) == {"n04": "power_up"}


def test_an_admins_order_to_sleep_stands_while_the_node_is_closed_for_it() -> None:
    desired = DesiredState(NodeOrder.SOFT_OFF, "admin jo", float(NOW_S), "a quiet night")
    records = {"n01": record_of("n01", desired=desired)}
    first = planned(cluster_snapshot([node_of("n01", idle_since_s=NOW_S)], records=records), site_of(1))
    assert (changes_of(first), first.desired_states) == ({"n01": "close"}, {})
    assert first.changes[0].reason == "offpeak: admin jo has ordered soft_off"
    closed = node_of("n01", closed=True, reason=first.changes[0].reason, idle_since_s=NOW_S)
    second = planned(cluster_snapshot([closed], records=records), site_of(1), first.memory)
    assert (changes_of(second), second.desired_states) == ({}, {})


def test_busy_held_closed_and_excluded_nodes_are_left_alone() -> None:
    nodes = [
        node_of("n01", use=NodeUse.USED),
        node_of("n02"),
        node_of("n03", closed=True, reason="new DIMM"),
        node_of("n04"),
        node_of("other"),
    ]
    records = {"n02": record_of("n02", hold=Hold("jo", "repair")), "n04": record_of("n04", NodeState.UNKNOWN)}
    plan = planned(cluster_snapshot(nodes, jobs=[running(hosts="n01")], records=records), site_of())
    assert (plan.changes, plan.desired_states) == ((), {})
    assert "other" not in plan.scheduler_states


def test_ols_says_how_many_are_enough() -> None:
    nodes = [node_of("n01", use=NodeUse.USED), *four()[1:]]
    plan = planned(cluster_snapshot(nodes, jobs=[running(hosts="n01")]), site_of(capacity="ols:1h"))
    assert changes_of(plan) == dict.fromkeys(NAMES[1:], "close")
    assert "1 of 4 nodes for 1 job: a mean slowdown of 1.0 (bound 5)" in plan.decisions[0].reason


@pytest.mark.parametrize(
    ("bounds", "agent", "closed"),
    [
        ({"keep_hot": 3}, {}, 1),
        ({}, {"min_on": 2}, 2),
        ({}, {"nodes_per_sweep": 1}, 1),
        ({}, {"capacity": "green-pool:1"}, 3),
        ({}, {"capacity": "always-on"}, 0),
        ({"min_awake_s": 20_000}, {}, 4),
    ],
)
def test_plan_respects_its_bounds(bounds, agent, closed) -> None:
    plan = planned(cluster_snapshot(four()), site_of(bounds=replace(CapacitySettings(), **bounds), **agent))
    assert len(plan.changes) == closed


def test_nodes_being_closed_count_against_the_limit_of_a_sweep() -> None:
    site = site_of(nodes_per_sweep=1)
    plan = planned(cluster_snapshot(four()), site)
    again = planned(cluster_snapshot(four()), site, plan.memory)
    assert changes_of(again) == changes_of(plan)
    assert again.decisions == ()


def test_a_node_that_came_up_lately_stays_awake() -> None:
    nodes = [node_of("n01", boot_s=NOW_S - 100), node_of("n02")]
    bounds = replace(CapacitySettings(), min_awake_s=600)
    plan = planned(cluster_snapshot(nodes), site_of(2, bounds=bounds, capacity="energy-aware"))
    assert changes_of(plan) == {"n02": "close"}


def test_a_refused_sleep_is_undone_and_not_tried_at_once() -> None:
    site = site_of(1)
    closed = node_of("n01", closed=True, reason="offpeak: idle")
    first = planned(cluster_snapshot([node_of("n01")]), site)
    record = record_of("n01")
    refused = replace(record, attempts=replace(record.attempts, refusals=3))
    second = planned(cluster_snapshot([closed], records={"n01": refused}), site, first.memory)
    assert changes_of(second) == {"n01": "open"}
    third = planned(cluster_snapshot([node_of("n01")], records={"n01": refused}), site, second.memory)
    assert changes_of(third) == {}


@pytest.mark.parametrize(("in_s", "wakes"), [(300, True), (390, True), (1000, False)])
def test_nodes_of_a_reservation_and_of_the_schedulers_plan_are_woken_in_time(in_s, wakes) -> None:
    nodes, records = [down("n01"), down("n02")], off_records("n01", "n02")
    site, memory = site_of(2), slept_long_ago(("n01", "n02"))
    reserved = Reservation("demo", NOW_S + in_s, NOW_S + in_s + 3600, ("n01",), maintenance=False)
    plan = planned(cluster_snapshot(nodes, records=records, reservations=[reserved]), site, memory)
    assert changes_of(plan) == ({"n01": "power_up"} if wakes else {})
    job = job_of("7", start_s=NOW_S + in_s, hosts="n02")
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[job]), site, memory)
    assert changes_of(plan) == ({"n02": "power_up"} if wakes else {})


def test_an_agent_that_is_slow_wakes_nodes_sooner() -> None:
    nodes, records, memory = [down("n01")], off_records("n01"), slept_long_ago(("n01",))
    job = job_of("7", start_s=NOW_S + 500, hosts="n01")
    assert changes_of(planned(cluster_snapshot(nodes, records=records, jobs=[job]), site_of(1), memory)) == {}
    slow = planned(cluster_snapshot(nodes, records=records, jobs=[job], cycle_took_s=100.0), site_of(1), memory)
    assert changes_of(slow) == {"n01": "power_up"}


def test_learned_boots_tell_how_early() -> None:
    nodes, records, memory = [down("n01")], off_records("n01"), slept_long_ago(("n01",))
    times = {"compute": MeasuredDurations({"boot": (60.0, 60.0)})}
    job = job_of("7", start_s=NOW_S + 300, hosts="n01")
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[job], times=times), site_of(1), memory)
    assert changes_of(plan) == {}


def test_maintenance_is_not_touched_and_nobody_wakes_for_it() -> None:
    night = Reservation("night", NOW_S - 60, NOW_S + 600, ("n01", "n02"), maintenance=True)
    nodes = [node_of("n01", reserved=True), down("n02", reserved=True)]
    plan = planned(cluster_snapshot(nodes, records=off_records("n02"), reservations=[night]), site_of(2))
    assert (changes_of(plan), plan.desired_states) == ({}, {})


def test_as_many_nodes_wake_as_a_deferred_job_asks_for() -> None:
    nodes, records = [down(name) for name in NAMES], off_records(*NAMES)
    memory = slept_long_ago(NAMES)
    job = job_of("9", nodes=2, begin_s=NOW_S + 300, priority=1)
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[job]), site_of(), memory)
    assert changes_of(plan) == {"n01": "power_up", "n02": "power_up"}
    assert "job 9 may start in" in plan.decisions[0].reason


@pytest.mark.parametrize("shut", [{}, {"closed": True, "reason": "offpeak: asleep since 1"}])
def test_one_that_came_up_since_it_was_ordered_to_is_up_though_it_was_off_at_the_last_look(shut) -> None:
    desired = DesiredState(NodeOrder.ON, "scheduler", float(NOW_S), "the scheduler is powering it up")
    pending = PendingOrder(NodeOrder.ON, "ipmi", "scheduler", NOW.monotonic_s - 2, 1, OFF)
    records = off_records(*NAMES) | {"n01": record_of("n01", OFF, desired=desired, attempts=Attempts(pending))}
    nodes = [node_of("n01", **shut), *map(down, NAMES[1:])]
    job = job_of("9", begin_s=NOW_S + 20)
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[job]), site_of(), slept_long_ago(NAMES))
    assert changes_of(plan) == {}
    assert plan.desired_states.get("n01") in (None, desired)


def test_one_that_is_about_to_be_opened_is_there_for_the_job_that_it_was_woken_for() -> None:
    nodes = [node_of("n01", closed=True, reason="offpeak: asleep since 1"), *map(down, NAMES[1:])]
    jobs = [job_of("9", begin_s=NOW_S + 20)]
    snapshot = cluster_snapshot(nodes, records=off_records(*NAMES[1:]), jobs=jobs)
    plan = planned(snapshot, site_of(), slept_long_ago(NAMES))
    assert changes_of(plan) == {"n01": "open"}


def test_nodes_that_wait_for_a_planned_start_are_not_there_for_a_deferred_job() -> None:
    nodes = [node_of("n01"), node_of("n02"), down("n03"), down("n04")]
    records, memory = off_records("n03", "n04"), slept_long_ago(("n03", "n04"))
    deferred = job_of("9", begin_s=NOW_S + 300)
    wide = job_of("10", nodes=2, start_s=NOW_S + 330, hosts="n[01-02]")
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[deferred, wide]), site_of(), memory)
    assert changes_of(plan) == {"n03": "power_up"}
    tomorrow = wide._replace(start_s=NOW_S + 86_400)
    plan = planned(cluster_snapshot(nodes, records=records, jobs=[deferred, tomorrow]), site_of(), memory)
    assert "power_up" not in changes_of(plan).values()


def test_node_needed_before_sleep_pays_stays_awake() -> None:
    job = job_of("9", begin_s=NOW_S + 900, nodes=3)
    assert len(planned(cluster_snapshot(four(), jobs=[job]), site_of()).changes) == 1
    plan = job_of("9", start_s=NOW_S + 900, hosts="n[02-03]")
    assert set(changes_of(planned(cluster_snapshot(four(), jobs=[plan]), site_of()))) == {"n01", "n04"}
    later = job_of("9", start_s=NOW_S + 9000, hosts="n[02-03]")
    assert len(planned(cluster_snapshot(four(planned=True), jobs=[later]), site_of()).changes) == 2


def test_a_job_that_the_scheduler_has_not_looked_at_keeps_idle_nodes() -> None:
    job = job_of("9", submit_s=NOW_S - 5, nodes=3)
    assert len(planned(cluster_snapshot(four(), jobs=[job]), site_of()).changes) == 1


def test_a_fresh_job_that_cannot_start_now_keeps_no_idle_nodes() -> None:
    nodes = [node_of("n01", use=NodeUse.USED), *four()[1:]]
    jobs = [running(hosts="n01"), job_of("9", submit_s=NOW_S - 5, nodes=4)]
    assert set(changes_of(planned(cluster_snapshot(nodes, jobs=jobs), site_of()))) == {"n02", "n03", "n04"}
    narrower = [running(hosts="n01"), job_of("9", submit_s=NOW_S - 5, nodes=3)]
    assert changes_of(planned(cluster_snapshot(nodes, jobs=narrower), site_of())) == {}


def test_nodes_with_a_feature_that_a_job_waits_for_stay_awake() -> None:
    nodes = [node_of("n01", features=("gpu",)), node_of("n02"), node_of("n03", features=("gpu",))]
    plan = planned(cluster_snapshot(nodes, jobs=[job_of(request=GPU_REQUEST, nodes=1)]), site_of(3))
    assert set(changes_of(plan)) == {"n02", "n03"}


def test_a_job_with_enough_nodes_that_does_not_start_keeps_them_for_a_while() -> None:
    nodes = [node_of("n01", features=("gpu",)), node_of("n02"), node_of("n03", features=("gpu",))]
    site = replace(site_of(3), start_patience_s=960)
    memory, job = PowerMemory(), job_of(request=GPU_REQUEST, nodes=1, submit_s=NOW_S - 5000)
    for after_s, closed in ((0, {"n02", "n03"}), (959, {"n02", "n03"}), (961, {"n01", "n02", "n03"})):
        now = replace(NOW, unix_s=NOW.unix_s + after_s)
        plan = planned(cluster_snapshot(nodes, jobs=[job], now=now), site, replace(memory, nodes={}))
        memory = plan.memory
        assert set(changes_of(plan)) == closed


def test_in_a_cycle_that_wakes_a_node_no_equal_one_goes_to_sleep() -> None:
    nodes = [node_of("n01"), down("n02"), node_of("n03", cpus=8)]
    job, records = job_of("9", start_s=NOW_S, hosts="n02"), off_records("n02")
    assert changes_of(planned(cluster_snapshot(nodes, jobs=[job], records=records), site_of(3))) == {
        "n02": "power_up",
        "n03": "close",
    }


@pytest.mark.parametrize(("hosts", "changes"), [((), {"n01": "open"}), (("n02",), {"n02": "power_up"})])
def test_a_node_not_yet_asleep_is_called_back_instead_of_an_equal_one_that_sleeps(hosts, changes) -> None:
    nodes, records = [node_of("n01", closed=True, reason="offpeak: x"), down("n02")], off_records("n02")
    leaving = SleepInProgress(NOW_S - 5, NodeOrder.SOFT_OFF, "x")
    memory = slept_long_ago(("n02",))
    memory = replace(memory, nodes={**memory.nodes, "n01": NodeMemory(True, NOW_S - 9000, leaving=leaving)})
    request = Request(("batch",), (Chunk(1, 1),), hosts=frozenset(hosts))
    job = job_of("9", start_s=NOW_S, hosts="n02", request=request)
    plan = planned(cluster_snapshot(nodes, jobs=[job], records=records), site_of(2), memory)
    assert changes_of(plan) == changes


def test_node_not_yet_asleep_is_kept_before_others_are_woken() -> None:
    site = site_of(4, capacity="green-pool:1")
    up = [node_of("n01"), node_of("n02"), down("n03"), down("n04")]
    first = planned(cluster_snapshot(up, records=off_records("n03", "n04")), site)
    assert changes_of(first) == {"n02": "close"}
    nodes = [
        node_of("n01", use=NodeUse.USED),
        node_of("n02", closed=True, reason="offpeak: x"),
        down("n03"),
        down("n04"),
    ]
    second = planned(cluster_snapshot(nodes, records=off_records("n03", "n04")), site, first.memory)
    assert changes_of(second) == {"n02": "open"}


def test_a_node_that_comes_up_in_the_scheduler_is_ordered_on() -> None:
    node = node_of("n01", power=PowerState.POWERING_ON, use=NodeUse.USED)
    plan = planned(cluster_snapshot([node], records=off_records("n01"), jobs=[running()]), site_of(1))
    assert plan.desired_states["n01"].order is NodeOrder.ON
    assert plan.desired_states["n01"].by == "scheduler"


def test_one_that_did_not_come_up_is_reported_once_and_resumed_when_it_is_well() -> None:
    node = node_of("n01", power=PowerState.OFF, failed=True, reason="ResumeTimeout reached")
    site = site_of(1)
    first = planned(cluster_snapshot([node], records=off_records("n01")), site)
    assert "offpeak tries again as soon as it is up" in first.decisions[0].reason
    assert first.problems == (
        ("n01: it did not come up in time", "look at its console; offpeak tries again as soon as it is up"),
    )
    second = planned(cluster_snapshot([node], records=off_records("n01")), site, first.memory)
    assert second.decisions == ()
    third = planned(cluster_snapshot([node]), site, second.memory)
    assert changes_of(third) == {"n01": "resume"}


def test_one_that_hangs_in_its_boot_is_not_taken_for_well() -> None:
    hung = node_of("n01", power=PowerState.OFF, failed=True, responds=False, reason="ResumeTimeout reached")
    plan = planned(cluster_snapshot([hung]), site_of(1))
    assert changes_of(plan) == {}
    assert "switch it off if it is up" in plan.decisions[0].reason


def test_a_boot_that_the_scheduler_has_given_up_is_waited_for() -> None:
    hung = node_of("n01", power=PowerState.OFF, failed=True, responds=False, reason="ResumeTimeout reached")
    desired = DesiredState(NodeOrder.ON, "scheduler", NOW.unix_s, "a job")
    pending = PendingOrder(NodeOrder.ON, "bmc", "scheduler", NOW.monotonic_s, 1, NodeState.OFF)
    boots = record_of("n01", NodeState.BOOTING, desired=desired, attempts=Attempts(pending=pending))
    assert planned(cluster_snapshot([hung], records={"n01": boots}), site_of(1)).desired_states == {}
    given_up = replace(boots, attempts=Attempts())
    assert planned(cluster_snapshot([hung], records={"n01": given_up}), site_of(1)).desired_states == {"n01": None}


def test_the_plan_says_when_a_boot_is_expected_to_end() -> None:
    rises = node_of("n01", power=PowerState.POWERING_ON, use=NodeUse.USED)
    boots = record_of("n01", observed=ObservedState(NodeState.BOOTING, NOW_S - 10.0, since_unix_s=NOW_S - 30.0))
    snapshot = cluster_snapshot([rises, node_of("n02")], records={"n01": boots})
    assert planned(snapshot, site_of(2)).boot_ends_s == {"n01": NOW_S - 30 + SERVER.depths[-1].leave.duration_s}


def test_a_pool_without_a_class_says_so() -> None:
    site = replace(site_of(2), class_of={})
    plan = planned(cluster_snapshot([node_of("n01"), node_of("n02")]), site)
    assert plan.changes == ()
    assert plan.problems[0][0].startswith("pool batch: its nodes cannot sleep")


def test_hardware_without_a_rung_does_not_sleep() -> None:
    plan = planned(cluster_snapshot([node_of("n01")]), site_of(1, hardware=replace(HARDWARE, sleep_methods=())))
    assert plan.changes == ()


def test_only_nodes_that_have_proven_their_standby_are_suspended() -> None:
    method = SleepMethod(NodeOrder.STANDBY, ("wol",), 60, 60)
    site = site_of(hardware=replace(HARDWARE, sleep_methods=(*HARDWARE.sleep_methods, method)))

    def closed(*proven: str, depths=("standby",)) -> dict[str, str]:
        proof = Enrolment("guid", ("on", method.capability), "2026-11-21")
        machines = [replace(each, enrolled=proof if each.node in proven else None) for each in site.inventory.machines]
        inventory = replace(site.inventory, machines=tuple(machines))
        chosen = replace(site, inventory=inventory, bounds=CapacitySettings(depths=depths))
        return changes_of(planned(cluster_snapshot(four(idle_since_s=NOW_S - 840)), chosen))

    assert closed("n02", "n03", "n04") == dict.fromkeys(("n02", "n03", "n04"), "close")
    assert closed() == {}
    assert closed(depths=("off",)) == dict.fromkeys(NAMES, "close")


SIXTEEN = [f"n{number:02}" for number in range(1, 17)]


def an_array(array="40", **given):
    return job_of(array, **({"array_id": array, "tasks": 40, "begin_s": NOW_S + 300} | given))


def count_woken(*jobs, nodes=None, awake=4, **site) -> int:
    """Return how many of sixteen nodes, all but the first four asleep, are woken for the jobs."""
    nodes = nodes or [node_of(name) if at < awake else down(name) for at, name in enumerate(SIXTEEN)]
    asleep = [node.name for node in nodes if node.power is PowerState.OFF]
    snapshot = cluster_snapshot(nodes, jobs=jobs, records=off_records(*asleep))
    changes = changes_of(planned(snapshot, site_of(16, **site), slept_long_ago(asleep)))
    return sum(change == "power_up" for change in changes.values())


@pytest.mark.parametrize(
    ("given", "woken"),
    [
        ({}, 12),
        ({"tasks": 100_000}, 12),
        ({"tasks": 6}, 2),
        ({"task_limit": 7}, 3),
        ({"nodes": 6}, 8),
        ({"partitions": ("batch",), "request": GPU_REQUEST}, 0),
    ],
)
def test_nodes_wake_for_the_tasks_of_an_array_that_can_start(given, woken) -> None:
    assert count_woken(an_array(**given)) == woken


def test_running_tasks_count_against_the_limit_of_an_array() -> None:
    nodes = [node_of(name, use=NodeUse.USED) if name < "n05" else down(name) for name in SIXTEEN]
    tasks = [running(f"4{at}", hosts=name, array_id="40", plain=False) for at, name in enumerate(SIXTEEN[:4])]
    assert count_woken(an_array(task_limit=7), *tasks, nodes=nodes) == 3
    assert count_woken(an_array(task_limit=4), *tasks, nodes=nodes) == 0


def test_two_arrays_do_not_count_the_same_nodes() -> None:
    gpus = [node_of(n, features=("gpu",)) if n == "n01" else down(n, features=("gpu",) * (n < "n04")) for n in SIXTEEN]
    arrays = an_array("40", request=GPU_REQUEST), an_array("50", request=GPU_REQUEST)
    assert count_woken(arrays[0], nodes=gpus) == 2
    # No node is left for the second array, and no other node would help it.
    assert count_woken(*arrays, nodes=gpus) == 2


def test_tasks_that_share_a_node_wake_one_node() -> None:
    narrow = an_array(cpus=1, whole_nodes=False, tasks=30)
    snapshot = [node_of(name) if name < "n05" else down(name) for name in SIXTEEN]
    assert count_woken(narrow, nodes=snapshot) == 12
    nodes = [node_of(name, cpus=4) if name < "n05" else down(name, cpus=4) for name in SIXTEEN]
    memory, records = slept_long_ago(SIXTEEN[4:]), off_records(*SIXTEEN[4:])
    plan = planned(cluster_snapshot(nodes, jobs=[narrow], records=records), site_of(16, shared_nodes=True), memory)
    assert list(changes_of(plan).values()).count("power_up") == 4


def test_the_tasks_of_a_new_array_keep_idle_nodes_awake() -> None:
    array = an_array(begin_s=None, submit_s=NOW_S - 5, tasks=3)
    assert len(planned(cluster_snapshot(four(), jobs=[array]), site_of()).changes) == 1


def test_the_lower_level_follows_from_the_use_of_the_past_week() -> None:
    nodes = [node_of("n01", use=NodeUse.USED), *four()[1:]]
    snapshot = cluster_snapshot(nodes, jobs=[running(hosts="n01")])
    site = site_of(capacity="two-level")
    # Of four nodes, a load of 0.7 needs three, and the present one two.
    use = PastUse(NOW_S, {NOW_S // 3600: (3600.0, 0.7 * 3600.0)})
    known = PowerMemory(pools={"batch": PoolMemory("two-level", NOW_S, CapacityTargets(4), use=use)})
    assert changes_of(planned(snapshot, site, known)) == {"n04": "close"}
    assert changes_of(planned(snapshot, site)) == {"n03": "close", "n04": "close"}


LOST = (
    ("DOWN+POWERED_DOWN+NOT_RESPONDING", {"power": PowerState.OFF, "failed": True, "responds": False}),
    ("UNKNOWN+POWERING_UP", {"power": PowerState.POWERING_ON, "use": NodeUse.UNKNOWN}),
)


@pytest.mark.parametrize(("state", "fields"), LOST)
def test_a_node_that_is_on_and_lost_for_jobs_is_named_after_a_while(state, fields) -> None:
    nodes = [node_of("n01", native_state=state, **fields), node_of("n02")]
    plan = planned(cluster_snapshot(nodes), site_of())
    assert plan.left == {}
    later = Instant(NOW.monotonic_s + 700, NOW.unix_s + 700)
    after = planned(cluster_snapshot(nodes, now=later), site_of(), plan.memory)
    assert after.left == {"n01": (state, 700)}
    assert not any("n01" in what for what, _ in after.problems)
    # Another state begins a new wait, and a node that jobs can use is none.
    other = [nodes[0]._replace(native_state=f"{state}+PLANNED"), nodes[1]]
    assert planned(cluster_snapshot(other, now=later), site_of(), after.memory).left == {}
    assert planned(cluster_snapshot([node_of("n01")], now=later), site_of(), after.memory).left == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"native_state": "DOWN", "failed": True, "reason": "repair", "reason_by": "ann"},
        {"native_state": "IDLE+REBOOT_ISSUED", "use": NodeUse.UNKNOWN},
    ],
)
def test_a_node_that_an_admin_works_on_is_not_lost(fields) -> None:
    nodes = [node_of("n01", **fields)]
    plan = planned(cluster_snapshot(nodes), site_of())
    later = Instant(NOW.monotonic_s + 700, NOW.unix_s + 700)
    assert planned(cluster_snapshot(nodes, now=later), site_of(), plan.memory).left == {}


def test_a_node_that_the_configuration_keeps_up_does_not_sleep_and_is_given_back() -> None:
    nodes = four(idle_since_s=NOW_S - 840)
    kept = {"n04": "SuspendExcNodes=n04"}
    asleep = planned(cluster_snapshot(nodes), site_of())
    assert "n04" in changes_of(asleep)
    assert set(changes_of(planned(cluster_snapshot(nodes, kept_awake=kept), site_of()))) == {"n01", "n02", "n03"}
    # It was excluded on its way to sleep.
    closed = [*nodes[:3], nodes[3]._replace(closed=True, reason="offpeak: it must sleep")]
    after = planned(cluster_snapshot(closed, kept_awake=kept), site_of(), asleep.memory)
    assert changes_of(after)["n04"] == "open"
