"""The budget of a run of the tests: `--budget LOOPS` fails a run that takes more processor time.

The unit is a fixed loop that each process of the run measures at its begin and at its end, so that neither a slow
machine nor a busy one changes the figure much. Programs that tests start count once they have ended. `--times FILE`
writes what each folder took, which is the table of docs/developers/tests.md.
"""

import csv
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LOOPS = 600_000
CALIBRATIONS, RSS_MIB, ROWS = "calibrations", "memory", "times"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", type=float, help="most processor time, in loops of tests/peers/budget.py")
    parser.addoption("--most-memory", type=float, help="most resident memory of one process of the tests, in MiB")
    parser.addoption("--times", type=Path, help="write the times of each folder of tests to this file")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(WorkerUse() if is_worker else RunUse(config), "use")


def calibration_s() -> float:
    """Return the processor time of the fixed loop."""
    begun_s = time.thread_time()
    words: dict[int, str] = {}
    for number in range(LOOPS):
        words[number % 1009] = f"{number}"
    return time.thread_time() - begun_s


def processor_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class WorkerUse:
    """What one process that runs tests takes; a worker of xdist sends it to the process that prints."""

    def __init__(self) -> None:
        self.output: dict[str, Any] = {CALIBRATIONS: [calibration_s()]}
        self._rows: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        wall_s, used_s = time.perf_counter(), processor_s()
        try:
            return (yield)
        finally:
            row = self._rows["/".join(item.nodeid.split("::")[0].split("/")[:2])]
            row[0] += 1
            row[1] += time.perf_counter() - wall_s
            row[2] += processor_s() - used_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Leave the figures where xdist takes them from."""
        self.output[CALIBRATIONS].append(calibration_s())
        self.output[RSS_MIB] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.output[ROWS] = dict(self._rows)
        if (sent := getattr(session.config, "workeroutput", None)) is not None:
            sent.update(self.output)


class RunUse:
    """What the whole run takes, and whether that is within its budget."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._own = None if config.getoption("numprocesses", None) else WorkerUse()
        if self._own:
            config.pluginmanager.register(self._own, "own use")
        self._processes: list[dict[str, Any]] = []
        self._summary: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep what a worker has sent; a worker that was killed has sent nothing."""
        self._processes.append(getattr(node, "workeroutput", {}))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Add up once the workers have ended, and fail a run that was green and took more than its budget."""
        try:
            return (yield)
        finally:
            self._add_up(session)

    def _add_up(self, session: pytest.Session) -> None:
        processes = [self._own.output] if self._own else self._processes
        calibrations = [seconds for process in processes for seconds in process.get(CALIBRATIONS, ())]
        if not calibrations:
            return
        loop_s = sum(calibrations) / len(calibrations)
        loops = processor_s() / loop_s
        memory_mib = max(process.get(RSS_MIB, 0.0) for process in processes)
        option = self._config.getoption
        exceeded = [
            f"{name}: {used:.0f} of at most {most:.0f} {unit}"
            for name, unit, used, most in (
                ("processor time", "loops", loops, option("--budget")),
                ("memory of one process", "MiB", memory_mib, option("--most-memory")),
            )
            if most is not None and used > most
        ]
        if exceeded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._summary = [
            f"processor time {processor_s():.0f} s = {loops:.0f} loops of {loop_s:.3f} s, "
            f"largest of {len(processes)} processes {memory_mib:.0f} MiB",
            *(f"over the budget: {text}" for text in exceeded),
        ]
        if path := option("--times"):
            write_times(path, processes)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was used."""
        for line in self._summary:
            terminalreporter.line(line)


def write_times(path: Path, processes: list[dict[str, Any]]) -> None:
    """Write a row for each folder: how many tests, wall and processor time."""
    folders: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for process in processes:
        for folder, row in process.get(ROWS, {}).items():
            folders[folder] = [sum(pair) for pair in zip(folders[folder], row, strict=True)]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["folder", "tests", "wall s", "processor s"])
        for folder, (tests, wall_s, used_s) in sorted(folders.items()):
            table.writerow([folder, f"{tests:.0f}", f"{wall_s:.0f}", f"{used_s:.0f}"])
        totals = [sum(column) for column in zip(*folders.values(), strict=True)]
        table.writerow(["all", *(f"{total:.0f}" for total in totals)])
