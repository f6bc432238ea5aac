"""Scores all predictors on price files and job logs, in several processes, and puts them into tables."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from offpeak.display import duration_text
from offpeak.errors import BadInput
from offpeak.executor import Executor
from offpeak.report_tables import Report
from offpeak.sim_backend.sample import SAMPLE_PRICES, SAMPLE_SACCT
from offpeak.ui.forecast.log_scores import LogResult, LogTask, log_tables, log_tasks, run_log_task, without_trees
from offpeak.ui.forecast.price_scores import PriceResult, PriceTask, price_tables, price_tasks, run_price_task

Progress = Callable[[int, int], None]

TITLE = "Predictors side by side, each answer given before its outcome was known"
PRICE_SUFFIXES = (".csv", ".csv.gz")
LOG_SUFFIXES = (".swf", ".swf.gz", ".gwf", ".gwf.gz", ".txt", ".txt.gz", ".log", ".log.gz")

TASK_S = 1.0
"""What each task takes beside its days or jobs."""
WATCHED_S, SILENT_S = 1.0, 60.0
"""How often the progress is read, and after how long without a line there is one with the time left."""

Task = PriceTask | LogTask
Result = PriceResult | LogResult


@dataclass(frozen=True)
class ScoredFiles:
    """The files to score: named ones, and those in named folders; `start` is for price files without dates.

    What is not scored within `budget_s` is left out.
    """

    paths: tuple[Path, ...]
    start: str | None = None
    budget_s: float | None = None


def scores(
    examined: ScoredFiles, executor: Executor, progress: Progress, notify: Callable[[str], None] = lambda _: None
) -> Report:
    """Return the tables of all files.

    `progress` is called with the expected processor time [s] that is done, and that of all tasks; `notify` with a line
    for each result as it comes, and with the time left if there is none for a minute. Raises BadInput if a named file
    cannot be read, or a folder has no readable file.
    """
    begin_s = time.monotonic()
    tasks, left_out = _planned(examined)
    results: dict[int, Result] = {}
    numbered = list(enumerate(tasks))
    if examined.budget_s is not None:
        numbered.sort(key=lambda each: each[1].expected_s)
    until_s = float("inf") if examined.budget_s is None else begin_s + examined.budget_s
    with TemporaryDirectory(prefix="offpeak-") as folder:
        shares = Path(folder) / "shares"
        lines = _ScoringLines(tasks, shares, notify)

        def done(task: tuple[int, Task], result: Result | None) -> None:
            number, _ = task
            if result is not None:
                results[number] = result
                lines.add(number, result)

        with _repeating(lambda: lines.watch(progress)):
            executor.run(partial(_run, shares, until_s), numbered, done)
    in_order = [results[number] for number in sorted(results)]
    if unscored := [task for number, task in enumerate(tasks) if number not in results]:
        names = "; ".join(task.text for task in unscored)
        left_out = (*left_out, f"left out, not scored within {duration_text(examined.budget_s or 0.0)}: {names}")
    prices = [result for result in in_order if isinstance(result, PriceResult)]
    logs = [result for result in in_order if isinstance(result, LogResult)]
    tables = (*(price_tables(prices) if prices else ()), *(log_tables(logs) if logs else ()))
    return Report(TITLE, (*left_out, *(without_trees() if logs else ())), tables, {})


def _planned(examined: ScoredFiles) -> tuple[list[Task], tuple[str, ...]]:
    """Return the tasks, and notes on files in folders that were left out."""
    tasks: list[Task] = []
    left_out: list[str] = []
    for path in examined.paths or (SAMPLE_PRICES, SAMPLE_SACCT):
        for file in _files(path):
            try:
                tasks += price_tasks(file, examined.start) if file.name.endswith(PRICE_SUFFIXES) else log_tasks(file)
            except BadInput as problem:
                if not path.is_dir():
                    raise
                left_out.append(f"left out: {problem}")
    if not tasks:
        raise BadInput(left_out[0], hint="name a price file or a job log")
    return tasks, tuple(left_out)


class _ScoringLines:
    """The lines about a run: results, and the time left by the tasks' shares, which their processes write to a file."""

    def __init__(self, tasks: Sequence[Task], file: Path, notify: Callable[[str], None]) -> None:
        self._expected_s = np.array([task.expected_s for task in tasks]) + TASK_S
        self._shares = np.memmap(file, np.float64, "w+", shape=len(tasks))
        self._notify, self._results = notify, 0
        self._begin_s = self._last_line_s = time.monotonic()

    def add(self, number: int, result: Result) -> None:
        """Write the line of a result."""
        self._results += 1
        self._shares[number] = 1.0
        self._write(f"{result.text} ({self._state()})")

    def watch(self, progress: Progress) -> None:
        """Report the progress, and write a line if there has been none for a minute."""
        progress(round(float(self._shares @ self._expected_s)), round(float(self._expected_s.sum())))
        if time.monotonic() - self._last_line_s > SILENT_S:
            self._write(self._state())

    def _state(self) -> str:
        state = f"{self._results} of {len(self._shares)}"
        share = float(self._shares @ self._expected_s / self._expected_s.sum())
        if self._results == len(self._shares) or not share:
            return state
        return f"{state}, about {duration_text((time.monotonic() - self._begin_s) * (1 / share - 1))} left"

    def _write(self, line: str) -> None:
        self._last_line_s = time.monotonic()
        self._notify(line)


@contextmanager
def _repeating(call: Callable[[], None]) -> Iterator[None]:
    """Call it each second during the block, in another thread."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(WATCHED_S):
            call()

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _OutOfTime(Exception):
    """The budget is spent."""


def _run(file: Path, until_s: float, numbered: tuple[int, Task]) -> Result | None:
    """Return the result of the task, and write meanwhile into the file which share of it is done.

    Return None if it is not done at `until_s` by the clock that all processes of the machine have.
    """
    number, task = numbered
    shares = np.memmap(file, np.float64, "r+")

    def progress(share: float) -> None:
        if time.monotonic() > until_s:
            raise _OutOfTime
        shares[number] = share

    try:
        progress(0.0)
        return run_price_task(task, progress) if isinstance(task, PriceTask) else run_log_task(task, progress)
    except _OutOfTime:
        return None


def _files(path: Path) -> list[Path]:
    """Return the path itself, or all price files and logs of the folder and the folders in it."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.endswith((*PRICE_SUFFIXES, *LOG_SUFFIXES)))
    if not found:
        raise BadInput(f"{path}: holds neither price files nor job logs", hint="name .csv, .swf or accounting files")
    return found
