"""Writes a study's report into a folder: one Markdown page, a CSV file a table, an SVG file a figure."""

import csv
import io
from pathlib import Path

from offpeak.errors import CannotWrite
from offpeak.files import replacing
from studies.report import Cell, Range, Report, Table, cell_text

PAGE = "study.md"


def folder_for(out: Path) -> Path:
    """Return the folder, made if there is none. CannotWrite if that fails."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(
            f"{out}: cannot be made: {problem.strerror}", hint="name a folder that you may write"
        ) from problem
    return out


def write_report(report: Report, out: Path) -> None:
    """Write the page, the tables and the figures; each file is there as a whole or not at all."""
    texts = {PAGE: markdown(report)} | {f"{table.name}.csv": csv_text(table) for table in report.tables}
    for name, text in (texts | dict(report.figures)).items():
        with replacing(out / name) as file:
            file.write(text.encode())


def markdown(report: Report) -> str:
    """Return the report as a page of Markdown."""
    notes = "".join(f"- {note}\n" for note in report.notes)
    figures = "".join(f"![{name.removesuffix('.svg')}]({name})\n\n" for name in report.figures)
    return f"# {report.title}\n\n{notes}\n{figures}" + "\n".join(markdown_table(table) for table in report.tables)


def markdown_table(table: Table) -> str:
    """Return a table with its title and note as Markdown."""
    lines = [table.headers, ("---",) * len(table.headers), *(tuple(map(cell_text, row)) for row in table.rows)]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## {table.title}\n\n{table.note}\n\n{rows}\n"


def csv_text(table: Table) -> str:
    """Return a table as CSV; a figure with a range takes three columns: its mean, low and high."""
    ranged = [any(isinstance(row[at], Range) for row in table.rows) for at in range(len(table.headers))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in (table.headers, *table.rows):
        writer.writerow([part for cell, wide in zip(line, ranged, strict=True) for part in _parts(cell, wide=wide)])
    return text.getvalue()


def _parts(cell: Cell, *, wide: bool) -> tuple[object, ...]:
    if isinstance(cell, Range):
        return f"{cell.mean:z.4f}", f"{cell.low:z.4f}", f"{cell.high:z.4f}"
    if not wide:
        return (cell,)
    return (cell, f"{cell} low", f"{cell} high") if isinstance(cell, str) else (cell, None, None)
