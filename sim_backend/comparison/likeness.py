"""What each partition did by the log, and how near the replay of the site's own order comes to what happened.

A saving is a difference between two replays. It holds for the cluster only if the first of them, of the site's own
order, resembles the log: in how long jobs wait, in which order they start, and how much each partition is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.machines.node_sets import fold_names
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import LogNames
from offpeak.model.limits import PriorityOrder
from offpeak.sim_backend.comparison.compare import Comparison
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.schedule import JobRuns
from offpeak.text import natural_key

WAIT_FACTOR, WAIT_S = 1.5, 60
"""A mean wait that differs by this factor and so many seconds makes a replay another queue than that of the log: on the
logs of docs/benchmarks.md no order of the queue changes the wait by more, and replays shift submissions by a minute."""

LEAST_START_ORDER = 0.85
"""Below it the replay starts jobs less like the log than another discipline would: on the bundled sample, which EASY
started, conservative backfilling reaches 0.85."""

MOST_USE_DIFFERENCE = 0.1
"""Where the use of a partition differs by more of its nodes on the mean day, the replay moves work to other days, with
other prices."""

MOST_UTILIZATION = 1.05
"""No partition uses more than it has; threads that count as cores and jobs that are still ending need some room."""

MOST_LINES = 5
"""Partitions that differ from the log with a line each; more of them share one."""

MOST_LEFT_OUT = 0.1
"""With more of the node-hours left out, the jobs that are left use the cluster in another way."""

FEWEST_OF_A_DAY = 10
"""The order of fewer jobs says little."""

_ORDER_REASONS = {
    PriorityOrder.SUBMISSION: "the site orders jobs by priorities that the log does not tell",
    PriorityOrder.RECORDED: "the log records the priority at the start of a job, not those while it waits",
    PriorityOrder.MULTIFACTOR: "usage before the log, nice and priorities set by hand are not modelled",
}


@dataclass(frozen=True)
class PartitionUse:
    """What the jobs of a partition used by the log.

    `utilization` and `replayed_utilization` are the shares of its nodes, or of its GPUs if its jobs use a larger share
    of these (`counts_gpus`), by the log and in the replay of the site's own order; `use_difference` is by how much
    these differ on the mean day. `gpu_hours` is None where the log tells no request of GPUs, what needs the size of the
    partition where that is unknown, and what needs starts where none is logged.
    """

    partition: str
    jobs: int
    node_hours: float
    gpu_hours: float | None
    utilization: float | None
    replayed_utilization: float | None
    use_difference: float | None
    mean_wait_s: float | None
    counts_gpus: bool = False


@dataclass(frozen=True)
class Likeness:
    """How near the replay of the site's own order is to the log.

    `start_order` is Spearman's rank correlation of the starts of the jobs that were submitted on one day, averaged over
    the days by their jobs; None where no day has enough jobs. Over a whole log it would be near 1 for any order: all
    jobs of May start before those of June. `left_out_share` is the share of the node-hours of jobs that are left out.
    """

    logged_wait_s: float
    replayed_wait_s: float
    start_order: float | None
    partitions: tuple[PartitionUse, ...]
    order: PriorityOrder = PriorityOrder.SUBMISSION
    left_out_share: float = 0.0

    @property
    def is_near(self) -> bool:
        """Whether a saving of the replay may be claimed for the cluster."""
        return waits_are_near(self.logged_wait_s, self.replayed_wait_s) and not self.differences

    @property
    def differences(self) -> tuple[str, ...]:
        """What besides the waits keeps the replay from being near the log, with the likely reason; () for nothing."""
        found = []
        if self.left_out_share > MOST_LEFT_OUT:
            found.append(
                f"jobs with {100 * self.left_out_share:.0f} % of the node-hours are left out of the replay: the cluster"
                " has too little for them, or the log is of another one"
            )
        if self.start_order is not None and self.start_order < LEAST_START_ORDER:
            found.append(
                f"the order in which a day's jobs start correlates {self.start_order:.2f} with that of the log, less"
                f" than {LEAST_START_ORDER} (1: the same order): {_ORDER_REASONS[self.order]}"
            )
        full = [use for use in self.partitions if (use.utilization or 0.0) > MOST_UTILIZATION]
        moved = [
            use for use in self.partitions if use not in full and (use.use_difference or 0.0) > MOST_USE_DIFFERENCE
        ]
        full_text = "{partition} used {share} of its {units} in the log: the cluster has too few, or the log is of a"
        found += _share_lines(full, f"{full_text} larger one", [use.utilization or 0.0 for use in full])
        moved_text = "on the mean day {partition} uses {share} of its {units} at other times than in the log"
        found += _share_lines(moved, moved_text, [use.use_difference or 0.0 for use in moved])
        return tuple(found)


def _share_lines(uses: Sequence[PartitionUse], text: str, shares: Sequence[float]) -> list[str]:
    """Return the text for each partition, for many of them one line with the largest share."""
    if len(uses) > MOST_LINES:
        folded = f"each of the partitions {fold_names(use.partition for use in uses)}"
        return [text.format(partition=folded, share=f"up to {100 * max(shares):.0f} %", units="nodes or GPUs")]
    return [
        text.format(
            partition=f"partition {use.partition}",
            share=f"{100 * share:.0f} %",
            units="GPUs" if use.counts_gpus else "nodes",
        )
        for use, share in zip(uses, shares, strict=True)
    ]


def waits_are_near(logged_s: float, replayed_s: float) -> bool:
    """Return whether jobs wait about as long on average; a log in which none waits has no waits to compare."""
    low, high = sorted((logged_s, replayed_s))
    return not logged_s or high < max(WAIT_FACTOR * low, WAIT_S + low)


def likeness_of(comparison: Comparison, names: LogNames, units_per_node: int) -> Likeness | None:
    """Return how near the baseline's replay is to the log; None where no job has a logged start."""
    waits_s, case = comparison.mean_waits_s(), comparison.case
    if waits_s is None:
        return None
    jobs, replayed_s = case.jobs, comparison.runs[0].schedule.start_s
    both = (jobs.logged_start_s >= 0) & (replayed_s != NOT_YET)
    order = start_order(jobs.submit_s[both], jobs.logged_start_s[both], replayed_s[both])
    uses = partition_uses(comparison, names, units_per_node)
    return Likeness(*waits_s, order, uses, order=case.order, left_out_share=case.left_out_share)


