"""A cycle of the power loop: a thousand nodes, two thousand jobs, the what-if included."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.engine import best_s
from offpeak.machines.inventory import Hardware, Inventory, InventoryNode, SleepMethod
from offpeak.machines.node_sets import fold
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import Instant, NodeRecord, ObservedState
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from offpeak.power.live.power_plan import PowerMemory, plan_power
from offpeak.settings.agent import AgentSettings
from offpeak.settings.capacity import CapacitySettings

NODES, RUNNING, PENDING, ROUNDS = 1000, 400, 1600, 5
NOW_S = 1_800_000_000
KIND = Hardware("compute", "ipmi", sleep_methods=(SleepMethod(NodeOrder.SOFT_OFF, ("bmc",), 600, 600),))
NAMES = tuple(f"n{number:04}" for number in range(NODES))


def power_loop_benchmarks() -> Iterator[Measured]:
    """Measure the first cycle, in which OLS decides, and a time-out."""
    data = f"{NODES:,} nodes, {RUNNING + PENDING:,} jobs, no scheduler"
    for policy in ("ols:1h", "timeout:10min"):
        site, snapshot = make_site(policy), snapshot_of(NOW_S)
        took_s = best_s(partial(plan_power, snapshot, site=site, memory=PowerMemory()), ROUNDS)
        yield Measured(f"a cycle of the power loop, {policy}", took_s, "s", 1.0, False, data)


def make_site(policy: str) -> PowerSite:
    """Return the site, with that capacity policy."""
    settings = AgentSettings(capacity=policy, nodes=fold(NAMES))
    inventory = Inventory(Path("inventory.toml"), tuple(InventoryNode(name, KIND) for name in NAMES))
    return PowerSite(inventory, settings, CapacitySettings(), {KIND.name: bundled_node_class("server")})


def snapshot_of(now_s: int) -> ClusterSnapshot:
    """Return the snapshot at that second."""
    nodes = tuple(_node(number, now_s) for number in range(NODES))
    jobs = tuple(_job(number, now_s) for number in range(RUNNING + PENDING))
    seen = {
        state: ObservedState(state, now_s, 0.0, now_s - 9999, known=state) for state in (NodeState.ON, NodeState.OFF)
    }
    states = [NodeState.OFF if node.power is PowerState.OFF else NodeState.ON for node in nodes]
    records = {name: NodeRecord(name, observed=seen[state]) for name, state in zip(NAMES, states, strict=True)}
    return ClusterSnapshot(Instant(0.0, now_s), SchedulerView(now_s, jobs, nodes, ()), NodeRecords(records))


def _node(number: int, now_s: int) -> Node:
    """Return one of the 800 that run jobs, of the 100 that idle, or of the 100 that sleep."""
    used = number < 2 * RUNNING
    return Node(
        name=NAMES[number],
        native_state="ALLOCATED" if used else "IDLE",
        use=NodeUse.USED if used else NodeUse.FREE,
        power=PowerState.OFF if number >= NODES - 100 else PowerState.ON,
        closed=False,
        failed=False,
        responds=True,
        reserved=False,
        planned=False,
        reason="",
        reason_by="",
        reason_s=None,
        partitions=("batch",),
        features=("avx",),
        cpus=64,
        cpus_used=64 if used else 0,
        memory_mib=1 << 18,
        boot_s=now_s - 90_000,
        idle_since_s=now_s - 5000,
    )


def _job(number: int, now_s: int) -> Job:
    """Return one that has two nodes, or one that waits for up to 300, with a plan of the scheduler for the first 50."""
    runs, at = number < RUNNING, number - RUNNING
    planned = 0 <= at < 50
    return Job(
        job_id=str(number),
        state=JobState.RUNNING if runs else JobState.PENDING,
        native_state="RUNNING" if runs else "PENDING",
        reason="None" if runs else "Resources",
        user="u",
        account="a",
        name="j",
        comment="",
        partitions=("batch",),
        request=None,
        reservation="",
        qos="",
        priority=10_000 - number,
        offset=0,
        nodes=2 if runs else 1 + at * 7 % 300,
        cpus=128,
        whole_nodes=True,
        limit_s=3600 * (1 + number % 24),
        submit_s=now_s - 20_000 + number,
        begin_s=None,
        start_s=now_s - 3000 if runs else now_s + 600 * at if planned else None,
        end_s=None,
        hosts=f"n[{2 * number:04}-{2 * number + 1:04}]" if runs else f"n[0000-{at * 7 % 300:04}]" if planned else "",
        plain=True,
    )
