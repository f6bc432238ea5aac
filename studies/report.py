"""What a study comes to: tables and figures, as values that can be printed or written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A figure over several replays: its mean, and the lowest and the highest of them."""

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


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it: "1.06 (0.98 to 1.13)"."""
    if cell is None:
        return ""
    if isinstance(cell, Range):
        if cell.low == cell.high:
            return cell_text(cell.mean)
        return f"{cell.mean:z.2f} ({cell.low:z.2f} to {cell.high:z.2f})"
    return f"{cell:z.2f}" if isinstance(cell, float) else cell
