"""What is written is read back as it was, and the same jobs make the same bytes."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import CannotWrite
from offpeak.model.jobs import Jobs
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick


@st.composite
def jobs(draw: st.DrawFn) -> Jobs:
    count = draw(st.integers(1, 30))

    def column(low: int, high: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    power_w = st.just(float("nan")) | st.floats(0.001, 1e6)
    submit_s = np.sort(column(0, 2**31))
    wait_s = column(-1, 10**6)
    return Jobs(
        job_id=np.arange(1, count + 1),
        submit_s=submit_s,
        runtime_s=column(0, 2**32),
        estimate_s=column(1, 2**40),
        size=column(1, 10**6),
        user=column(-1, 1000),
        group=column(-1, 1000),
        queue=column(-1, 10),
        application=column(-1, 50),
        logged_start_s=np.where(wait_s >= 0, submit_s + wait_s, -1),
        node_power_w=np.array(draw(st.lists(power_w, min_size=count, max_size=count))),
    )


def assert_same(found: Jobs, expected: Jobs) -> None:
    for name in Jobs.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


@given(jobs(), st.sampled_from(["a.swf", "a.swf.gz"]), st.none() | st.integers(1, 2**33))
def test_a_written_log_is_read_back_as_it_was(jobs: Jobs, name: str, unix_start_s: int | None) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_swf(jobs, path, processors=77, unix_start_s=unix_start_s, zone="Europe/Berlin")
        trace = read_swf(path)
    assert_same(trace.jobs, jobs)
    assert (trace.processors, trace.time_zone, trace.rejected, trace.notes) == (77, "Europe/Berlin", (), ())
    assert trace.unix_start_s in (unix_start_s, 0)


@pytest.mark.parametrize("name", ["a.swf", "a.swf.gz"])
def test_a_long_log_survives_the_boundaries_of_pieces_and_blocks(tmp_path: Path, name: str) -> None:
    jobs = lublin_jobs(30_000, machine_size=64, seed=1)
    write_swf(jobs, tmp_path / name, processors=64, unix_start_s=None, zone=None)
    assert (tmp_path / name).stat().st_size > 1 << 18
    assert_same(read_swf(tmp_path / name).jobs, jobs)


def test_the_text(tmp_path: Path) -> None:
    write_swf(
        lublin_jobs(1, machine_size=4, seed=1),
        tmp_path / "a.swf",
        processors=4,
        unix_start_s=5,
        zone="Asia/Tokyo",
        notes=("made\nup", "MaxProcs: 9"),
    )
    *header, job = (tmp_path / "a.swf").read_text().splitlines()
    assert header == [
        "; Version: 2.2",
        "; MaxJobs: 1",
        "; MaxProcs: 4",
        "; UnixStartTime: 5",
        "; TimeZoneString: Asia/Tokyo",
        "; NodePowerColumn: 19",
        "; Note: made",
        "; Note: up",
        "; Note: MaxProcs: 9",
    ]
    assert len(job.split()) == 19


def test_without_readings_there_is_no_power_column(tmp_path: Path) -> None:
    whole = read_swf(_sampled(tmp_path / "a.swf")).jobs
    unread = Jobs(**{**vars(whole), "node_power_w": np.full(len(whole), np.nan)})
    write_swf(unread, tmp_path / "b.swf", processors=4, unix_start_s=None, zone=None)
    text = (tmp_path / "b.swf").read_text()
    assert "NodePowerColumn" not in text
    assert len(text.splitlines()[-1].split()) == 18


def test_the_same_jobs_make_the_same_bytes_under_any_name(tmp_path: Path) -> None:
    one, other = _sampled(tmp_path / "one.swf.gz"), _sampled(tmp_path / "other.swf.gz")
    assert one.read_bytes() == other.read_bytes()
    assert gzip.decompress(one.read_bytes()) == _sampled(tmp_path / "plain.swf").read_bytes()


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file or directory"):
        _sampled(tmp_path / "no" / "a.swf")


def _sampled(path: Path) -> Path:
    write_swf(lublin_jobs(10, machine_size=4, seed=1), path, processors=4, unix_start_s=None, zone=None)
    return path
