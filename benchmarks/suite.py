"""Where the tests' time goes: wall, processor and compile time by file, by phase, and the slowest tests.

`python -m benchmarks.suite [PYTEST ARGUMENTS]` runs the tests with itself as a plugin and prints tables in Markdown.
"""

import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMES_FOLDER = "OFFPEAK_TEST_TIMES"
"""The variable that names the folder in which each process writes its times."""

SLOWEST = 25


@dataclass(frozen=True)
class Spent:
    """What one phase (setup, call, teardown) of one test took. Children count once they have ended."""

    test: str
    phase: str
    wall_s: float
    processor_s: float
    compile_s: float

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Wall, processor and compile time."""
        return self.wall_s, self.processor_s, self.compile_s

    @property
    def file(self) -> str:
        """The file of the test, from the root of the repository."""
        return self.test.split("::", 1)[0]


class TimesPlugin:
    """Writes a row for each phase of each test that this process runs."""

    def __init__(self, folder: Path) -> None:
        """Measure from now on; `folder` exists."""
        from numba.core import event

        self._file = (folder / f"{os.getpid()}.csv").open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)
        self._compiling = event.TimingListener()  # type: ignore[no-untyped-call]
        event.register("numba:compile", self._compiling)  # type: ignore[no-untyped-call]

    def _compile_s(self) -> float:
        """Return what this process has spent compiling since it began; loading machine code is not compiling."""
        return float(self._compiling.duration) if self._compiling.done else 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the fixtures."""
        return (yield from self._measured(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the test."""
        return (yield from self._measured(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure what the fixtures clear away."""
        return (yield from self._measured(item, "teardown"))

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self._file.close()

    def _measured(self, item: pytest.Item, phase: str) -> Generator[None, object, object]:
        wall, processor, compiled = time.perf_counter(), _processor_s(), self._compile_s()
        try:
            return (yield)
        finally:
            spent = time.perf_counter() - wall, _processor_s() - processor, self._compile_s() - compiled
            self._rows.writerow([item.nodeid, phase, *spent])
            self._file.flush()


def _processor_s() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pytest_configure(config: pytest.Config) -> None:
    """Measure where the folder is named: pytest's own processes and those of xdist."""
    if folder := os.environ.get(TIMES_FOLDER):
        config.pluginmanager.register(TimesPlugin(Path(folder)))


def spent_in(folder: Path) -> list[Spent]:
    """Return the rows of all processes."""
    found = []
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            found += [Spent(test, phase, *map(float, spent)) for test, phase, *spent in csv.reader(lines)]
    return found


def tables(rows: list[Spent]) -> str:
    """Return the Markdown tables: by folder and phase, then the slowest files and tests."""
    return "\n\n".join(
        (
            _table("folder", rows, lambda row: "/".join(row.file.split("/")[:2])),
            _table("phase", rows, lambda row: row.phase),
            _table("file", rows, lambda row: row.file, SLOWEST),
            _table("test", rows, lambda row: row.test, SLOWEST),
        )
    )


def _table(name: str, rows: Iterable[Spent], key: Callable[[Spent], str], most: int | None = None) -> str:
    groups: dict[str, list[Spent]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    lines = [f"| {name} | tests | wall s | processor s | compiling s |", "|---|---|---|---|---|"]
    for group, spent in sorted(groups.items(), key=lambda entry: -sum(row.wall_s for row in entry[1]))[:most]:
        tests = len({row.test for row in spent})
        wall, processor, compiling = (sum(values) for values in zip(*(row.seconds for row in spent), strict=True))
        lines.append(f"| {group} | {tests} | {wall:.1f} | {processor:.1f} | {compiling:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Run pytest with the arguments given, measured; print the tables; return pytest's status."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, TIMES_FOLDER: folder}
        status = subprocess.call(
            [sys.executable, "-m", "pytest", "-p", "benchmarks.suite", *sys.argv[1:]], env=environment
        )
        print(tables(spent_in(Path(folder))))
    return status


if __name__ == "__main__":
    sys.exit(main())
