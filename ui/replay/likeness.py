"""The partitions of a log as a table, and how near the baseline's replay is to the log, in sentences and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from offpeak.display import duration_text
from offpeak.sim_backend.comparison.likeness import Likeness, PartitionUse
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import ReplicationSpread
from offpeak.ui.replay.tables import NOT_SIGNIFICANT
from offpeak.ui.terminal import TextTable, text_table

UNKNOWN = "-"
MOST_ROWS = 40
"""Partitions with a row of their own; of more the smallest share one."""
NOT_CLAIMED = "No saving is claimed: the replay is not close enough to what happened."
MOST_POLICIES = 4
"""So many columns of policies fit beside those of the log."""

PartitionWaits = Mapping[str, Mapping[str, str]]
"""The mean waits under each policy, by partition, as text."""


def replayed_waits(outcomes: Sequence[PolicyOutcome], spreads: Sequence[ReplicationSpread]) -> PartitionWaits:
    """Return the mean waits in many replays if there are `spreads`, else in one; those of other policies as not
    significant if chance alone can make their difference to the baseline.

    Nothing is returned for more policies than the table has room for.
    """
    if max(len(outcomes), len(spreads)) > MOST_POLICIES:
        return {}
    if not spreads:
        return {each.policy: {name: duration_text(s) for name, s in each.partition_wait_s.items()} for each in outcomes}
    return {each.policy: _spread_waits(each, is_baseline=each is spreads[0]) for each in spreads}


def _spread_waits(spread: ReplicationSpread, *, is_baseline: bool) -> dict[str, str]:
    change_s = spread.partition_wait_change_s
    return {
        name: NOT_SIGNIFICANT if change_s[name].has_either_sign and not is_baseline else duration_text(wait_s.middle)
        for name, wait_s in spread.partition_wait_s.items()
    }


def partition_table(uses: Sequence[PartitionUse], waits: PartitionWaits) -> TextTable:
    """Return a row for each partition: its jobs, what they used, their mean wait by the log, and that of replays."""
    gpus = ["GPU-hours"] if any(use.gpu_hours for use in uses) else []
    headers = (
        "partition",
        "jobs",
        "node-hours",
        *gpus,
        "utilization",
        "mean wait",
        *(f"under {each}" for each in waits),
    )
    rows = [
        (
            *(use.partition, f"{use.jobs:,}", f"{use.node_hours:,.0f}"),
            *(UNKNOWN if use.gpu_hours is None else f"{use.gpu_hours:,.0f}" for _ in gpus),
            _utilization_text(use),
            UNKNOWN if use.mean_wait_s is None else duration_text(use.mean_wait_s),
            *(of_policy.get(use.partition, UNKNOWN) for of_policy in waits.values()),
        )
        for use in _largest(uses)
    ]
    return text_table(headers, rows, spare=(*gpus, "node-hours", "utilization"))


def _largest(uses: Sequence[PartitionUse]) -> Sequence[PartitionUse]:
    """Return the partitions with the most node-hours in their order, and the sum of the others as one."""
    if len(uses) <= MOST_ROWS:
        return uses
    by_size = sorted(uses, key=lambda use: -use.node_hours)
    kept, others = frozenset(use.partition for use in by_size[: MOST_ROWS - 1]), by_size[MOST_ROWS - 1 :]
    jobs = sum(use.jobs for use in others)
    waits = [use.mean_wait_s * use.jobs for use in others if use.mean_wait_s is not None]
    rest = PartitionUse(
        partition=f"{len(others)} others",
        jobs=jobs,
        node_hours=sum(use.node_hours for use in others),
        gpu_hours=sum(use.gpu_hours or 0.0 for use in others),
        utilization=None,
        replayed_utilization=None,
        use_difference=None,
        mean_wait_s=sum(waits) / jobs if len(waits) == len(others) else None,
    )
    return (*(use for use in uses if use.partition in kept), rest)


def _utilization_text(use: PartitionUse) -> str:
    if use.utilization is None:
        return UNKNOWN
    return f"{100 * use.utilization:.1f} %{' of GPUs' if use.counts_gpus else ''}"


def difference_lines(likeness: Likeness | None) -> tuple[str, ...]:
    """Return what besides the mean wait keeps the replay from being near the log."""
    return () if likeness is None else likeness.differences


def order_text(likeness: Likeness | None) -> str:
    """Return how near the order of starts is, as the end of a sentence; "" where it is unknown."""
    if likeness is None or likeness.start_order is None:
        return ""
    order = f"{likeness.start_order:.2f}"
    return f"; the order in which a day's jobs start correlates {order} with that of the log (1: the same order)"


def likeness_json(likeness: Likeness | None) -> dict[str, Any] | None:
    """Return the figures as an object, without those of the partitions; None where no start is logged."""
    if likeness is None:
        return None
    return {
        **{name: value for name, value in asdict(likeness).items() if name != "partitions"},
        "is_near": likeness.is_near,
    }
