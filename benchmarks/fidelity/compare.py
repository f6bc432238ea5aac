"""The arithmetic of the comparison: energy, cost, order of starts, waits, and node hours asleep of two runs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.replay import DAY_H, ON_PEAK_H
from benchmarks.fidelity.workload import GROUPS, OFF_W, MixedDay
from offpeak.model.arrays import Float64, Int64

ON_PEAK_PRICE, OFF_PEAK_PRICE = 90.0, 30.0
"""EUR/MWh."""

Asleep = tuple[str, float, float]
"""A node, and from when until when it was off [h]."""


@dataclass(frozen=True)
class Run:
    """When each job started and ended [h], on which nodes, and which nodes were off when."""

    start_h: Float64
    end_h: Float64
    nodes: Sequence[Sequence[str]]
    asleep: Sequence[Asleep] = ()


class Figures(NamedTuple):
    """What a run needs until `until_h`: energy [kWh] and its cost [EUR], mean wait [h], node hours asleep."""

    energy_kwh: float
    cost_eur: float
    mean_wait_h: float
    asleep_node_h: float


IDLE_W = {
    f"node{number}": group.idle_w
    for number, group in enumerate((group for group in GROUPS for _ in range(group.nodes)), start=1)
}
_TYPE = dict(zip(IDLE_W, (group.node_type for group in GROUPS for _ in range(group.nodes)), strict=True))
_PARTITIONS = dict(zip(IDLE_W, (group.partitions for group in GROUPS for _ in range(group.nodes)), strict=True))


def price_integral(at_h: Float64) -> Float64:
    """Return the integral of the price from hour 0 [EUR/MWh x h]."""
    days, hour = np.divmod(at_h, DAY_H)
    first, last = ON_PEAK_H
    peak_h = days * (last - first) + np.clip(hour - first, 0.0, last - first)
    cost: Float64 = OFF_PEAK_PRICE * at_h + (ON_PEAK_PRICE - OFF_PEAK_PRICE) * peak_h
    return cost


def figures(day: MixedDay, run: Run, until_h: float) -> Figures:
    """Return the figures of a run. What jobs leave of a node draws that share of the node's idle power."""
    span_h = run.end_h - run.start_h
    priced = price_integral(run.end_h) - price_integral(run.start_h)
    idle_w = sum(IDLE_W.values())
    # A job's draw replaces the idle draw of its share of the nodes.
    job_w = day.part_w * day.parts() - np.array([_replaced_w(day, job, run.nodes[job]) for job in range(len(day))])
    saved_w = np.array([IDLE_W[node] - OFF_W for node, _, _ in run.asleep])
    off_h, on_h = np.array([each[1:] for each in run.asleep], dtype=np.float64).reshape(-1, 2).T
    off_h, on_h = np.clip(off_h, 0.0, until_h), np.clip(on_h, 0.0, until_h)
    whole = price_integral(np.array([until_h]))[0]
    watt_h = idle_w * until_h + (job_w * span_h).sum() - (saved_w * (on_h - off_h)).sum()
    cost = idle_w * whole + (job_w * priced).sum() - (saved_w * (price_integral(on_h) - price_integral(off_h))).sum()
    wait_h = float((run.start_h - day.submit_h).mean())
    return Figures(watt_h / 1e3, cost / 1e6, wait_h, float((on_h - off_h).sum()))


def _replaced_w(day: MixedDay, job: int, nodes: Sequence[str]) -> float:
    request = day.request_of(job)
    shares = (1.0 if request.whole_nodes else _TYPE[node].share(request.chunks[0]) for node in nodes)
    return sum(IDLE_W[node] * share for node, share in zip(nodes, shares, strict=True))


def saving(own: Figures, other: Figures) -> float:
    """Return the share of the cost that is saved."""
    return 1.0 - other.cost_eur / own.cost_eur


def spearman(one: Float64, other: Float64) -> float:
    """Return the correlation of the ranks."""
    mine, its = (np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in (one, other))
    return float(np.corrcoef(mine, its)[0, 1])


def nearest(start_h: Float64, engine: Mapping[str, Float64]) -> tuple[str, dict[str, float]]:
    """Return the policy whose replay starts the jobs in the most similar order, and the correlation with each."""
    found = {policy: spearman(start_h, other) for policy, other in engine.items()}
    return max(found, key=found.__getitem__), found


