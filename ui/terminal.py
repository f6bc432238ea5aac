"""Tables and progress bars on a terminal, and the line that names written files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from offpeak.display import NOT_WRAPPED
from offpeak.files import replacing
from offpeak.text import printable


def plain_console() -> Console:
    """Return a console for text without markup; into a pipe it breaks no lines."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    return console


MANY = 200
"""Rows of a table that a terminal shows without wrapping its cells: laying them out would take seconds."""


def text_table(headers: Iterable[str], rows: Iterable[Iterable[str]], *, texts: Collection[int] = (0,)) -> Table:
    """Return a table of printable texts; the columns of these numbers are texts, all others figures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number in texts else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def print_table(table: Table) -> None:
    """Print a table of texts; with lines of any length if it is long or goes into a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    header, *lines = table_lines(table)
    if console.is_terminal and len(lines) <= MANY:
        console.print(table)
        return
    console.print(Text(header, style=str(table.header_style) if console.is_terminal else ""), soft_wrap=True)
    console.file.write("".join(f"{line}\n" for line in lines))


def table_lines(table: Table) -> list[str]:
    """Return the table as lines, the header first: columns as wide as their widest cell, two spaces apart."""
    columns = []
    for column in table.columns:
        cells = [str(column.header), *map(str, column.cells)]
        lengths = [len(cell) if cell.isascii() else cell_len(cell) for cell in cells]
        width, right = max(lengths), column.justify == "right"
        fill = [" " * (width - length) for length in lengths]
        columns.append(
            [f"{space}{cell}" if right else f"{cell}{space}" for space, cell in zip(fill, cells, strict=True)]
        )
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


REPLAYING = "replaying (the first run compiles the engine)"
AN_HOUR_S = 3600
"""The time left follows from the tasks of the last hour: some take minutes."""


def say_written(*paths: Path, as_json: bool = False) -> None:
    """Print which files were written, on standard error if standard output is for a program."""
    of_disk = [path for path in paths if path.is_file()]
    if of_disk:
        typer.echo(f"written: {', '.join(map(str, of_disk))}", err=as_json or len(of_disk) < len(paths))


def write_files(contents: Mapping[Path | None, Callable[[], bytes]]) -> None:
    """Write the files that are named, each whole or not at all, and print which."""
    named = {path: content for path, content in contents.items() if path}
    for path, content in named.items():
        with replacing(path) as file:
            file.write(content())
    say_written(*named)


@contextmanager
def replay_progress(jobs: int) -> Iterator[Callable[[str, int], None]]:
    """Yield the callback of a comparison: policy and number of submitted jobs."""
    with _bar(jobs) as update:
        yield lambda policy, submitted: update(description=policy, completed=submitted)


@contextmanager
def repeat_progress(replays: int) -> Iterator[Callable[[int], None]]:
    """Yield the callback of repeated replays: number of completed replays."""
    with _bar(replays) as update:
        yield lambda done: update(description=f"replay {done} of {replays}", completed=done)


@contextmanager
def task_progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """Yield the callback of a set of tasks: number of completed tasks, and total."""
    with _bar(None, description) as update:
        yield lambda done, total: update(completed=done, total=total)


@contextmanager
def _bar(total: int | None, description: str = REPLAYING) -> Iterator[Callable[..., None]]:
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=AN_HOUR_S
    ) as progress:
        bar = progress.add_task(description, total=total)
        yield partial(progress.update, bar)
