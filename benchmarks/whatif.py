"""One what-if of a full machine with a long queue: the decision that tries the whole curve."""

from collections.abc import Iterator

import numpy as np

from benchmarks.bars import Measured
from benchmarks.engine import best_s
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.power.capacity.online_simulation import find_ols_units

NOW_S = 1_000_000
DAY_S = 86_400
ROUNDS = 7
RUNNING = 500
SLA_THAT_NOTHING_KEEPS = 1.0


def whatif_benchmarks() -> Iterator[Measured]:
    """Measure an OLS decision that tries every number of nodes."""
    for nodes, queued, bar_ms in ((1_000, 5_000, 20.0), (10_000, 50_000, 300.0)):
        snapshot = busy_machine(nodes, queued)
        took_ms = 1000 * best_s(lambda of=snapshot: find_ols_units(of, SLA_THAT_NOTHING_KEEPS), ROUNDS)  # type: ignore[misc]
        tried = len(find_ols_units(snapshot, SLA_THAT_NOTHING_KEEPS).tried)
        what = f"what-if, {nodes:,} nodes, {queued:,} queued, {RUNNING} running, {tried} numbers of nodes"
        yield Measured(what, took_ms, "ms", bar_ms, False, "random jobs")


def busy_machine(nodes: int, queued: int) -> Snapshot:
    """Return a machine of which three quarters run jobs, with a queue of wider jobs."""
    random = np.random.default_rng(1)
    widest = 3 * nodes // (2 * RUNNING) - 1
    start_s = np.sort(NOW_S - random.integers(0, DAY_S, RUNNING))
    running = RunningJobs(
        random.integers(1, widest + 1, RUNNING),
        start_s - random.integers(0, DAY_S, RUNNING),
        start_s,
        NOW_S + random.integers(1, DAY_S, RUNNING),
    )
    waiting = QueuedJobs(
        random.integers(1, 2 * widest, queued),
        np.sort(NOW_S - random.integers(0, 10 * DAY_S, queued)),
        random.integers(60, DAY_S, queued),
    )
    return Snapshot(NOW_S, 1, *all_active(nodes, now_s=NOW_S), (1, 20, 180), running, waiting)
