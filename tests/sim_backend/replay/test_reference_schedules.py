"""Real logs against the schedules that independent simulators made of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow.csv
import pytest

from offpeak.model.schedule_metrics import bounded_slowdown
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.swf.read import read_swf

PER_SECOND = SchedulingSettings()
PER_EVENT = replace(PER_SECOND, passes="event")


@cache
def log(folder, name):
    trace = read_swf(folder / "data" / "traces" / f"{name}.swf.gz")
    return runnable(trace, trace.processors)[0], trace.processors


def scheduled(folder, name, policy, scheduling) -> Schedule:
    jobs, processors = log(folder, name)
    power_w = np.full(len(jobs), 200.0)
    return replay(jobs, power_w, machine_size=processors, policy=parse_policy(policy, scheduling))


def reference(folder, name) -> dict[int, int]:
    """Return the start of each job by its number."""
    table = pyarrow.csv.read_csv(folder / "data" / "reference_schedules" / f"{name}.csv.gz")
    return dict(zip(table["job_id"].to_pylist(), table["start"].to_pylist(), strict=True))


def starts_by_id(folder, name, policy, scheduling) -> dict[int, int]:
    jobs, _ = log(folder, name)
    return dict(zip(jobs.job_id.tolist(), scheduled(folder, name, policy, scheduling).start_s.tolist(), strict=True))


@pytest.mark.parametrize("peer", ["pyss_fcfs", "accasim_fcfs", "batsched_fcfs_fast"])
@pytest.mark.parametrize("scheduling", [PER_SECOND, PER_EVENT], ids=["second", "event"])
def test_fcfs_on_kth_is_what_three_simulators_make_of_it(shared, peer, scheduling):
    ours = starts_by_id(shared, "KTH_common", "fcfs", scheduling)
    assert len(ours) == 28_467
    assert ours == reference(shared, f"KTH__{peer}")


@pytest.mark.parametrize(
    ("trace", "peer"),
    [
        ("KTH_common", "KTH__pyss_easy"),
        ("SDSC-SP2-5K_common", "SDSC-SP2-5K__pyss_easy"),
        ("SDSC-SP2", "SDSC-SP2__pyss_easy"),
    ],
)
def test_easy_with_a_pass_per_event_is_pyss_job_by_job(shared, trace, peer):
    assert starts_by_id(shared, trace, "easy", PER_EVENT) == reference(shared, peer)


def test_fcfs_on_sdsc_is_pyss_job_by_job(shared):
    ours = starts_by_id(shared, "SDSC-SP2-5K_common", "fcfs", PER_EVENT)
    assert ours == reference(shared, "SDSC-SP2-5K__pyss_fcfs")


@pytest.mark.parametrize(
    ("name", "wait_s", "slowdown"),
    [
        ("KTH-SP2", "6836.872", "92.5765"),
        ("SDSC-SP2", "20497.761", "87.8703"),
        ("CTC-SP2", "14272.595", "49.5713"),
        ("SDSC-BLUE", "7690.844", "36.5234"),
        ("CEA-curie", "6369.102", "202.1332"),
    ],
)
def test_easy_with_a_pass_per_event_has_the_averages_of_pyss(shared, name, wait_s, slowdown):
    jobs, _ = log(shared, name)
    result = scheduled(shared, name, "easy", PER_EVENT)
    waited_s = result.start_s - jobs.submit_s
    assert f"{waited_s.mean():.3f}" == wait_s
    assert f"{bounded_slowdown(waited_s, result.end_s - result.start_s).mean():.4f}" == slowdown


@pytest.mark.parametrize(
    ("name", "wait_s"),
    [
        ("KTH-SP2", "6834.587"),
        ("SDSC-SP2", "20570.875"),
        ("CTC-SP2", "13943.007"),
        ("SDSC-BLUE", "7870.057"),
        ("CEA-curie", "7063.701"),
    ],
)
def test_easy_with_one_pass_a_second_has_the_averages_of_the_plain_python_easy(shared, name, wait_s):
    jobs, _ = log(shared, name)
    result = scheduled(shared, name, "easy", PER_SECOND)
    assert f"{(result.start_s - jobs.submit_s).mean():.3f}" == wait_s
