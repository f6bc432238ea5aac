"""The life cycles of a site: what a round of decisions over all nodes takes, and their memory."""

import random
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.bars import Measured
from offpeak.door.effect import US, Outcome
from offpeak.machines.inventory import Hardware, InventoryNode, SleepMethod
from power.drivers.port import Observed, Order, PowerState
from power.lifecycle.decide import Lives, Rules, after_look, all_due, effect_of
from power.lifecycle.events import Looked, Ordered, Wished
from power.lifecycle.life import NodeLife, Now, Wish, Word
from power.lifecycle.step import step
from power.lifecycle.terms import Terms

NODES, ROUNDS = 1000, 20
DATA = f"{NODES:,} nodes, no BMCs"
RUNGS = (SleepMethod("standby", ("bmc", "wol"), 60, 60, 25.0), SleepMethod("soft_off", ("bmc", "wol"), 600, 600))
HARDWARE = Hardware("compute", "ipmi", rungs=RUNGS)
NAMES = tuple(f"n{number}" for number in range(NODES))
RULES = Rules({name: InventoryNode(name, HARDWARE) for name in NAMES}, Terms(HARDWARE, random.Random(1)))


def lifecycle_benchmarks() -> Iterator[Measured]:
    """Measure rounds in which nothing happens, and those in which every node is ordered something."""
    quiet_ms = min(_round_ms(_new_lives(), wished=False) for _ in range(ROUNDS))
    busy_ms = min(_round_ms(_new_lives(), wished=True) for _ in range(ROUNDS))
    yield Measured("decisions of a round, nothing to do", quiet_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("decisions of a round, all are to sleep", busy_ms, "ms of processor", 50.0, False, DATA)
    yield Measured("lives in memory", _memory_mib(), "MiB", 50.0, False, DATA)


def _new_lives() -> Lives:
    return _round(Lives({name: NodeLife(name) for name in NAMES}), 0.0)


def _round_ms(lives: Lives, *, wished: bool) -> float:
    lives = _with_wishes(lives) if wished else lives
    began_s = time.process_time()
    _round(lives, 10.0)
    return 1000 * (time.process_time() - began_s)


def _with_wishes(lives: Lives) -> Lives:
    now = Now(0.0, 0.0)
    wishes = {node: Wished(Wish(Order.SOFT_OFF, US, 0.0, f"idle since {node}")) for node in lives.nodes}
    nodes = {node: step(life, wishes[node], now, RULES.terms) for node, life in lives.nodes.items()}
    return Lives(nodes, lives.times)


def _round(lives: Lives, at_s: float) -> Lives:
    """Return the lives after a look at all nodes; each order that is due is accepted."""
    now, words = Now(at_s, at_s), dict.fromkeys(NAMES, Word.UP)
    looks = {name: Looked(Observed(PowerState.ON, at_s)) for name in NAMES}
    lives = after_look(lives, looks, words, now, RULES)
    nodes = dict(lives.nodes)
    for life, due in all_due(lives, now, RULES):
        effect_of(life, due, now)
        ordered = Ordered(due.order, due.way, due.by, Outcome("done", ""))
        nodes[life.node] = step(life, ordered, now, RULES.of(life.node, lives.times))
    return Lives(nodes, lives.times)


def _memory_mib() -> float:
    tracemalloc.start()
    lives = _with_wishes(_new_lives())
    for number in range(1, 4):
        lives = _round(lives, 10.0 * number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / 2**20 if lives.nodes else 0.0
