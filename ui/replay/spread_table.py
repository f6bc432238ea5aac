"""The spread of many replays as a table for the terminal: what a difference between policies is worth."""

from collections.abc import Sequence

from rich.table import Table

from sim_backend.replications import ReplicationInterval, ReplicationSpread
from ui.clock_text import clock_text

NOISE = "noise"
COLUMNS = (
    ("saving", "saving_pct"),
    ("mean wait", "mean_wait_s"),
    ("bounded slowdown", "mean_bounded_slowdown"),
    ("idle energy saved", "idle_saved_pct"),
    ("mean delay", "mean_sleep_delay_s"),
)
"""The figures that are shown; the last two only where nodes can sleep."""


def spread_table(spreads: Sequence[ReplicationSpread]) -> Table:
    """Return a row a policy: the mean of each figure, its range, and whether its difference is noise."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", overflow="fold")
    shown = [(header, name) for header, name in COLUMNS if name in spreads[0].figures]
    for header, _ in shown:
        table.add_column(header)
    for spread in spreads:
        is_first = spread is spreads[0]
        table.add_row(spread.policy, *(spread_cell(spread, name, is_first=is_first) for _, name in shown))
    return table


def spread_cell(spread: ReplicationSpread, name: str, *, is_first: bool) -> str:
    """Return the mean and range of a figure; the first policy saves nothing against itself."""
    if is_first and name == "saving_pct":
        return "-"
    text = interval_text(spread.figures[name], name)
    return f"{text} {NOISE}" if not is_first and spread.is_noise(name) else text


def interval_text(interval: ReplicationInterval, name: str) -> str:
    """Return "0.62 (0.51 to 0.70) %"."""
    if name.endswith("_s"):
        return f"{clock_text(interval.mean)} ({clock_text(interval.low)} to {clock_text(interval.high)})"
    unit = " %" if name.endswith("_pct") else ""
    return f"{interval.mean:z,.2f} ({interval.low:z,.2f} to {interval.high:z,.2f}){unit}"


def spread_remark(spreads: Sequence[ReplicationSpread]) -> str:
    """Say what the table shows."""
    return (
        f"{spreads[0].replays} replays with submit times shifted by up to a minute; ranges hold 19 of 20 of them, "
        f"{NOISE} is a difference to {spreads[0].policy} that chance alone can make"
    )
