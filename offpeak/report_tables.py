"""Tables of a report as values, with ranges in their cells, and the folder that a report is written into."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import CannotWrite


@dataclass(frozen=True)
class Range:
    """A figure over several replays: its mean, and either the lowest and the highest or an interval around it."""

    mean: float
    low: float
    high: float


TableCell = str | float | Range | None
"""A cell of a table; None for an empty cell."""


@dataclass(frozen=True)
class StudyTable:
    """A table: rows below headers. `name` is the name of its file; `note` says in a sentence or two how to read it."""

    name: str
    title: str
    note: str
    headers: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]


@dataclass(frozen=True)
class Report:
    """The report of a study. `notes` have its assumptions; `figures` are SVG texts by file name."""

    title: str
    notes: tuple[str, ...]
    tables: tuple[StudyTable, ...]
    figures: Mapping[str, str]


def cell_text(cell: TableCell) -> str:
    """Return a cell for people: "1.06 (0.98 to 1.13)"."""
    if cell is None:
        return ""
    if isinstance(cell, Range):
        if cell.low == cell.high:
            return cell_text(cell.mean)
        return f"{cell.mean:z.2f} ({cell.low:z.2f} to {cell.high:z.2f})"
    return f"{cell:z.2f}" if isinstance(cell, float) else cell


def folder_for(out: Path) -> Path:
    """Return the folder, which is made if it does not exist. Raises CannotWrite if that fails."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(
            f"{out}: cannot be made: {problem.strerror}", hint="name a folder that you may write"
        ) from problem
    return out
