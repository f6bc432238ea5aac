"""The time of a round of decisions over all nodes of a site, and the memory of their records."""

import random
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.bars import Measured
from offpeak.door.effect import AGENT, Outcome
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.lifecycle.decisions import NodeContexts, NodeRecords, find_due_orders, make_effect, record_poll
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    Instant,
    NodeObservation,
    NodeRecord,
    OrderAnswer,
)
from offpeak.power.lifecycle.transitions import apply_event

NODES, ROUNDS = 1000, 20
DATA = f"{NODES:,} nodes, no BMCs"
SLEEP_METHODS = (
    SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), 60, 60, 25.0),
    SleepMethod(NodeOrder.SOFT_OFF, ("bmc", "wol"), 600, 600),
)
HARDWARE = Hardware("compute", "ipmi", sleep_methods=SLEEP_METHODS)
NAMES = tuple(f"n{number}" for number in range(NODES))
RULES = NodeContexts({name: InventoryNode(name, HARDWARE) for name in NAMES}, NodeContext(HARDWARE, random.Random(1)))


def lifecycle_benchmarks() -> Iterator[Measured]:
    """Measure rounds in which nothing happens, and those in which every node is ordered something."""
    quiet_ms = min(_round_ms(_new_records(), ordered=False) for _ in range(ROUNDS))
    busy_ms = min(_round_ms(_new_records(), ordered=True) for _ in range(ROUNDS))
    yield Measured("decisions of a round, nothing to do", quiet_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("decisions of a round, all are to sleep", busy_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("records in memory", _memory_mib(), "MiB", 50.0, False, DATA)


def _new_records() -> NodeRecords:
    return _round(NodeRecords({name: NodeRecord(name) for name in NAMES}), 0.0)


def _round_ms(records: NodeRecords, *, ordered: bool) -> float:
    records = _with_orders(records) if ordered else records
    began_s = time.process_time()
    _round(records, 10.0)
    return 1000 * (time.process_time() - began_s)


def _with_orders(records: NodeRecords) -> NodeRecords:
    now = Instant(0.0, 0.0)
    desired = {
        node: DesiredStateChange(DesiredState(NodeOrder.SOFT_OFF, AGENT, 0.0, f"idle since {node}"))
        for node in records.nodes
    }
    nodes = {node: apply_event(record, desired[node], now, RULES.context) for node, record in records.nodes.items()}
    return NodeRecords(nodes, records.times)


def _round(records: NodeRecords, at_s: float) -> NodeRecords:
    """Return the records after a poll of all nodes; each order that is due is accepted."""
    now, states = Instant(at_s, at_s), dict.fromkeys(NAMES, SchedulerState.UP)
    observations = {name: NodeObservation(PowerObservation(PowerState.ON, at_s)) for name in NAMES}
    records = record_poll(records, observations, states, now, RULES)
    nodes = dict(records.nodes)
    for record, due in find_due_orders(records, now, RULES):
        make_effect(record, due, now)
        answer = OrderAnswer(due.order, due.way, due.by, Outcome("done", ""))
        nodes[record.node] = apply_event(record, answer, now, RULES.of(record.node, records.times))
    return NodeRecords(nodes, records.times)


def _memory_mib() -> float:
    tracemalloc.start()
    records = _with_orders(_new_records())
    for number in range(1, 4):
        records = _round(records, 10.0 * number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / 2**20 if records.nodes else 0.0
