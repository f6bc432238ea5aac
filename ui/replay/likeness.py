"""The partitions of a log as a table, and how near the baseline's replay is to the log, in sentences and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from offpeak.display import clock_text
from sim_backend.comparison.likeness import Likeness, PartitionUse

UNKNOWN = "-"
NOT_CLAIMED = "No saving is claimed: the replay is not near enough to what happened."


def partition_table(uses: Sequence[PartitionUse]) -> Table:
    """Return a row for each partition: its jobs, what they used, and their mean wait, by the log."""
    has_gpus = any(use.gpu_hours for use in uses)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("partition")
    for header in ("jobs", "node-hours", *(["GPU-hours"] if has_gpus else []), "utilization", "mean wait"):
        table.add_column(header, justify="right")
    for use in uses:
        gpu_hours = UNKNOWN if use.gpu_hours is None else f"{use.gpu_hours:,.0f}"
        table.add_row(
            use.partition,
            f"{use.jobs:,}",
            f"{use.node_hours:,.0f}",
            *([gpu_hours] if has_gpus else []),
            _utilization_text(use),
            UNKNOWN if use.mean_wait_s is None else clock_text(use.mean_wait_s),
        )
    return table


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
    return f"; the order in which a day's jobs start correlates {likeness.start_order:.2f} with that of the log"


def likeness_json(likeness: Likeness | None) -> dict[str, Any] | None:
    """Return the figures as an object, without those of the partitions; None where no start is logged."""
    if likeness is None:
        return None
    return {
        **{name: value for name, value in asdict(likeness).items() if name != "partitions"},
        "is_near": likeness.is_near,
    }
