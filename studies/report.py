"""The report of a study: tables and figures as values, and how they are written into a folder.

The folder receives one Markdown page, a CSV file for each table and an SVG file for each figure.
"""

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offpeak.errors import CannotWrite
from offpeak.files import replacing
from sim_backend.comparison.replications import STUDENT_95

Result = TypeVar("Result")


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


def range_of(values: Sequence[float]) -> Range:
    """Return mean, lowest and highest of one value per replay."""
    return Range(sum(values) / len(values), min(values), max(values))


def confidence_of(values: Sequence[float]) -> Range:
    """Return the mean of one value per replay with its 95 % confidence interval, by Student's t; of one, itself."""
    mean, count = statistics.fmean(values), len(values)
    if count == 1:
        return Range(mean, mean, mean)
    student = STUDENT_95[min(count - 2, len(STUDENT_95) - 1)]
    half = student * statistics.stdev(values) / count**0.5
    return Range(mean, mean - half, mean + half)


def less_pct(of: Iterable[Result], than: Iterable[Result], figure: Callable[[Result], float]) -> Range:
    """Return by how much per cent a figure is lower than in another case: of replays with the same draws, in pairs."""
    pairs = zip(of, than, strict=False)
    return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in pairs])


def column_means(columns: Iterable[Sequence[float | None]]) -> list[float | None]:
    """Return the mean of each place of the replays' columns, None if a replay has no value there."""
    return [None if None in values else statistics.fmean(values) for values in zip(*columns, strict=True)]


def cell_text(cell: TableCell) -> str:
    """Return a cell for people: "1.06 (0.98 to 1.13)"."""
    if cell is None:
        return ""
    if isinstance(cell, Range):
        if cell.low == cell.high:
            return cell_text(cell.mean)
        return f"{cell.mean:z.2f} ({cell.low:z.2f} to {cell.high:z.2f})"
    return f"{cell:z.2f}" if isinstance(cell, float) else cell


PAGE = "study.md"


def folder_for(out: Path) -> Path:
    """Return the folder, which is made if it does not exist. Raises CannotWrite if that fails."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(
            f"{out}: cannot be made: {problem.strerror}", hint="name a folder that you may write"
        ) from problem
    return out


def write_report(report: Report, out: Path) -> None:
    """Write the page, the tables and the figures; each file is written as a whole or not at all."""
    texts = {PAGE: markdown(report)} | {f"{table.name}.csv": csv_text(table) for table in report.tables}
    for name, text in (texts | dict(report.figures)).items():
        with replacing(out / name) as file:
            file.write(text.encode())


def markdown(report: Report) -> str:
    """Return the report as a page of Markdown."""
    notes = "".join(f"- {note}\n" for note in report.notes)
    figures = "".join(f"![{name.removesuffix('.svg')}]({name})\n\n" for name in report.figures)
    return f"# {report.title}\n\n{notes}\n{figures}" + "\n".join(markdown_table(table) for table in report.tables)


def markdown_table(table: StudyTable) -> str:
    """Return a table with its title and note as Markdown."""
    lines = [table.headers, ("---",) * len(table.headers), *(tuple(map(cell_text, row)) for row in table.rows)]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## {table.title}\n\n{table.note}\n\n{rows}\n"


def csv_text(table: StudyTable) -> str:
    """Return a table as CSV; a figure with a range takes three columns: its mean, low and high."""
    ranged = [any(isinstance(row[at], Range) for row in table.rows) for at in range(len(table.headers))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in (table.headers, *table.rows):
        writer.writerow([part for cell, wide in zip(line, ranged, strict=True) for part in _parts(cell, wide=wide)])
    return text.getvalue()


def _parts(cell: TableCell, *, wide: bool) -> tuple[object, ...]:
    if isinstance(cell, Range):
        return f"{cell.mean:z.4f}", f"{cell.low:z.4f}", f"{cell.high:z.4f}"
    if not wide:
        return (cell,)
    return (cell, f"{cell} low", f"{cell} high") if isinstance(cell, str) else (cell, None, None)
