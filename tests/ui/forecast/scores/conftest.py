"""A small generated log that ran, as a file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpeak.model.jobs import Jobs
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.workloads.generate import lublin_jobs

UNITS, JOBS = 64, 150


@pytest.fixture(scope="session")
def ran() -> Jobs:
    """Jobs with readings, started by EASY."""
    jobs = lublin_jobs(JOBS, machine_size=UNITS, seed=3, load=0.9)
    easy = parse_policy("easy", SchedulingSettings())
    start_s = replay(jobs, jobs.node_power_w, machine_size=UNITS, policy=easy).start_s
    return replace(jobs, logged_start_s=start_s)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes jobs as a log."""

    def write(jobs: Jobs, name: str = "log.swf", units: int = UNITS) -> Path:
        write_swf(jobs, tmp_path / name, processors=units, unix_start_s=None, zone=None)
        return tmp_path / name

    return write


@pytest.fixture
def without_starts(ran: Jobs) -> Jobs:
    """The same jobs of a log that does not say when they started."""
    return replace(ran, logged_start_s=np.full(JOBS, -1))
