"""The rights that a site's priorities give: which waiting jobs a price may put in another order.

A site promises urgent jobs, accounts with unused shares and old jobs an earlier start. So the jobs of a window, in the
site's order, are divided into bands, and jobs change places within their band only. All jobs of a band have one level:
the same QOS priority on Slurm, the same queue priority and fair-share entity on PBS. Their priorities, and what fair
share adds to these, differ by at most a share of the range, which a setting gives. So no job ends behind one of
a lower QOS, or behind one whose priority or fair share was lower by more than that share.

Slurm computes fair share anew every few minutes: a job can be put behind another account's jobs only until their use
has lowered their fair share by more than the band. Jobs that are never moved back are bands of their own. The queue
hook, the day plan and the engine of mixed clusters use this one rule.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from offpeak.compiled import index, part
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.limits import PriorityOrder

ALONE = -1
"""The level of a job that is a band of its own."""
ANY_DIFFERENCE = 1 << 62
"""A width of bands that no difference of priorities exceeds."""
WHOLE_PERCENT = 100
USUAL_PERCENT = (1, 99)
"""Where a scheduler tells no weights, the range is between these percentiles of the priorities, without outliers."""


class BandWidths(NamedTuple):
    """By how much the priorities, and their parts from fair share, of the jobs of a band differ at most."""

    priority: int
    fair_share: int


NO_BANDS = BandWidths(ANY_DIFFERENCE, ANY_DIFFERENCE)


class JobRight(NamedTuple):
    """Jobs of different `level` never change places; `alone` is why a job is never moved at all, "" if it may be."""

    level: Hashable
    alone: str = ""


def has_rights(cluster: Cluster) -> bool:
    """Return whether the order of jobs is a right; the order of submission with its values is none."""
    return cluster.priority is None or cluster.priority.order is not PriorityOrder.SUBMISSION


def right_of(cluster: Cluster, *, qos: str, reservation: str) -> JobRight:
    """Return the right that a job has by its QOS and its reservation. QOS without a known priority differ by name."""
    if reservation:
        return JobRight(0, f"it has the reservation {reservation}")
    known = cluster.qos.get(qos)
    if known is not None and cluster.qos_preempt and known.preempts:
        return JobRight(known.priority, f"jobs of QOS {qos} may stop others")
    if not has_rights(cluster):
        return JobRight(0)
    return JobRight(qos if known is None else known.priority)


def band_widths(percent: int, cluster: Cluster, priorities: Int64) -> BandWidths:
    """Return the widths of bands of so many percent of the range of priorities of one QOS.

    The range is the sum of Slurm's weights but that of QOS. Where no weights are known, it is the usual range of
    `priorities`.
    """
    if percent >= WHOLE_PERCENT or not has_rights(cluster):
        return NO_BANDS
    if cluster.priority is not None and cluster.priority.order is PriorityOrder.MULTIFACTOR:
        weights = cluster.priority.weights
        whole = weights.age + weights.fair_share + weights.job_size + weights.partition
        return BandWidths(whole * percent // WHOLE_PERCENT, weights.fair_share * percent // WHOLE_PERCENT)
    if not len(priorities):
        return NO_BANDS
    low, high = np.percentile(priorities, USUAL_PERCENT)
    return BandWidths(int(high - low) * percent // WHOLE_PERCENT, ANY_DIFFERENCE)


class BandStart(NamedTuple):
    """The first job of a band, and the largest part of fair share of its jobs so far."""

    level: int
    priority: int
    fair_share: int


def begins_band(start: BandStart, job: BandStart, widths: BandWidths) -> bool:
    """Return whether the next job in the site's order begins a band, behind one that begins with `start`.

    The engine compiles this function and `keep_bands` into its kernels.
    """
    return bool(
        job.level == ALONE
        or job.level != start.level
        or start.priority - job.priority > widths.priority
        or start.fair_share - job.fair_share > widths.fair_share
    )


def number_bands(jobs: Iterable[BandStart], widths: BandWidths) -> list[int]:
    """Return the number of the band of each job in the site's order."""
    bands: list[int] = []
    start = None
    for job in jobs:
        if start is None or begins_band(start, job, widths):
            bands.append(bands[-1] + 1 if bands else 0)
            start = job
        else:
            bands.append(bands[-1])
            start = start._replace(fair_share=max(start.fair_share, job.fair_share))
    return bands


def keep_bands(order: Int64, band: Int64, jobs: int) -> None:
    """Put the first `jobs` ranks of an order back into their bands; within each band the order stays.

    `band[rank]` is the number of the band of the job at that rank of the site's order.
    """
    for place in range(1, jobs):
        rank = order[index(place)]
        at = place
        while at > 0 and band[index(order[index(at - 1)])] > band[index(rank)]:
            order[index(at)] = order[index(at - 1)]
            at -= 1
        order[index(at)] = rank


begins_band_part, keep_bands_part = part(begins_band), part(keep_bands)


def ranks_in_bands(ranks: Sequence[int], band: Sequence[int]) -> list[int]:
    """Return the ranks of a policy's order, put back into their bands."""
    order = np.array(ranks, np.int64)
    keep_bands(order, np.array(band, np.int64), len(order))
    return [int(rank) for rank in order]
