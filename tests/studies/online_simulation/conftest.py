"""Small logs for the study's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.logs import LogSource, read_log
from offpeak_studies.online_simulation.plan import OnlineSubject, subjects_of
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 90


@pytest.fixture(scope="session")
def make_kth() -> Callable[[Path], Path]:
    """Makes a folder with three weeks of jobs that stand for the paper's KTH, and a second log."""

    def make(parent: Path) -> Path:
        logs = parent / "logs"
        logs.mkdir()
        for name, count in (("KTH-SP2", 900), ("other", 40)):
            jobs = lublin_jobs(count, machine_size=NODES, seed=7, load=0.8)
            write_swf(jobs, logs / f"{name}.swf", processors=NODES, unix_start_s=None, zone=None)
        return logs

    return make


@pytest.fixture(scope="session")
def folder(make_kth: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, not to be changed."""
    return make_kth(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def subject(folder: Path) -> OnlineSubject:
    """The log that stands for KTH, on the paper's 100 processors."""
    (found,) = subjects_of([read_log(LogSource("KTH-SP2", folder / "KTH-SP2.swf"))])
    return found
