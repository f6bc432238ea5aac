"""A small log for the study's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.logs import LogSource, StudyLog, read_log
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 16


@pytest.fixture(scope="session")
def make_log() -> Callable[[Path], Path]:
    """Makes a folder with a log of some weeks."""

    def make(parent: Path) -> Path:
        logs = parent / "logs"
        logs.mkdir()
        jobs = lublin_jobs(150, machine_size=NODES, seed=5, load=0.8)
        write_swf(jobs, logs / "small.swf", processors=NODES, unix_start_s=None, zone=None)
        return logs

    return make


@pytest.fixture(scope="session")
def log(make_log: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> StudyLog:
    """The log."""
    return read_log(LogSource("small", make_log(tmp_path_factory.mktemp("small")) / "small.swf"))