def start_order(submit_s: Int64, logged_s: Int64, replayed_s: Int64) -> float | None:
    """Return the rank correlation of two columns of starts within the days of submission; see `Likeness`."""
    day = submit_s // DAY_S
    days, number, jobs = np.unique(day, return_inverse=True, return_counts=True)
    begin = np.concatenate([[0], np.cumsum(jobs)[:-1]])[number]

    def centred_ranks(start_s: Int64) -> Float64:
        """Return the rank of each start within its day, less the mean of these ranks; equal starts have equal ranks."""
        order = np.lexsort((start_s, number))
        is_new = (np.diff(start_s[order], prepend=-1) != 0) | (np.diff(number[order], prepend=-1) != 0)
        group = np.cumsum(is_new) - 1
        place = np.arange(len(order)) - begin[order]
        mean = np.bincount(group, place) / np.bincount(group)
        ranks = np.empty(len(order))
        ranks[order] = mean[group]
        return ranks - (jobs[number] - 1) / 2

    logged, replayed = centred_ranks(logged_s), centred_ranks(replayed_s)
    sums = [np.bincount(number, product, len(days)) for product in (logged * replayed, logged**2, replayed**2)]
    counted = (jobs >= FEWEST_OF_A_DAY) & (sums[1] > 0) & (sums[2] > 0)
    if not counted.any():
        return None
    correlation = sums[0][counted] / np.sqrt(sums[1][counted] * sums[2][counted])
    return float(np.average(correlation, weights=jobs[counted]))


