"""The life cycles of a site: what a round of decisions over all nodes takes, and their memory."""

import random
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.bars import Measured
from offpeak.door.effect import US, Outcome
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from plugin.scheduler.node import SchedulerState
from power.drivers.port import PowerObservation, PowerState
from power.lifecycle.decisions import NodeContexts, NodeRecords, find_due_orders, make_effect, record_poll
from power.lifecycle.node_context import NodeContext
from power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    Instant,
    NodeObservation,
    NodeRecord,
    OrderAnswer,
)
from power.lifecycle.transitions import apply_event

NODES, ROUNDS = 1000, 20
DATA = f"{NODES:,} nodes, no BMCs"
RUNGS = (
    SleepMethod(NodeOrder.STANDBY, ("bmc", "wol"), 60, 60, 25.0),
    SleepMethod(NodeOrder.SOFT_OFF, ("bmc", "wol"), 600, 600),
)
HARDWARE = Hardware("compute", "ipmi", sleep_methods=RUNGS)
NAMES = tuple(f"n{number}" for number in range(NODES))
RULES = NodeContexts({name: InventoryNode(name, HARDWARE) for name in NAMES}, NodeContext(HARDWARE, random.Random(1)))


def lifecycle_benchmarks() -> Iterator[Measured]:
    """Measure rounds in which nothing happens, and those in which every node is ordered something."""
    quiet_ms = min(_round_ms(_new_lives(), wished=False) for _ in range(ROUNDS))
    busy_ms = min(_round_ms(_new_lives(), wished=True) for _ in range(ROUNDS))
    yield Measured("decisions of a round, nothing to do", quiet_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("decisions of a round, all are to sleep", busy_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("lives in memory", _memory_mib(), "MiB", 50.0, False, DATA)


def _new_lives() -> NodeRecords:
    return _round(NodeRecords({name: NodeRecord(name) for name in NAMES}), 0.0)


def _round_ms(lives: NodeRecords, *, wished: bool) -> float:
    lives = _with_wishes(lives) if wished else lives
    began_s = time.process_time()
    _round(lives, 10.0)
    return 1000 * (time.process_time() - began_s)


def _with_wishes(lives: NodeRecords) -> NodeRecords:
    now = Instant(0.0, 0.0)
    wishes = {
        node: DesiredStateChange(DesiredState(NodeOrder.SOFT_OFF, US, 0.0, f"idle since {node}"))
        for node in lives.nodes
    }
    nodes = {node: apply_event(life, wishes[node], now, RULES.context) for node, life in lives.nodes.items()}
    return NodeRecords(nodes, lives.times)


def _round(lives: NodeRecords, at_s: float) -> NodeRecords:
    """Return the lives after a look at all nodes; each order that is due is accepted."""
    now, words = Instant(at_s, at_s), dict.fromkeys(NAMES, SchedulerState.UP)
    looks = {name: NodeObservation(PowerObservation(PowerState.ON, at_s)) for name in NAMES}
    lives = record_poll(lives, looks, words, now, RULES)
    nodes = dict(lives.nodes)
    for life, due in find_due_orders(lives, now, RULES):
        make_effect(life, due, now)
        ordered = OrderAnswer(due.order, due.way, due.by, Outcome("done", ""))
        nodes[life.node] = apply_event(life, ordered, now, RULES.of(life.node, lives.times))
    return NodeRecords(nodes, lives.times)


def _memory_mib() -> float:
    tracemalloc.start()
    lives = _with_wishes(_new_lives())
    for number in range(1, 4):
        lives = _round(lives, 10.0 * number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / 2**20 if lives.nodes else 0.0
