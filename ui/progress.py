"""The progress bar of a replay: for a person who is watching, on standard error; nothing in pipes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def replay_progress(jobs: int) -> Iterator[Callable[[str, int], None]]:
    """Yield what a comparison tells: policy and jobs submitted so far."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("replaying (the first run compiles the engine)", total=jobs)
        yield lambda policy, submitted: progress.update(bar, description=policy, completed=submitted)