TICK_H = 0.005
"""The engine rounds times to ticks, so that a job may seem to start before another one has ended."""


def place_on_nodes(day: MixedDay, start_h: Float64, end_h: Float64) -> list[list[str]]:
    """Return nodes for the jobs of a schedule of pools, in the order of their starts.

    A job takes the first nodes with room; on shared nodes those with the fewest free cores. Where the engine has placed
    jobs with less waste than this does, a job gets the nodes with the most free cores instead.
    """
    free = {node: np.array([kind.cores, kind.memory_mib, kind.gpu_count()]) for node, kind in _TYPE.items()}
    events = sorted(
        [(end_h[job] - TICK_H, 0, job) for job in range(len(day))] + [(start_h[job], 1, job) for job in range(len(day))]
    )
    placed: list[list[str]] = [[] for _ in range(len(day))]
    needs: dict[int, dict[str, Int64]] = defaultdict(dict)
    for _, begins, job in events:
        if begins:
            placed[job] = _choose(day, job, free)
            needs[job] = {node: _need(day, job, node) for node in placed[job]}
        for node, need in needs[job].items():
            free[node] = free[node] - need if begins else free[node] + need
    return placed


def _need(day: MixedDay, job: int, node: str) -> Int64:
    request, kind = day.request_of(job), _TYPE[node]
    (chunk,) = request.chunks
    if request.whole_nodes:
        return np.array([kind.cores, kind.memory_mib, kind.gpu_count()])
    return np.array([chunk.cores, chunk.memory_mib, chunk.gpus])


def _choose(day: MixedDay, job: int, free: Mapping[str, Int64]) -> list[str]:
    request = day.request_of(job)
    (chunk,) = request.chunks
    able = [node for node in free if _PARTITIONS[node] & set(request.partitions) and _TYPE[node].holds(chunk)]
    fits = [node for node in able if (free[node] >= _need(day, job, node)).all()]
    # The engine fills the pool whose nodes leave the least first.
    fits.sort(key=lambda node: (IDLE_W[node], 0 if request.whole_nodes else free[node][0]))
    others = sorted(set(able) - set(fits), key=lambda node: -free[node][0])
    return (fits + others)[: chunk.copies]


def idle_gaps(run: Run, until_h: float) -> Iterable[Asleep]:
    """Yield when each node is idle before `until_h`."""
    busy: dict[str, list[tuple[float, float]]] = {node: [] for node in IDLE_W}
    for start_h, end_h, nodes in zip(run.start_h, run.end_h, run.nodes, strict=True):
        for node in nodes:
            busy[node].append((start_h, end_h))
    for node, spans in busy.items():
        free_h = 0.0
        for start_h, end_h in sorted(spans):
            if start_h > free_h:
                yield node, free_h, start_h
            free_h = max(free_h, end_h)
        if until_h > free_h:
            yield node, free_h, until_h


def put_to_sleep(run: Run, until_h: float, *, after_h: float, shutdown_h: float) -> tuple[Asleep, ...]:
    """Return when nodes are off if each is switched off after `after_h` idle, and wakes when its next job starts."""
    gaps = ((node, from_h + after_h + shutdown_h, to_h) for node, from_h, to_h in idle_gaps(run, until_h))
    return tuple(each for each in gaps if each[1] < each[2])


def with_tail(run: Run, tail: Iterable[Asleep]) -> Run:
    """Return a live run of which the sleep after its last job, when it was not watched any more, is that of `tail`."""
    last_h = float(run.end_h.max())
    ends = {
        node: max((end for end, on in zip(run.end_h, run.nodes, strict=True) if node in on), default=0.0)
        for node in IDLE_W
    }
    watched = tuple(each for each in run.asleep if each[2] < last_h)
    return replace(run, asleep=(*watched, *(each for each in tail if each[1] > ends[each[0]])))


def wake_delays_h(run: Run, asleep: Iterable[Asleep], ready_h: Callable[[float], float]) -> Float64:
    """Return for how long each job waits for its nodes; a node that wakes at an hour is ready at `ready_h` of it."""
    ready: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for node, _, on_h in asleep:
        ready[node].append((on_h, ready_h(on_h)))
    return np.array(
        [
            max([0.0, *(at - start for node in nodes for on, at in ready[node] if on <= start + TICK_H and start < at)])
            for start, nodes in zip(run.start_h, run.nodes, strict=True)
        ]
    )
