"""How a study runs: its order, its replays, and the experiments whose results the output folder does not have yet.

The journal has one JSON line for each result. The key of a result names everything that the result depends on: a
result whose key is in the journal is not computed again. Experiments are independent tasks: they run in this process
or in several, and Ctrl-C takes effect between them.
"""

import fcntl
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from offpeak.compiled import ROOT, sources_of
from offpeak.errors import BadInput, CannotWrite, OffpeakError
from offpeak.text import counted
from studies.logs import LogSource, StudyLog, remembered_log
from studies.report import folder_for

Progress = Callable[[int, int], None]
"""Receives how many experiments are done, and how many there are."""


@dataclass(frozen=True)
class StudyOrder:
    """The folder of logs (None: a generated log), the folder for results, and how often each case is replayed.

    `prices` is a price file (None: the bundled one) for the studies that have no tariff of their own, and a folder for
    day-ahead. The number of `processes` does not change any result.
    """

    logs: Path | None
    out: Path
    replays: int
    seed: int
    processes: int
    prices: Path | None = None

    def refuse_logs(self, message: str) -> None:
        """Raise BadInput with that message if the order names a folder of logs."""
        if self.logs is not None:
            raise BadInput(message, hint="leave --logs out")


@dataclass(frozen=True)
class Replays:
    """How often each case is replayed, and the seed of all draws. Replay i of a case draws from the seed (seed, i)."""

    count: int
    seed: int

    def describe_seeds(self) -> str:
        """Return "seeds (1, 0) to (1, 9)"."""
        return f"seeds ({self.seed}, 0) to ({self.seed}, {self.count - 1})"

    def describe(self) -> str:
        """Return "10 replays of each case"."""
        return f"{counted(self.count, 'replay')} of each case"


def result_key(run_module: str, experiment: object, *inputs: object) -> str:
    """Return the key of an experiment's result under the present code of the module that runs it.

    `inputs` are the other inputs of the result: digests of logs and prices, node classes.
    """
    named = repr((experiment, inputs, _code_digest(run_module)))
    return hashlib.sha256(named.encode()).hexdigest()[:24]


@cache
def _code_digest(run_module: str) -> str:
    """Return a digest of a module's source and of all offpeak sources that it imports, kernels included."""
    digest = hashlib.sha256()
    for source in sources_of(module_path(run_module)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def module_path(module: str) -> Path:
    """Return the file of an offpeak module such as "studies.sleeping.run"."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


class ResultJournal(AbstractContextManager["ResultJournal"]):
    """A file that results are appended to; `known` holds the results that it had, by key.

    Raises CannotWrite if it cannot be opened. Each line is written at once, so an interrupt leaves whole lines; the
    rest of a line that a killed process left is dropped.
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

    def add(self, key: str, experiment: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Append the result of an experiment; the file names the experiment for its readers."""
        line = json.dumps({"key": key, "of": experiment, "result": result}) + "\n"
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
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = json.loads(line)
            found[str(entry["key"])] = entry["result"]
        except (ValueError, KeyError, TypeError):
            raise damaged(f"{path}:{number}") from None
    return found


def damaged(where: str) -> BadInput:
    """Return the error of a line that is no result."""
    return BadInput(
        f"{where}: is no result of a study", hint="delete that line, or the file: missing results are computed again"
    )


def _cannot_write(path: Path, problem: OSError) -> CannotWrite:
    hint = f"name a folder that you may write and that has room with --out; try `ls -ld {path.parent}`"
    return CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=hint)


Task = TypeVar("Task")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Task], Result], tasks: Sequence[Task], processes: int, done: Callable[[Task, Result], None]
) -> None:
    """Call `function` on each task, in so many processes, and `done` in this process with each result as it comes.

    Ctrl-C takes effect after the tasks that are running. Raises OffpeakError if a process was killed.
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
        hint = "start the study again: it continues where it stopped; fewer --processes need less memory"
        raise OffpeakError("a process of the study was killed", hint=hint) from problem
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Let processes that start meanwhile ignore Ctrl-C: the terminal sends it to the whole group, and one reacts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


JOURNAL = "results.jsonl"

Experiment = TypeVar("Experiment")


@dataclass(frozen=True)
class Runner(Generic[Experiment, Result]):
    """How an experiment is run, in another process perhaps, and the type of its results.

    `warm_up` compiles the kernels in this process, once, before several processes would each begin to.
    """

    run: Callable[[Experiment], Result]
    result_type: TypeAdapter[Result]
    warm_up: Callable[[], object]


def results_of(
    runner: Runner[Experiment, Result], keys: Mapping[Experiment, str], order: StudyOrder, progress: Progress
) -> Mapping[Experiment, Result]:
    """Return the results of all experiments, from the journal or run now. Raises BadInput, CannotWrite."""
    with ResultJournal(folder_for(order.out) / JOURNAL) as journal:
        results = {
            experiment: _parsed(runner, journal, key) for experiment, key in keys.items() if key in journal.known
        }
        progress(len(results), len(keys))

        def done(experiment: Experiment, result: Result) -> None:
            results[experiment] = result
            journal.add(keys[experiment], asdict(experiment), asdict(result))  # type: ignore[call-overload]
            progress(len(results), len(keys))

        missing = [experiment for experiment in keys if experiment not in results]
        if missing:
            runner.warm_up()
        run_all(runner.run, missing, order.processes, done)
    return results


def _parsed(runner: Runner[Experiment, Result], journal: ResultJournal, key: str) -> Result:
    try:
        return runner.result_type.validate_python(journal.known[key])
    except ValidationError:
        raise damaged(f"{journal.path}: the result of key {key}") from None


class LogExperiment(Protocol):
    """An experiment on the log of that name."""

    @property
    def log(self) -> str:
        """The name of the log."""


OnLog = TypeVar("OnLog", bound=LogExperiment)


@dataclass(frozen=True)
class RunOnLog(Generic[OnLog, Result]):
    """Runs an experiment on the log that it names, in any process."""

    run: Callable[[OnLog, StudyLog], Result]
    logs: Mapping[str, tuple[LogSource, str]]

    @classmethod
    def of(cls, run: Callable[[OnLog, StudyLog], Result], logs: Sequence[StudyLog]) -> "RunOnLog[OnLog, Result]":
        """Return the function for these logs."""
        return cls(run, {log.source.name: (log.source, log.digest) for log in logs})

    def __call__(self, experiment: OnLog) -> Result:
        """Return the result of an experiment. Raises BadInput if its log has been changed."""
        return self.run(experiment, remembered_log(*self.logs[experiment.log]))
