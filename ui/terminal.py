"""Tables and progress bars on a terminal, and the line that names written files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import wrap

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import Progress
from rich.table import Column, Table
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


GAP = 2
LEAST_TEXT = 26
"""Columns of a terminal that the last text of a row needs beside the others; with fewer it goes below them."""
BELOW = "    "


class TextTable(Table):
    """A table of printable texts; on a narrow terminal the columns `spare` are left out, the last first."""

    spare: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads, lines = fitting_lines(self, options.max_width)
        for head in heads:
            yield Text(head, style=str(self.header_style), no_wrap=True, overflow="ignore")
        for line in lines:
            yield Text(line, no_wrap=True, overflow="ignore")


def text_table(
    headers: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    texts: Collection[int] = (0,),
    spare: Iterable[str] = (),
) -> TextTable:
    """Return a table of printable texts; the columns of these numbers are texts, all others figures."""
    table = TextTable(box=None, pad_edge=False, header_style="bold")
    table.spare = tuple(spare)
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number in texts else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def print_table(table: TextTable) -> None:
    """Print a table of texts as wide as the terminal; into a pipe with lines of any length."""
    console = plain_console()
    heads, lines = fitting_lines(table, console.width if console.is_terminal else None)
    for head in heads:
        console.print(Text(head, style=str(table.header_style) if console.is_terminal else ""), soft_wrap=True)
    console.file.write("".join(f"{line}\n" for line in lines))


def fitting_lines(table: TextTable, width: int | None) -> tuple[list[str], list[str]]:
    """Return the header lines and the other lines of a table on a terminal of this width; None for a pipe."""
    header, *lines = table_lines(table)
    if width is None or max(map(cell_len, [header, *lines])) <= width:
        return [header], lines
    return narrow_lines(table, width)


def narrow_lines(table: TextTable, width: int) -> tuple[list[str], list[str]]:
    """Return the headers, in several lines, and the other lines of a table that is wider than a terminal.

    Columns without a value are left out, then the spare ones. If that is not enough, the last text is wrapped.
    """
    columns = [column for column in table.columns if any(map(str, column.cells))] or list(table.columns)
    left_out: list[str] = []
    for name in reversed(table.spare):
        # The last text, which can be wrapped, does not decide what is left out.
        fixed = columns[:-1] if columns[-1].justify == "left" else columns
        if sum(map(_width, fixed)) + GAP * (len(fixed) - 1) <= width:
            break
        if any(column.header == name for column in columns):
            columns = [column for column in columns if column.header != name]
            left_out.insert(0, name)
    text = columns.pop() if columns[-1].justify == "left" and len(columns) > 1 else None
    widths = [_width(column) for column in columns]
    heads = [wrap(str(column.header), size) for column, size in zip(columns, widths, strict=True)]
    height = max(map(len, heads))
    head_rows = [[*[""] * (height - len(head)), *head] for head in heads]
    rights = [column.justify == "right" for column in columns]

    def line(cells: Iterable[str]) -> str:
        return (" " * GAP).join(
            f"{' ' * (size - cell_len(cell))}{cell}" if right else f"{cell}{' ' * (size - cell_len(cell))}"
            for cell, size, right in zip(cells, widths, rights, strict=True)
        )

    headers = [line(cells) for cells in zip(*head_rows, strict=True)]
    rows = [line(map(str, cells)) for cells in zip(*(column.cells for column in columns), strict=True)]
    if text is not None:
        indent = sum(widths) + GAP * len(widths)
        beside = width - indent >= LEAST_TEXT or width - indent >= _width(text)
        start = " " * indent if beside else BELOW
        headers[-1] += f"{' ' * GAP}{text.header}" if beside else ""
        room = max(width - len(start), LEAST_TEXT)
        texts = [wrap(str(cell), room, break_on_hyphens=False) for cell in text.cells]
        for at, words in enumerate(texts):
            first = f"{' ' * GAP}{words.pop(0)}" if beside and words else ""
            rows[at] = "\n".join([f"{rows[at]}{first}".rstrip(), *(f"{start}{word}" for word in words)])
    note = [f"- on a wider terminal: {', '.join(left_out)}"] if left_out else []
    return [head.rstrip() for head in headers], [*(row.rstrip() for row in rows), *note]


def _width(column: Column) -> int:
    """Return the width of a column whose header may stand in several lines."""
    return max(map(cell_len, [*str(column.header).split(), *map(str, column.cells)]))


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
