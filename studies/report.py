"""What a study comes to: tables and figures, as values that can be printed or written."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A figure over several replays: its mean, and either the lowest and the highest or an interval around it."""

    mean: float
    low: float
    high: float


Cell = str | float | Range | None
"""A cell of a table; None where there is nothing to say."""


@dataclass(frozen=True)
class Table:
    """Rows below headers. `name` is that of its file; `note` says in a sentence or two how to read it."""

    name: str
    title: str
    note: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Report:
    """A study's answer. `notes` say what it rests on; `figures` are SVG texts by file name."""

    title: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]
    figures: Mapping[str, str]


def range_of(values: Sequence[float]) -> Range:
    """Return mean, lowest and highest of one value a replay."""
    return Range(sum(values) / len(values), min(values), max(values))


STUDENT_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Two-sided 95 % quantiles of Student's t by degrees of freedom from 1 on; the last serves beyond."""


def confidence_of(values: Sequence[float]) -> Range:
    """Return the mean of one value a replay with its 95 % confidence interval, by Student's t; of one, that alone."""
    mean, count = statistics.fmean(values), len(values)
    if count == 1:
        return Range(mean, mean, mean)
    student = STUDENT_95[min(count - 2, len(STUDENT_95) - 1)]
    half = student * statistics.stdev(values) / count**0.5
    return Range(mean, mean - half, mean + half)


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it: "1.06 (0.98 to 1.13)"."""
    if cell is None:
        return ""
    if isinstance(cell, Range):
        if cell.low == cell.high:
            return cell_text(cell.mean)
        return f"{cell.mean:z.2f} ({cell.low:z.2f} to {cell.high:z.2f})"
    return f"{cell:z.2f}" if isinstance(cell, float) else cell
