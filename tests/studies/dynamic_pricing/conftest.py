"""Small logs for the study's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.logs import LogSource, StudyLog, read_log
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 16


@pytest.fixture(scope="session")
def make_logs() -> Callable[[Path], Path]:
    """Makes a folder with two small logs: one that stands for the paper's SDSC-Blue, and one that does not."""

    def make(parent: Path) -> Path:
        logs = parent / "logs"
        logs.mkdir()
        for name, count in (("SDSC-BLUE", 120), ("small", 40)):
            jobs = lublin_jobs(count, machine_size=NODES, seed=count, load=0.8)
            write_swf(jobs, logs / f"{name}.swf", processors=NODES, unix_start_s=None, zone=None)
        return logs

    return make


@pytest.fixture
def folder(make_logs: Callable[[Path], Path], tmp_path: Path) -> Path:
    """The folder, for a test that may change it."""
    return make_logs(tmp_path)


@pytest.fixture
def log(folder: Path) -> StudyLog:
    """The larger of the two."""
    return read_log(LogSource("SDSC-BLUE", folder / "SDSC-BLUE.swf"))
