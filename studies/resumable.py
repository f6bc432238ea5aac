"""Runs the experiments of a study whose results the output folder does not have yet, and keeps each result as it
comes.

The journal has one JSON line for each result: a result that is in the file is not run again. Experiments are
independent tasks: they run in this process or in several, and Ctrl-C takes effect between them.
"""

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, TypeVar

from offpeak.errors import BadInput, CannotWrite, OffpeakError
from studies.report import folder_for

Progress = Callable[[int, int], None]
"""Is told how many replays are done, and of how many."""


@dataclass(frozen=True)
class StudyOrder:
    """The folder of logs (None: a generated one), the folder for results, and how often each case is replayed.

    Replay number i of a case draws its chances from the seed (seed, i), whatever the number of `processes`. `prices` is
    a price file, None the bundled one, for studies that have no tariff of their own; for day-ahead a folder.
    """

    logs: Path | None
    out: Path
    replays: int
    seed: int
    processes: int
    prices: Path | None = None


class ResultJournal(AbstractContextManager["ResultJournal"]):
    """A file that results are appended to; `known` are those that it had, by key. CannotWrite if it cannot be opened.

    A line is written at once, so an interrupt leaves whole lines. What a killed process left of a line is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("a+b")
        except OSError as problem:
            raise _cannot_write(path, problem) from problem
        try:
            _lock(self._file, path)
            self.known: Mapping[str, Any] = _known(path, _whole_lines(self._file))
        except BaseException as problem:
            self._file.close()
            if isinstance(problem, OSError):
                raise _cannot_write(path, problem) from problem
            raise

    def add(self, key: str, told: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Append a result; `told` says in the file, to a reader, what it is the result of."""
        line = json.dumps({"key": key, "of": told, "result": result}) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as problem:
            raise _cannot_write(self.path, problem) from problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other studies out until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait for it, or name another folder with --out"
        raise CannotWrite(f"{path}: another study writes to it", hint=hint) from None


def _whole_lines(file: BinaryIO) -> bytes:
    """Return the lines that end, and cut off the file what follows them."""
    file.seek(0)
    text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    file.truncate(len(whole))
    file.seek(0, os.SEEK_END)
    return whole


def _known(path: Path, text: bytes) -> dict[str, Any]:
    return dict(_entry(f"{path}:{number}", line) for number, line in enumerate(text.splitlines(), start=1))


def _entry(where: str, line: bytes) -> tuple[str, Any]:
    try:
        entry = json.loads(line)
        return str(entry["key"]), entry["result"]
    except (ValueError, KeyError, TypeError):
        raise damaged(where) from None


def damaged(where: str) -> BadInput:
    """Return the error of a line that is no result."""
    return BadInput(
        f"{where}: is no result of a study", hint="delete that line, or the file: what is missing is run again"
    )


def _cannot_write(path: Path, problem: OSError) -> CannotWrite:
    hint = f"name a folder that you may write and that has room with --out; try `ls -ld {path.parent}`"
    return CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=hint)


Task = TypeVar("Task")
Answer = TypeVar("Answer")


def run_all(
    function: Callable[[Task], Answer], tasks: Sequence[Task], processes: int, done: Callable[[Task, Answer], None]
) -> None:
    """Call `function` on each task, in so many processes, and `done` here with each answer as it comes.

    Ctrl-C ends it after the tasks that are under way. OffpeakError if a process was killed.
    """
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            done(task, function(task))
        return
    # Fresh processes: one that is forked may inherit a lock of numba's or pyarrow's threads.
    pool = ProcessPoolExecutor(min(processes, len(tasks)), mp_context=get_context("spawn"))
    try:
        with _ctrl_c_ignored():
            futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            done(futures[future], future.result())
    except BrokenProcessPool as problem:
        hint = "start it again, it goes on where it stopped; fewer --processes need less memory"
        raise OffpeakError("a process of the study was killed", hint=hint) from problem
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Let processes that start meanwhile inherit deafness to Ctrl-C, which reaches the whole group: one hears it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


JOURNAL = "results.jsonl"

Experiment = TypeVar("Experiment")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Runner(Generic[Experiment, Result]):
    """How an experiment is run, in another process perhaps, and how its result is read from what was kept of it.

    `parse` raises KeyError, TypeError or AttributeError for what is no result. `warm_up` compiles the kernels here,
    once, before several processes would each begin to.
    """

    answer: Callable[[Experiment], Result]
    parse: Callable[[Mapping[str, Any]], Result]
    warm_up: Callable[[], object]


def results_of(
    runner: Runner[Experiment, Result], keys: Mapping[Experiment, str], order: StudyOrder, progress: Progress
) -> Mapping[Experiment, Result]:
    """Return the results of all experiments, by key known from before or run now. BadInput, CannotWrite."""
    with ResultJournal(folder_for(order.out) / JOURNAL) as journal:
        results = {each: _parsed(runner, journal, key) for each, key in keys.items() if key in journal.known}
        progress(len(results), len(keys))

        def done(experiment: Experiment, result: Result) -> None:
            results[experiment] = result
            journal.add(keys[experiment], asdict(experiment), asdict(result))  # type: ignore[call-overload]
            progress(len(results), len(keys))

        missing = [experiment for experiment in keys if experiment not in results]
        if missing:
            runner.warm_up()
        run_all(runner.answer, missing, order.processes, done)
    return results


def _parsed(runner: Runner[Experiment, Result], journal: ResultJournal, key: str) -> Result:
    try:
        return runner.parse(journal.known[key])
    except (KeyError, TypeError, AttributeError):
        raise damaged(f"{journal.path}: the result of key {key}") from None
