"""Which of equal nodes sleep and wake: those of enclosures that then sleep as a whole."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_values import NOW_S, job_of, node_of, record_of, running
from small_site import HARDWARE, SERVER, changes_of, cluster_snapshot, planned, site_of, slept_long_ago

from offpeak.door.effect import Hold
from offpeak.model.node_class import EnclosurePower
from offpeak.model.orders import NodeState, PowerState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.live.cluster_snapshot import NodeMemory
from offpeak.power.live.observe import observe_nodes
from offpeak.power.live.pools import order_by_enclosure
from offpeak.settings.capacity import CapacitySettings

pytestmark = pytest.mark.quick

NAMES = [f"n{number:02}" for number in range(1, 37)]
CHASSIS = {"c1": NAMES[:12], "c2": NAMES[12:24], "c3": NAMES[24:]}
SHARED = replace(SERVER, enclosure=EnclosurePower(12, 240.0))


def site_with_chassis(chassis=CHASSIS, *, only="", **given):
    """Return a site of 36 nodes in three enclosures of twelve, or in others."""
    site = site_of(36, **given)
    if only:
        site = replace(site, agent=replace(site.agent, nodes=only))
    of = {node: name for name, nodes in chassis.items() for node in nodes}
    machines = tuple(replace(machine, enclosure=of.get(machine.node)) for machine in site.inventory.machines)
    return replace(site, inventory=replace(site.inventory, machines=machines), class_of={HARDWARE.name: SHARED})


def sleepers(nodes, site, *, jobs=(), records=None) -> set[str]:
    changes = changes_of(planned(cluster_snapshot(nodes, jobs=jobs, records=records), site))
    return {name for name, change in changes.items() if change == "close"}


def test_one_whole_chassis_sleeps_rather_than_nodes_of_each() -> None:
    """Names that alternate between the chassis: a replay would let four of each sleep."""
    across = {f"c{first + 1}": NAMES[first::3] for first in range(3)}
    kept = replace(CapacitySettings(), keep_hot=24)
    assert sleepers([node_of(name) for name in NAMES], site_with_chassis(across, bounds=kept)) == set(across["c3"])
    assert sleepers([node_of(name) for name in NAMES], site_of(36, bounds=kept)) == set(NAMES[24:])


@pytest.mark.parametrize("odd", ["busy", "held", "closed", "young", "excluded"])
def test_a_chassis_in_which_a_node_stays_awake_sleeps_last_and_that_node_never(odd) -> None:
    """The replay would take the last chassis; its node n30 stays awake, so the second sleeps."""
    given = {
        "busy": {"use": NodeUse.USED},
        "closed": {"closed": True, "reason": "new DIMM"},
        "young": {"idle_since_s": NOW_S - 60},
    }
    nodes = [node_of(name, **(given.get(odd, {}) if name == "n30" else {})) for name in NAMES]
    records = {"n30": record_of("n30", hold=Hold("jo", "repair"))} if odd == "held" else {}
    agent = {"only": "n[01-29,31-36]"} if odd == "excluded" else {}
    jobs = [running(hosts="n30")] if odd == "busy" else []
    kept = replace(CapacitySettings(), keep_hot=23 if odd in {"held", "closed"} else 24)
    site = site_with_chassis(bounds=kept, **agent)
    assert sleepers(nodes, site, jobs=jobs, records=records) == set(CHASSIS["c2"])
    few = site_with_chassis(bounds=replace(kept, keep_hot=0), **agent)
    assert sleepers(nodes, few, jobs=jobs, records=records) == set(NAMES) - {"n30"}


def test_the_reason_counts_the_overhead_once_the_chassis_sleeps_as_a_whole() -> None:
    """The boot takes 30 kJ more than idling for 360 s: 165 W are saved alone, 185 W together, 405 W by the last."""
    nodes = [node_of(name, **({"idle_since_s": NOW_S} if name == "n36" else {})) for name in NAMES]
    decisions = planned(cluster_snapshot(nodes), site_with_chassis()).decisions
    reasons = {str(each).split()[0]: str(each).rpartition("; ")[2] for each in decisions}
    assert (reasons["n01"], reasons["n35"]) == ("break-even 9 min", "break-even 9 min")
    slept = {name: record_of(name, NodeState.OFF) for name in NAMES[24:35]}
    nodes = [node_of(name, power=PowerState.OFF) if name in slept else node_of(name) for name in NAMES]
    memory = slept_long_ago(slept)
    kept = replace(CapacitySettings(), keep_hot=24)
    plan = planned(cluster_snapshot(nodes, records=slept), site_with_chassis(bounds=kept), memory)
    assert [str(each) for each in plan.decisions] == [
        "n36 sleeps: timeout:10min: 25 idle nodes; idle 2:47 h; break-even 7 min"
    ]


def test_a_limit_of_a_cycle_empties_one_chassis_after_the_other() -> None:
    across = {f"c{first + 1}": NAMES[first::3] for first in range(3)}
    site = site_with_chassis(across, nodes_per_sweep=10)
    plan = planned(cluster_snapshot([node_of(name) for name in NAMES]), site)
    first = set(changes_of(plan))
    assert len(first) == 10
    assert first < set(across["c3"])
    records = {name: record_of(name, NodeState.OFF) for name in first}
    nodes = [node_of(name, power=PowerState.OFF) if name in first else node_of(name) for name in NAMES]
    second = {
        name
        for name, change in changes_of(planned(cluster_snapshot(nodes, records=records), site, plan.memory)).items()
        if change == "close"
    }
    assert len(second) == 10
    assert set(across["c3"]) <= first | second


def test_nodes_of_an_enclosure_that_is_awake_wake_first() -> None:
    """Of c1 and c2 all nodes sleep, of c3 all but one: a job for two nodes wakes one chassis for neither."""
    asleep = NAMES[:35]
    records = {name: record_of(name, NodeState.OFF) for name in asleep}
    nodes = [*(node_of(name, power=PowerState.OFF) for name in asleep), node_of("n36")]
    job = job_of(nodes=3, begin_s=NOW_S + 60, reason="BeginTime")
    snapshot = cluster_snapshot(nodes, jobs=[job], records=records)
    woken = changes_of(planned(snapshot, site_with_chassis(), slept_long_ago(asleep)))
    assert set(woken) == {"n25", "n26"}
    alone = changes_of(planned(snapshot, site_of(36), slept_long_ago(asleep)))
    assert set(alone) == {"n01", "n02"}


@given(st.data())
def test_the_order_has_each_node_once_and_keeps_enclosures_together(data) -> None:
    """Nodes in no enclosure keep their order, before all enclosures that could sleep as a whole."""
    of = {name: data.draw(st.sampled_from(["", "c1", "c2", "c3"])) for name in NAMES[:12]}
    chassis = {each: [name for name in of if of[name] == each] for each in ("c1", "c2", "c3")}
    busy = data.draw(st.sets(st.sampled_from(NAMES[:12])))
    nodes = [node_of(name, use=NodeUse.USED if name in busy else NodeUse.FREE) for name in of]
    memory = {name: NodeMemory(True, NOW_S - data.draw(st.integers(0, 900))) for name in of}
    site = site_with_chassis(chassis)
    rows = observe_nodes(cluster_snapshot([node._replace(idle_since_s=None) for node in nodes]), site, memory)
    ordered = [row.name for row in order_by_enclosure(rows.values(), rows, site)]
    assert sorted(ordered) == NAMES[:12]
    mixed = [name for name in ordered if of[name] and busy & set(chassis[of[name]])]
    alone = [name for name in of if not of[name]]
    assert ordered[: len(mixed) + len(alone)] == sorted(mixed) + alone
    groups = [of[name] for name in ordered[len(mixed) + len(alone) :]]
    assert [len(chassis[each]) for each in groups] == sorted((len(chassis[each]) for each in groups), reverse=True)
    assert len([1 for one, other in pairwise(groups) if one != other]) == max(len(set(groups)) - 1, 0)
