"""The tables of a study on a terminal."""

from rich.console import Console
from rich.table import Table as RichTable

from studies.report import Report, StudyTable, cell_text

FILE_WIDTH = 400


def print_report(report: Report) -> None:
    """Print title, notes and tables; into a pipe without breaking lines."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(report.title, style="bold")
    for note in report.notes:
        console.print(note)
    for table in report.tables:
        _print_table(console, table)


def _print_table(console: Console, table: StudyTable) -> None:
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for header in table.headers:
        shown.add_column(header, vertical="bottom")
    for row in table.rows:
        shown.add_row(*map(cell_text, row))
    console.print()
    console.print(table.title, style="bold")
    console.print(table.note)
    console.print(shown)
