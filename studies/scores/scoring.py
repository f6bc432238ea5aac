"""Scores all predictors on price files and job logs, in several processes, and puts them into tables."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.executor import Executor
from sim_backend.sample import SAMPLE_PRICES, SAMPLE_SACCT
from studies.harness import Progress
from studies.report import Report
from studies.scores.log_scores import LogResult, LogTask, log_tables, log_tasks, run_log_task, without_trees
from studies.scores.price_scores import PriceResult, PriceTask, price_tables, price_tasks, run_price_task

TITLE = "Predictors side by side, each answer given before its outcome was known"
PRICE_SUFFIXES = (".csv", ".csv.gz")
LOG_SUFFIXES = (".swf", ".swf.gz", ".gwf", ".gwf.gz", ".txt", ".txt.gz", ".log", ".log.gz")

Task = PriceTask | LogTask
Result = PriceResult | LogResult


@dataclass(frozen=True)
class ScoredFiles:
    """The files to score: named ones, and those in named folders; `start` is for price files without dates."""

    paths: tuple[Path, ...]
    start: str | None = None


def scores(examined: ScoredFiles, executor: Executor, progress: Progress) -> Report:
    """Return the tables of all files.

    Raises BadInput if a named file cannot be read, or a folder has no readable file.
    """
    tasks, left_out = _planned(examined)
    results: dict[int, Result] = {}

    def done(numbered: tuple[int, Task], result: Result) -> None:
        results[numbered[0]] = result
        progress(len(results), len(tasks))

    executor.run(_run, list(enumerate(tasks)), done)
    in_order = [results[number] for number in range(len(tasks))]
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


def _run(numbered: tuple[int, Task]) -> Result:
    task = numbered[1]
    return run_price_task(task) if isinstance(task, PriceTask) else run_log_task(task)


def _files(path: Path) -> list[Path]:
    """Return the path itself, or all price files and logs of the folder and the folders in it."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.endswith((*PRICE_SUFFIXES, *LOG_SUFFIXES)))
    if not found:
        raise BadInput(f"{path}: holds neither price files nor job logs", hint="name .csv, .swf or accounting files")
    return found