def partition_uses(comparison: Comparison, names: LogNames, units_per_node: int) -> tuple[PartitionUse, ...]:
    """Return what the jobs of each partition used, by name; of jobs without a partition nothing."""
    case = comparison.case
    jobs, runs = case.jobs.as_logged(), comparison.runs[0].schedule.runs
    code, texts = names.partitions(jobs)
    gpus = None
    if jobs.request is not None and any(request.gpus for request in case.requests):
        gpus = np.array([*(request.gpus for request in case.requests), 0])[jobs.request]
    # The days of the log end with the last job by the log, if starts are logged.
    ends_s = (jobs.logged_start_s + jobs.runtime_s)[jobs.logged_start_s >= 0]
    until_s = int(ends_s.max()) if len(ends_s) else comparison.runs[0].usage.until_s
    edges_s = np.append(np.arange(comparison.begin_s, max(until_s, comparison.begin_s + 1), DAY_S), until_s)
    uses = []
    for number, name in sorted(enumerate(texts), key=lambda item: natural_key(item[1])):
        of_it = np.flatnonzero(code == number)
        if not len(of_it):
            continue
        some = jobs.take(of_it)
        size, counts_gpus = some.size, False
        pools = [pool for pool in (case.cluster.pools if case.cluster else ()) if name in pool.partitions]
        units = [1 if units_per_node == 1 else pool.node_type.cores for pool in pools]
        capacity, per_node = None, float(units_per_node)
        if units and all(units):
            capacity = sum(pool.nodes * each for pool, each in zip(pools, units, strict=True))
            per_node = capacity / sum(pool.nodes for pool in pools)
        all_gpus = sum(pool.nodes * pool.node_type.gpu_count() for pool in pools)
        if gpus is not None and capacity and all_gpus:
            unit_runs, gpu_runs = np.dot(some.size, some.runtime_s), np.dot(gpus[of_it], some.runtime_s)
            if counts_gpus := bool(gpu_runs * capacity > unit_runs * all_gpus):
                size, capacity = gpus[of_it], all_gpus
        unit_s = None if capacity is None else capacity * np.diff(edges_s)
        started = some.logged_start_s >= 0
        logged_runs = JobRuns(np.arange(len(of_it)), some.logged_start_s, some.logged_start_s + some.runtime_s)
        logged = _shares(size, logged_runs, edges_s, unit_s) if started.all() else None
        own = code[runs.job] == number
        own_runs = JobRuns(np.searchsorted(of_it, runs.job[own]), runs.start_s[own], runs.end_s[own])
        replayed = _shares(size, own_runs, edges_s, unit_s)
        uses.append(
            PartitionUse(
                partition=name,
                jobs=len(of_it),
                node_hours=float(np.dot(some.size, some.runtime_s)) / per_node / HOUR_S,
                gpu_hours=None if gpus is None else float(np.dot(gpus[of_it], some.runtime_s)) / HOUR_S,
                utilization=_mean(logged, edges_s),
                replayed_utilization=_mean(replayed, edges_s),
                use_difference=None if logged is None or replayed is None else _mean(abs(replayed - logged), edges_s),
                mean_wait_s=float((some.logged_start_s - some.submit_s)[started].mean()) if started.any() else None,
                counts_gpus=counts_gpus,
            )
        )
    return tuple(uses)


def _shares(size: Int64, runs: JobRuns, edges_s: Int64, unit_s: Float64 | None) -> Float64 | None:
    """Return the share of the units that runs use on each day, None where their number is unknown; sizes are by job."""
    if unit_s is None:
        return None
    ran = runs.start_s != NOT_YET
    size, start_s, end_s = size[runs.job[ran]], runs.start_s[ran], runs.end_s[ran]
    used_s = _used_until(edges_s, start_s, size) - _used_until(edges_s, end_s, size)
    shares: Float64 = np.diff(used_s) / np.maximum(unit_s, 1)
    return shares


def _used_until(at_s: Int64, start_s: Int64, size: Int64) -> Float64:
    """Return what jobs that begin at `start_s` and never end have used by each time [units times seconds]."""
    order = np.argsort(start_s)
    begun = np.searchsorted(start_s[order], at_s, side="right")
    sizes = np.append(0, np.cumsum(size[order]))
    moments = np.append(0, np.cumsum((size * start_s)[order]))
    used_s: Float64 = (at_s * sizes[begun] - moments[begun]).astype(np.float64)
    return used_s


def _mean(shares: Float64 | None, edges_s: Int64) -> float | None:
    return None if shares is None else float(np.average(shares, weights=np.maximum(np.diff(edges_s), 1)))
