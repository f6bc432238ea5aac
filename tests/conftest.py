"""Fixtures for all tests."""

import gc
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import EachScheduling

from offpeak.compiled import cache_folder

REPOSITORY = Path(__file__).resolve().parents[1]
QUICK = """\
tested: units, laws, one scene per scheduler (slurmctld; stand-ins of OpenPBS and Torque), README's commands, the page
not tested: {} more files of tests and parts of others, which `make test-rest` runs"""

# The real servers that tests talk to import each other from their folder. The benchmarks and the programs that write
# parts of the documents are not installed.
sys.path += [str(REPOSITORY / "tests" / "peers"), str(REPOSITORY), str(REPOSITORY / "docs")]
pytest_plugins = [
    "budget",
    "chromium_fixture",
    "ipmi_fixtures",
    "postgres_server",
    "slurm_fixtures",
    "powered_fixtures",
    "zygote_fixture",
    "booted_head",
    "patient_ledger",
]

# No deadline: the first example of a test may have to load or compile a kernel. What CI says of a commit must not
# depend on chance. `--hypothesis-profile=nightly` searches longer.
settings.register_profile("commit", max_examples=25, deadline=None, derandomize="CI" in os.environ)
settings.register_profile("nightly", max_examples=200, deadline=None)
settings.load_profile("commit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unread, the files in which no test is quick."""
    if not is_quick(config) or collection_path.suffix != ".py" or "mark.quick" in collection_path.read_text():
        return None
    return True


def is_quick(config: pytest.Config) -> bool:
    """Return whether only the quick tests are to run."""
    return config.option.markexpr == "quick"


LONG_SCENES = {
    "test_agent_on_pbs",
    "test_agent_on_two_head_nodes",
    "test_agent_in_disasters",
    "test_agent_obeys_cap",
    "test_agent_orders_queue",
}
"""They wait for 7 to 10 minutes each: begun last, they would wait alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the files of scenes, which mostly wait, before those that keep a processor busy.

    Long logs are read before numba and its kernels take 200 MiB.
    """

    def turn(item: pytest.Item) -> tuple[bool, bool, bool, Path]:
        path = item.path
        return path.stem not in LONG_SCENES, path.parent.name != "e2e", "traces" not in path.parts, path

    items.sort(key=turn)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say how many files of kernels the run is about to compile, and begin with the largest kernels."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    files = (REPOSITORY / path for path in glob("offpeak/**/*.py", root_dir=REPOSITORY, recursive=True))
    sources = [path for path in files if KERNEL.search(path.read_text())]
    new = sum(not cache_folder(source).is_dir() for source in sources)
    if terminal and new:
        terminal.write_line(f"numba has not compiled the kernels of {new} of {len(sources)} files yet: once, as needed")
    # A process keeps the memory of what it has compiled: 400 MiB for the engine. Tests that need it wait for this one.
    if session.config.getoption("numprocesses", None) and not cache_folder(ENGINE).is_dir():
        session.config.stash[COMPILING] = subprocess.Popen(
            [sys.executable, "-c", ESTIMATE], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


ENGINE = REPOSITORY / "offpeak/sim_backend/engine/advance.py"
COMPILING = pytest.StashKey["subprocess.Popen[bytes]"]()
ESTIMATE = """\
from offpeak.ui.command import main
import sys
sample = "sim_backend/sample/sample"
sys.argv = ["offpeak", "estimate", f"{sample}_sacct.txt.gz", "--prices", f"{sample}_prices_eur_per_mwh.csv.gz",
            "--time-zone", "Europe/Berlin"]
main()
"""
"""What README shows: a replay of a log with nodes that sleep."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the process that compiles end, so that its time counts."""
    if compiling := session.config.stash.get(COMPILING, None):
        compiling.wait()


KERNEL = re.compile(r"^@(kernel|in_place)$", re.MULTILINE)
"""Begins a kernel; a file that defines only parts of kernels has none."""


def pytest_configure(config: pytest.Config) -> None:
    """Collect the tests without looking for garbage, and in each process of xdist begin with another folder.

    pytest rewrites the assertions of a file once for all processes if they do not come to it at the same time.
    """
    gc.disable()
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker and has_parts(config, worker["workercount"]):
        config.args[:] = map(str, quick_part(int(worker["workerid"].removeprefix("gw"))))
    elif worker and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        folders = sorted(str(path) for path in (REPOSITORY / "tests").iterdir() if path.name.isidentifier())
        begin = int(worker["workerid"].removeprefix("gw")) * len(folders) // worker["workercount"]
        config.args[:] = [*folders[begin:], *folders[:begin], *map(str, (REPOSITORY / "tests").glob("test_*.py"))]


QUICK_PARTS = (("sim_backend", "plugin", "offpeak", "studies"), ("ui", "power"), ())
"""The folders that each process of `make test` collects and runs, the last one all others. They take about as long. A
process that collects all quick tests needs 150 MiB more, and as long as each of the others to import them.
"""


def quick_part(number: int) -> list[Path]:
    """Return the folders and files of one process."""
    if number < len(QUICK_PARTS) - 1:
        return [REPOSITORY / "tests" / name for name in QUICK_PARTS[number]]
    taken = {name for part in QUICK_PARTS for name in part}
    folders = [path for path in (REPOSITORY / "tests").iterdir() if path.name.isidentifier() and path.is_dir()]
    files = (REPOSITORY / "tests").glob("test_*.py")
    return [*(path for path in sorted(folders) if path.name not in taken), *files]


def has_parts(config: pytest.Config, processes: int) -> bool:
    """Return whether each process has a part of the quick tests of its own."""
    chosen = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return is_quick(config) and chosen and processes == len(QUICK_PARTS)


class EachItsPart(EachScheduling):
    """Has each process run all that it has collected."""

    def schedule(self) -> None:
        """Begin, and count the tests of all processes for the progress that is shown."""
        self.config.pluginmanager.get_plugin("session").testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> EachScheduling | None:
    """Give each process its part of the quick tests."""
    return EachItsPart(config, log) if has_parts(config, len(config.option.tx)) else None


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which stay until the end, from later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was tested and what was not."""
    skipped = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    if is_quick(config):
        files = [file for file in (REPOSITORY / "tests").rglob("test_*.py") if "mark.quick" not in file.read_text()]
        terminalreporter.line(QUICK.format(len(files)))
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
