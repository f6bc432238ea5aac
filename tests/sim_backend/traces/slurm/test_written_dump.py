"""A dump of `sacct` that is written is read back as it was."""

from datetime import UTC, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sacct_dump import write_sacct
from offpeak.errors import BadTrace
from offpeak.files import text_of_file
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs, Trace
from offpeak.sim_backend.traces.slurm.read import sacct_trace

START_S = 1_767_225_600
HALF_YEAR_S = 15_000_000  # until the end of June: clocks go forward only


@st.composite
def jobs(draw: st.DrawFn) -> Jobs:
    count = draw(st.integers(1, 30))

    def column(low: int, high: int) -> Int64:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    submit_s = np.sort(column(0, HALF_YEAR_S))
    runtime_s, size = column(0, 10**5), column(1, 1000)
    power_w = st.just(float("nan")) | st.floats(1, 2000)
    return Jobs(
        job_id=1 + np.array(draw(st.permutations(range(count)))),
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=60 * column(1, 10**4),
        size=size,
        user=column(-1, 20),
        group=column(-1, 5),
        queue=column(-1, 3),
        application=column(-1, 50),
        logged_start_s=submit_s + column(0, 10**5),
        node_power_w=np.array(draw(st.lists(power_w, min_size=count, max_size=count))),
    )


def read(path: Path, zone: tzinfo) -> Trace:
    return sacct_trace(text_of_file(path, BadTrace), "a", lenient=False, zone=zone)


def called(code: Int64, names: tuple[str, ...]) -> list[str]:
    return [names[i] if i >= 0 else "" for i in code.tolist()]


def spelt(kind: str, code: Int64) -> list[str]:
    return [f"{kind}{i}" if i >= 0 else "" for i in code.tolist()]


@given(jobs(), st.sampled_from(["a.txt", "a.txt.gz"]), st.sampled_from([UTC, ZoneInfo("Europe/Berlin")]))
def test_a_written_dump_is_read_back_as_it_was(jobs: Jobs, name: str, zone: tzinfo) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_sacct(jobs, path, unix_start_s=START_S, zone=zone, processors_per_node=48)
        trace = read(path, zone)
    found = trace.jobs
    assert (found.job_id.tolist(), found.size.tolist()) == (jobs.job_id.tolist(), jobs.size.tolist())
    assert (found.submit_s - START_S).tolist() == jobs.submit_s.tolist()
    assert (found.logged_start_s - START_S).tolist() == jobs.logged_start_s.tolist()
    assert found.runtime_s.tolist() == jobs.runtime_s.tolist()
    assert found.estimate_s.tolist() == jobs.estimate_s.tolist()
    for kind, code, names in (
        ("user", "user", trace.names.user),
        ("project", "group", trace.names.group),
        ("queue", "queue", trace.names.queue),
        ("app", "application", trace.names.application),
    ):
        assert called(getattr(found, code), names) == spelt(kind, getattr(jobs, code))
    measured = np.isfinite(jobs.node_power_w) & (jobs.runtime_s > 0)
    joule = 0.5 / np.maximum(jobs.runtime_s * jobs.size, 1)
    assert (np.isfinite(found.node_power_w) == measured).all()
    assert (np.abs(found.node_power_w - jobs.node_power_w)[measured] <= joule[measured] + 1e-9).all()
