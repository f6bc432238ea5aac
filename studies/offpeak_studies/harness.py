"""How a study runs: its order, its replays, and the experiments whose results the output folder does not have yet.

The journal has one JSON line for each result. The key of a result names everything that the result depends on: a
result whose key is in the journal is not computed again. Experiments are independent tasks of an executor.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from offpeak.compiled import module_folder, sources_of
from offpeak.errors import BadInput, CannotWrite
from offpeak.executor import Executor
from offpeak.files import replacing
from offpeak.report_tables import folder_for
from offpeak.text import counted
from offpeak_studies.logs import StudyLog

Progress = Callable[[int, int], None]
"""Receives how many experiments are done, and how many there are."""


@dataclass(frozen=True)
class StudyOrder:
    """The folder of logs (None: a generated log), the folder for results, and how often each case is replayed.

    `prices` is a price file (None: the bundled one) for the studies that have no tariff of their own, and a folder for
    day-ahead. `search_s` is the time of a search for a plan, None for the study's own. The `executor` does not change
    any result.
    """

    logs: Path | None
    out: Path
    replays: int
    seed: int
    executor: Executor
    prices: Path | None = None
    search_s: float | None = None


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
    """Return the file of an offpeak module such as "offpeak_studies.sleeping.run"."""
    return module_folder(module.split(".")).with_suffix(".py")


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

    def arrange(self, keys: Iterable[str]) -> None:
        """Put the results of these keys last and in that order, so that the file is the same wherever they ran."""
        self._file.seek(0)
        lines = {str(json.loads(line)["key"]): line for line in self._file}
        own = dict.fromkeys(keys)
        arranged = [*(key for key in lines if key not in own), *own]
        if arranged != list(lines):
            with replacing(self.path) as file:
                file.write(b"".join(lines[key] for key in arranged))

    def __exit__(self, *_: object) -> None:
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


Result = TypeVar("Result")

JOURNAL = "results.jsonl"

Experiment = TypeVar("Experiment")


@dataclass(frozen=True)
class Runner(Generic[Experiment, Result]):
    """How an experiment is run, on another machine perhaps, and the type of its results."""

    run: Callable[[Experiment], Result]
    result_type: TypeAdapter[Result]


def results_of(
    runner: Runner[Experiment, Result], keys: Mapping[Experiment, str], order: StudyOrder, progress: Progress
) -> Mapping[Experiment, Result]:
    """Return the results in the order of the experiments, from the journal or run now. Raises BadInput, CannotWrite."""
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
        order.executor.run(runner.run, missing, done)
        journal.arrange(keys.values())
    return {experiment: results[experiment] for experiment in keys}


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
    """Runs an experiment on the log that it names, on any machine: the logs travel with it."""

    run: Callable[[OnLog, StudyLog], Result]
    logs: Mapping[str, StudyLog]

    @classmethod
    def of(cls, run: Callable[[OnLog, StudyLog], Result], logs: Sequence[StudyLog]) -> "RunOnLog[OnLog, Result]":
        """Return the function for these logs."""
        return cls(run, {log.source.name: log for log in logs})

    def __call__(self, experiment: OnLog) -> Result:
        """Return the result of an experiment."""
        return self.run(experiment, self.logs[experiment.log])
