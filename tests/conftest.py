"""Fixtures for all tests."""

import gc
import math
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from offpeak.compiled import WITH_KERNELS, cache_folder

REPOSITORY = Path(__file__).resolve().parents[1]
LONGEST_S = 5.0
"""A test that takes longer states its reason: `@pytest.mark.slow("waits for the edge of a minute")`."""

QUICK = """\
tested: units, laws, one scene per scheduler (slurmctld; stand-ins of OpenPBS and Torque), README's commands, the page
not tested: {} tests that only `make test-all` runs"""

SCENES_BEGUN_AT = 0.8
"""When this share of the other files is begun, all files of scenes are."""

# The real servers that tests talk to import each other from their folder. The benchmarks and the programs that write
# parts of the documents are not installed.
sys.path += [str(REPOSITORY / "tests" / "peers"), str(REPOSITORY), str(REPOSITORY / "docs")]
pytest_plugins = [
    "chromium_fixture",
    "ipmi_fixtures",
    "postgres_server",
    "slurm_fixtures",
    "powered_fixtures",
    "zygote_fixture",
    "booted_head",
]

# No deadline: the first example of a test may have to load or compile a kernel. What CI says of a commit must not
# depend on chance. `--hypothesis-profile=nightly` searches longer.
settings.register_profile("commit", max_examples=25, deadline=None, derandomize="CI" in os.environ)
settings.register_profile("nightly", max_examples=200, deadline=None)
settings.load_profile("commit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of scenes, which mostly wait, among those that keep a processor busy; the longest come first."""
    tests = Counter(item.path for item in items)
    scenes = [path for path, _ in tests.most_common() if path.parent.name == "e2e"]
    others = [path for path in tests if path not in scenes]
    place: dict[Path, float] = {path: at for at, path in enumerate(others)}
    place |= {path: at * SCENES_BEGUN_AT * len(others) / len(scenes) for at, path in enumerate(scenes)}
    items.sort(key=lambda item: place[item.path])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say how many files of kernels the tests are about to compile."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    files = (path for package in WITH_KERNELS for path in (REPOSITORY / package).rglob("*.py"))
    sources = [path for path in files if KERNEL.search(path.read_text())]
    new = sum(not cache_folder(source).is_dir() for source in sources)
    session.config.stash[COMPILES] = new > 0
    if terminal and new:
        terminal.write_line(
            f"numba compiles the kernels of {new} of {len(sources)} files, once, as the tests need them"
        )


KERNEL = re.compile(r"^@(kernel|in_place)$", re.MULTILINE)
"""Begins a kernel; a file that defines only parts of kernels has none."""

COMPILES = pytest.StashKey[bool]()
"""Whether this run compiles a kernel, which makes a test slower."""

LEFT_OUT = pytest.StashKey[int]()
"""How many tests the expression of marks left out: each process of xdist knows, and all know the same."""


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what the expression of marks leaves out."""
    config = items[0].config
    config.stash[LEFT_OUT] = config.stash.get(LEFT_OUT, 0) + len(items)
    if (output := getattr(config, "workeroutput", None)) is not None:
        output["left out"] = config.stash[LEFT_OUT]


class LeftOutByWorkers:
    """Brings the count from the processes of xdist."""

    def pytest_testnodedown(self, node: Any) -> None:
        """Keep what a process that has ended counted."""
        node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_configure(config: pytest.Config) -> None:
    """Listen to the processes of xdist where there are any, and collect the tests without looking for garbage."""
    gc.disable()
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(LeftOutByWorkers())


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which stay until the end, from later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the tests that were slow without a reason, unless kernels were compiled, and what was tested."""
    stats = terminalreporter.stats
    calls = [report for reports in stats.values() for report in reports if getattr(report, "when", "") == "call"]
    longest_s = math.inf if config.stash[COMPILES] else LONGEST_S
    for report in sorted(calls, key=lambda report: -report.duration):
        if report.duration > longest_s and not {"slow", "thorough"} & set(report.keywords):
            terminalreporter.line(f"{report.duration:.0f} s, without a reason (pytest.mark.slow): {report.nodeid}")
    skipped = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in stats.get("skipped", ()))
    if config.option.markexpr == "not thorough":
        terminalreporter.line(QUICK.format(config.stash.get(LEFT_OUT, 0)))
    for reason, count in skipped.most_common():
        terminalreporter.line(f"not tested, {count} skipped: {reason}")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: logs and prices too large to bundle. Skips where it is absent."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder `shared` beside the repository")
    return folder


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], None]:
    """Compares a text with the file of that name in tests/golden; with UPDATE_GOLDEN=1 it writes the file instead."""

    def compare(name: str, text: str) -> None:
        file = REPOSITORY / "tests" / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session", autouse=True)
def hear_ctrl_c() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would the commands that the tests start from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
