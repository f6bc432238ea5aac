"""Where schedules are written, and what stands in them."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput, CannotWrite
from offpeak.model.jobs import Trace
from offpeak.settings.replay import SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.ui.replay.simulate import check_schedule_path, schedule_paths, write_schedules
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

TRACE = Trace("a log", lublin_jobs(50, machine_size=16, seed=1), 16, None, None, None)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    policies = tuple(parse_policy(name, SchedulingSettings()) for name in ("easy", "fcfs+greedy"))
    return compare(prepare(TRACE, Settings(), start=None).case, policies)


def only(comparison: Comparison, policy: int) -> Comparison:
    return replace(comparison, runs=(comparison.runs[policy],))


@pytest.mark.parametrize(
    ("path", "policies", "names"),
    [
        ("out/s.csv", ("easy",), ["s.csv"]),
        ("out/s", ("easy",), ["s"]),
        ("out/s.csv", ("easy", "fcfs+greedy"), ["s.easy.csv", "s.fcfs+greedy.csv"]),
        ("out/june.1996.csv.gz", ("easy", "greedy"), ["june.1996.easy.csv.gz", "june.1996.greedy.csv.gz"]),
        ("out/s", ("easy", "greedy"), ["s.easy", "s.greedy"]),
    ],
)
def test_one_policy_takes_the_given_name_several_add_theirs(
    path: str, policies: tuple[str, ...], names: list[str]
) -> None:
    assert [file.as_posix() for file in schedule_paths(Path(path), policies)] == [f"out/{name}" for name in names]


def test_a_schedule_is_what_was_replayed(comparison: Comparison, tmp_path: Path) -> None:
    for run, path in zip(comparison.runs, write_schedules(comparison, tmp_path / "s.csv"), strict=True):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "job_id,start_s,end_s"
        rows = np.array([list(map(int, line.split(","))) for line in lines[1:]])
        assert np.array_equal(rows.T, [comparison.case.jobs.job_id, run.schedule.start_s, run.schedule.end_s])


def test_a_name_in_gz_is_compressed_the_same_each_time(comparison: Comparison, tmp_path: Path) -> None:
    one, two, plain = (tmp_path / name for name in ("a.csv.gz", "b.csv.gz", "c.csv"))
    for path in (one, two, plain):
        write_schedules(only(comparison, 0), path)
    assert one.read_bytes() == two.read_bytes()
    assert gzip.decompress(one.read_bytes()) == plain.read_bytes()


@pytest.mark.parametrize(
    ("path", "policies", "message", "hint"),
    [
        (".", 1, ": is a directory", "name a file, such as "),
        ("missing/s.csv", 1, ": cannot be written: No such file", "`mkdir -p "),
        ("file/s.csv", 1, ": cannot be written: Not a directory", "choose a folder"),
        ("/proc/s.csv", 1, ": cannot be written: ", "choose a folder that you may write"),
        ("/dev/null", 2, "/dev/null: takes one schedule, not 2", "--policy"),
    ],
)
def test_where_nothing_can_be_written_is_known_before(
    path: str, policies: int, message: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=message) as problem:
        check_schedule_path(tmp_path / path, policies)
    assert problem.value.hint.startswith((hint, "choose one with " + hint))


def test_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_schedule_path(tmp_path / "s.csv", 2)
    check_schedule_path(Path("/dev/null"), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported(comparison: Comparison) -> None:
    with pytest.raises(CannotWrite, match="/dev/full: cannot be written: No space left on device"):
        write_schedules(only(comparison, 0), Path("/dev/full"))
