"""Progress bars on a terminal, and the line that names written files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from offpeak.files import replacing

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
