"""`offpeak study`: re-run a published experiment and put our figures beside the published ones."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from studies.report import Table

FILE_WIDTH = 400


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="The study: dynamic-pricing, online-simulation, price-capacity, sleeping or energy-carbon."
        ),
    ],
    part: Annotated[str | None, typer.Option(help="Part of energy-carbon: single-site.")] = None,
    logs: Annotated[
        Path | None, typer.Option(help="Folder of logs, .swf or .swf.gz; without one a generated log is used.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="CSV file of prices, for price-capacity; without one the bundled year is used.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables, figures and what is finished [default: the study's name].")
    ] = None,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each case, each with its own chances.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all chances: the same seed gives the same tables.")] = 1,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to run in [default: one a processor].")
    ] = None,
) -> None:
    """Re-run a published experiment beside its own figures; price-capacity asks whether fewer nodes in dear hours pay.

    What is interrupted goes on where it stopped.
    """
    # What is imported here loads numba and pyarrow, which `offpeak --version` must not wait for.
    from rich.console import Console

    from studies.order import Order
    from studies.registry import study_named
    from studies.write import write_report

    chosen = study_named(name, part)
    order = Order(logs, out or Path(name, part or ""), replays, seed, processes or len(os.sched_getaffinity(0)), prices)
    with _progress() as progress:
        report = chosen(order, progress)
    write_report(report, order.out)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(report.title, style="bold")
    for note in report.notes:
        console.print(note)
    for table in report.tables:
        _print_table(console, table)
    console.print(f"written to {order.out}: study.md, tables as CSV, {', '.join(report.figures)}")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Yield what a study tells: how many replays are done, and of how many. A bar on a terminal, nothing in pipes."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("replaying (the first run compiles the engine)", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _print_table(console: "Console", table: "Table") -> None:
    from rich.table import Table as RichTable

    from studies.report import cell_text

    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for header in table.headers:
        shown.add_column(header, vertical="bottom")
    for row in table.rows:
        shown.add_row(*map(cell_text, row))
    console.print()
    console.print(table.title, style="bold")
    console.print(table.note)
    console.print(shown)
