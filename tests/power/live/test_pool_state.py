"""Pools and their snapshots: whatever a scheduler says, a what-if can be made of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_values import NOW, NOW_S, job_of, node_of, record_of, running
from small_site import SERVER, cluster_snapshot, rows_of, site_of

from offpeak.door.effect import AGENT
from offpeak.model.node_states import ACTIVE, FAILED, OFF, asleep, coming_up, going_down
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.capacity.port import Fleet
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.capacity.price_profile import make_power_terms
from offpeak.power.capacity.profile_simulation import resume_machine
from offpeak.power.lifecycle.node_record import DesiredState, SentOrder
from offpeak.power.live.cluster_snapshot import PastUse
from offpeak.power.live.observe import observe_node
from offpeak.power.live.pools import find_pools, observe_pool
from offpeak.power.whatif import check_units, simulate_units
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

NAMES = [f"n{number:02}" for number in range(1, 7)]


def state_of(nodes, jobs, *, records=None, shared_nodes=False, run_s=None):
    """Return the state of the one pool that these nodes make."""
    site = site_of(6, shared_nodes=shared_nodes)
    snapshot = cluster_snapshot(nodes, jobs=jobs, records=records, run_s=run_s or {})
    rows = rows_of(snapshot, site)
    (pool,) = find_pools(rows.values(), jobs)
    return observe_pool(pool, rows, site=site, snapshot=snapshot)


def node_state(node, record) -> int:
    return observe_node(node, record, NOW, switchable=True).state


any_node = st.fixed_dictionaries(
    {
        "use": st.sampled_from(NodeUse),
        "power": st.sampled_from(PowerState),
        "closed": st.booleans(),
        "reason": st.sampled_from(("", "offpeak: idle", "repair")),
        "failed": st.booleans(),
        "responds": st.booleans(),
        "reserved": st.booleans(),
        "cpus": st.sampled_from((0, 4, 4, 8)),
        "cpus_used": st.integers(0, 9),
    }
)
a_time = st.none() | st.integers(NOW_S - 9000, NOW_S + 9000)
any_job = st.fixed_dictionaries(
    {
        "state": st.sampled_from(JobState),
        "reason": st.sampled_from(("Resources", "Priority", "Dependency", "QOSMaxJobsPerUserLimit")),
        "nodes": st.integers(0, 9),
        "cpus": st.integers(0, 40),
        "whole_nodes": st.booleans(),
        "limit_s": st.none() | st.integers(0, 9000),
        "submit_s": st.integers(NOW_S - 9000, NOW_S + 100),
        "begin_s": a_time,
        "start_s": a_time,
        "hosts": st.sampled_from(("", "n01", "n[01-04]", "n06,elsewhere")),
        "priority": st.integers(0, 5),
    }
)


@given(
    st.lists(any_node, min_size=1, max_size=6),
    st.lists(any_job, max_size=8),
    st.lists(st.sampled_from(NodeState), min_size=6, max_size=6),
    st.booleans(),
    st.dictionaries(st.sampled_from("01234567"), st.integers(0, 9000)),
)
def test_any_reported_state_can_be_planned(node_rows, job_rows, seen, shared, run_s) -> None:
    nodes = [node_of(name, **row) for name, row in zip(NAMES, node_rows, strict=False)]
    jobs = [job_of(str(number), **row) for number, row in enumerate(job_rows)]
    records = {name: record_of(name, each) for name, each in zip(NAMES, seen, strict=True)}
    pool = state_of(nodes, jobs, records=records, shared_nodes=shared, run_s=run_s)
    snapshot = pool.snapshot
    check_units(snapshot, snapshot.usable_units)
    simulate_units(snapshot, snapshot.least_units)
    fleet = Fleet(len(nodes), pool.units_per_node, SERVER)
    if pool.usable_nodes:
        resume_machine(snapshot, np.arange(len(snapshot.queued.size)), make_power_terms(fleet, CapacitySettings()))
    assert (np.diff(snapshot.running.start_s) >= 0).all()


def test_nodes_stand_as_scheduler_and_bmc_together_say() -> None:
    down, used = {"power": PowerState.OFF}, {"use": NodeUse.USED}
    cases = [
        ({}, NodeState.ON, ACTIVE),
        ({}, NodeState.UNKNOWN, ACTIVE),
        (down, NodeState.OFF, asleep(OFF)),
        (down, NodeState.UNKNOWN, asleep(OFF)),
        (down | used, NodeState.OFF, coming_up(OFF)),
        ({"power": PowerState.POWERING_ON}, NodeState.BOOTING, coming_up(OFF)),
        ({"closed": True, "reason": "offpeak: idle"}, NodeState.ON, ACTIVE),
        ({"closed": True, "reason": "offpeak: idle", "responds": False}, NodeState.ON, going_down(OFF)),
        ({"closed": True, "reason": "offpeak: idle"}, NodeState.GOING_DOWN, going_down(OFF)),
        ({"closed": True, "reason": "repair"}, NodeState.ON, FAILED),
        ({"failed": True}, NodeState.ON, FAILED),
        ({}, NodeState.OFF, FAILED),
        ({"reserved": True}, NodeState.ON, FAILED),
    ]
    nodes = [node_of(f"n{number}", **row) for number, (row, _, _) in enumerate(cases)]
    snapshot = cluster_snapshot(
        nodes, records={f"n{n}": record_of(f"n{n}", state) for n, (_, state, _) in enumerate(cases)}
    )
    found = [node_state(node, snapshot.record(node.name)) for node in nodes]
    assert found == [state for _, _, state in cases]
    ours, sent = (
        node_of(closed=True, reason="offpeak: idle"),
        SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 5, NodeState.ON, clear=True),
    )
    assert node_state(ours, record_of(sent=sent)) == going_down(OFF)
    assert node_state(ours, record_of(desired=DesiredState(NodeOrder.SOFT_OFF, "admin jo", 0.0, ""))) == going_down(OFF)


def test_pools_are_connected_by_partitions_and_by_jobs() -> None:
    nodes = [
        node_of("a", partitions=("short", "long")),
        node_of("b", partitions=("long",)),
        node_of("c", partitions=("gpu",)),
        node_of("d", partitions=("big",)),
        node_of("e", partitions=()),
    ]
    rows = rows_of(cluster_snapshot(nodes), site_of(6)).values()
    apart = find_pools(rows, [job_of(partitions=("gpu", "big"), state=JobState.ENDED)])
    assert {pool.name: [row.name for row in pool.rows] for pool in apart} == {
        "long,short": ["a", "b"], "gpu": ["c"], "big": ["d"]
    }  # fmt: skip
    together = find_pools(rows, [job_of(partitions=("gpu", "big"))])
    assert [pool.name for pool in together] == ["long,short", "big,gpu"]
    assert len(together[1].jobs) == 1


def test_units_are_cpus_where_nodes_are_shared_and_alike() -> None:
    nodes = [node_of("n01", use=NodeUse.USED, cpus_used=3), node_of("n02")]
    jobs = [running(cpus=3, whole_nodes=False), job_of("2", nodes=2, whole_nodes=True)]
    pool = state_of(nodes, jobs, shared_nodes=True)
    assert (pool.units_per_node, pool.busy.tolist()) == (4, [3, 0])
    assert (pool.snapshot.running.size.tolist(), pool.snapshot.queued.size.tolist()) == ([3], [8])
    assert state_of([nodes[0], node_of("n02", cpus=8)], jobs, shared_nodes=True).units_per_node == 1


def test_predicted_run_times_are_believed_until_they_are_outlived() -> None:
    nodes = [node_of("n01", use=NodeUse.USED), node_of("n02", use=NodeUse.USED)]
    jobs = [running("1", limit_s=7200), running("2", hosts="n02", limit_s=7200)]
    snapshot = state_of(nodes, jobs, run_s={"1": 900, "2": 60}).snapshot
    assert snapshot.running.expected_end_s.tolist() == [NOW_S + 300, NOW_S + 6600]


def test_only_jobs_that_wait_for_nodes_are_queued() -> None:
    assert job_of().is_waiting(NOW_S)
    for given_ in (
        {"state": JobState.HELD}, {"begin_s": NOW_S + 5}, {"reason": "Dependency"}, {"reservation": "demo"},
        {"reason": "AssocGrpCpuLimit"},
    ):  # fmt: skip
        assert not job_of(**given_).is_waiting(NOW_S)


def test_an_array_is_queued_once_for_each_node_that_its_tasks_fill() -> None:
    nodes = [node_of(name) for name in NAMES]
    array = job_of("9", array_id="9", tasks=100_000)
    assert state_of(nodes, [array]).snapshot.queued.size.tolist() == [1] * 6
    assert state_of(nodes, [array._replace(task_limit=2)]).snapshot.queued.size.tolist() == [1, 1]
    task = running("10", "n01", array_id="9")
    assert state_of(nodes, [array._replace(task_limit=1), task]).snapshot.queued.size.tolist() == []
    assert state_of(nodes, [array._replace(nodes=4)]).snapshot.queued.size.tolist() == [4]
    narrow = array._replace(cpus=1, whole_nodes=False, tasks=6)
    assert state_of(nodes, [narrow], shared_nodes=True).snapshot.queued.size.tolist() == [4, 2]


def test_the_load_is_that_of_the_past_week_not_of_this_instant() -> None:
    use = PastUse(NOW_S)
    assert use.load(0.9) == 0.9
    for at in range(1, 11):
        use = use.until(NOW_S + at * 600, 0.25 if at > 5 else 0.75)
    assert use.load(0.9) == pytest.approx(0.5)
    # While no agent ran, the use is not known.
    later = use.until(NOW_S + 86_400, 1.0)
    assert later.load(0.9) == pytest.approx(0.5)
    after = later.until(NOW_S + 8 * 86_400, 0.1).until(NOW_S + 8 * 86_400 + 600, 0.1)
    assert after.load(0.9) == pytest.approx(0.1)
