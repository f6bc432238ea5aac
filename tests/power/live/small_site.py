"""A small site for the tests of the power loop: nodes n01, n02, ... of one kind, and what is seen of them."""

from dataclasses import replace
from pathlib import Path

from scheduler_values import NOW, NOW_S, record_of

from offpeak.machines.inventory import Hardware, Inventory, InventoryNode, SleepMethod
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeMemory, PowerSite
from offpeak.power.live.observe import PowerRow, observe_nodes
from offpeak.power.live.power_plan import PowerMemory, PowerPlan, plan_power
from offpeak.settings.agent import AgentSettings
from offpeak.settings.capacity import CapacitySettings

SLEEP_METHODS = (SleepMethod(NodeOrder.SOFT_OFF, ("bmc",), 600, 600),)
HARDWARE = Hardware("compute", "ipmi", sleep_methods=SLEEP_METHODS, node_class="server")
SERVER = bundled_node_class("server")


def site_of(nodes: int = 4, *, bounds=None, shared_nodes=False, hardware=HARDWARE, **agent) -> PowerSite:
    """Return a site of so many nodes, all of which may be switched, under a time-out of ten minutes."""
    names = [f"n{number:02}" for number in range(1, nodes + 1)]
    usual = {"nodes": f"n[01-{nodes:02}]", "capacity": "timeout:10min", "min_on": 0, "nodes_per_sweep": nodes}
    inventory = Inventory(Path("inventory.toml"), tuple(InventoryNode(name, hardware) for name in names))
    settings = replace(AgentSettings(), **(usual | agent))
    return PowerSite(inventory, settings, bounds or CapacitySettings(), {hardware.name: SERVER}, shared_nodes)


def cluster_snapshot(nodes, *, jobs=(), reservations=(), records=None, now=NOW, times=None, **given) -> ClusterSnapshot:
    """Return a sight of nodes that are all on, but for the lives that are given."""
    usual = {node.name: record_of(node.name) for node in nodes}
    view = SchedulerView(int(now.unix_s), tuple(jobs), tuple(nodes), tuple(reservations))
    return ClusterSnapshot(now, view, NodeRecords(usual | (records or {}), times or {}), **given)


def planned(snapshot: ClusterSnapshot, site: PowerSite, memory: PowerMemory | None = None) -> PowerPlan:
    """Return the plan of a first cycle, or of one after others."""
    return plan_power(snapshot, site=site, memory=memory or PowerMemory())


def slept_long_ago(names) -> PowerMemory:
    """Return the memory of nodes that are asleep since a day."""
    return PowerMemory({name: NodeMemory(False, NOW_S - 86_400, slept_s=(NOW_S - 80_000,)) for name in names})


def changes_of(plan: PowerPlan) -> dict[str, str]:
    """Return what the scheduler is told, by node."""
    return {change.node: str(change.change) for change in plan.changes}


def rows_of(snapshot: ClusterSnapshot, site: PowerSite) -> dict[str, PowerRow]:
    """Return the table of the nodes in a first cycle."""
    return observe_nodes(snapshot, site, {})
