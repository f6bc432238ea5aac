"""Reading job logs: what the lines mean, what is refused and how, and real logs."""

import gzip
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.traces.swf import lines as swf_lines
from offpeak.sim_backend.traces.swf.read import read_swf, swf_trace
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

WriteLog = Callable[..., Path]


def line(
    job: int = 1,
    *,
    submit: object = 0,
    run: object = 60,
    used: object = 8,
    requested: object = 8,
    estimate: object = 600,
    user: object = 3,
    status: object = 1,
) -> str:
    return f"{job} {submit} -1 {run} {used} -1 -1 {requested} {estimate} -1 {status} {user} 5 -1 2 -1 -1 -1"


@pytest.fixture
def write(tmp_path: Path) -> WriteLog:
    def write_log(*lines: str, name: str = "a.swf") -> Path:
        path = tmp_path / name
        content = "".join(each + "\n" for each in lines).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write_log


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(BadTrace) as caught:
        read_swf(path)
    return str(caught.value).removeprefix(str(path)), caught.value.hint


def test_a_line_becomes_a_job(write: WriteLog) -> None:
    trace = read_swf(write("; MaxProcs: 128", "; MaxNodes: 16", "; UnixStartTime: 893466664", line()))
    jobs = trace.jobs
    assert (jobs.job_id[0], jobs.submit_s[0], jobs.runtime_s[0], jobs.estimate_s[0]) == (1, 0, 60, 600)
    assert (jobs.size[0], jobs.user[0], jobs.group[0], jobs.queue[0]) == (8, 3, 5, 2)
    assert np.isnan(jobs.node_power_w).all()
    assert trace == Trace("a", jobs, 128, 16, 893466664, None)


def test_the_name_loses_its_endings_and_gzip_is_recognised_by_content(write: WriteLog) -> None:
    assert read_swf(write(line(), name="KTH.swf.gz")).name == "KTH"
    write(line(), name="b.gz").rename(Path(write(line())).with_name("log.swf"))
    assert len(read_swf(Path(write(line())).with_name("log.swf")).jobs) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(line().encode()))))
    assert read_swf("-").name == "standard input"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 2\n")))
    with pytest.raises(BadTrace, match=r"^standard input:1: 2 fields where 18 are expected$"):
        read_swf("-")


def test_used_processors_stand_in_for_requested_ones_and_the_run_time_for_the_estimate(write: WriteLog) -> None:
    trace = read_swf(write(line(used=4, requested=-1, estimate=-1), line(2, used=4, requested=0, estimate=0), line(3)))
    assert trace.jobs.size.tolist() == [4, 4, 8]
    assert trace.jobs.estimate_s.tolist() == [60, 60, 600]
    assert trace.notes == ("2 jobs without an estimate: the run time is used",)
    assert trace.without_estimate.tolist() == [1, 2]


def test_parts_between_checkpoints_are_not_jobs(write: WriteLog) -> None:
    parts = [line(run=20, status=2), line(submit=-1, run=25, status=2), line(submit=-1, run=15, status=3)]
    trace = read_swf(write(line(), *parts, line(2, submit=5, status=2), line(3, submit=-1, status=4)))
    assert trace.jobs.job_id.tolist() == [1, 2]
    assert trace.jobs.runtime_s.tolist() == [60, 60]
    assert trace.notes == ("3 lines of parts of runs: the line of the whole job counts",)
    reason = "parts of a run without submit time, and no line of the whole job"
    assert trace.rejected == (RejectedJobs(reason, (3,)),)
    assert refused(write(line(submit=-1, status=1)))[0] == ":1: no submit time"


def test_jobs_keep_the_requested_and_the_used_processors(write: WriteLog) -> None:
    trace = read_swf(write(line(used=4), line(2), line(3, used=16), line(4, used=-1)))
    assert trace.jobs.size.tolist() == [8, 8, 8, 8]
    assert trace.jobs.as_logged().size.tolist() == [4, 8, 16, 8]
    assert trace.jobs.take(np.array([2, 0])).as_logged().size.tolist() == [16, 4]
    assert trace.notes == (
        "2 jobs used more or fewer processors than asked: what happened is counted with those used, replays hold those"
        " requested",
    )
    assert read_swf(write(line(), line(2, used=0), line(3, requested=-1))).jobs.logged_size is None


def test_jobs_that_never_ran_are_set_aside_with_the_reason(write: WriteLog) -> None:
    trace = read_swf(
        write(line(1, run=-1, requested=0, used=0), line(2), line(3, requested=-1, used=0), line(4, run=0))
    )
    assert trace.jobs.job_id.tolist() == [2, 4]
    assert trace.rejected == (RejectedJobs("run time unknown (-1)", (1,)), RejectedJobs("no processors", (3,)))


def test_jobs_are_sorted_by_submission_and_keep_their_order_within_a_second(write: WriteLog) -> None:
    lines = [line(number, submit=[50, 10][number % 2]) for number in range(2000)]
    jobs = read_swf(write(*lines)).jobs
    assert jobs.job_id.tolist() == [*range(1, 2000, 2), *range(0, 2000, 2)]


def test_two_thousand_jobs_of_one_second_keep_their_order(write: WriteLog) -> None:
    jobs = read_swf(write(*(line(number, submit=7) for number in range(2000, 0, -1)))).jobs
    assert jobs.job_id.tolist() == list(range(2000, 0, -1))


def test_times_of_more_than_31_bits(write: WriteLog) -> None:
    jobs = read_swf(write(line(submit=2**40, run=2**31, estimate=2**53))).jobs
    assert (jobs.submit_s[0], jobs.runtime_s[0], jobs.estimate_s[0]) == (2**40, 2**31, 2**53)


def test_fractions_are_rounded_half_to_even_with_a_note(write: WriteLog) -> None:
    trace = read_swf(write(line(submit="0.5", run="1.5"), line(2, submit="1.0", run="2.5", user="3.0")))
    assert trace.jobs.submit_s.tolist() == [0, 1]
    assert trace.jobs.runtime_s.tolist() == [2, 2]
    assert trace.notes == ("times with a fraction of a second: 3, rounded to whole seconds",)


@pytest.mark.parametrize(
    ("header", "submit", "start"),
    [
        ("; UnixStartTime: 0", 0, None),
        ("; none", 0, None),
        ("; UnixStartTime: 0", 1641021254, 0),
        ("; none", 1641021254, 0),
        ("; UnixStartTime: 7", 1641021254, 7),
        ("; UnixStartTime: -1", 631_151_999, None),
    ],
)
def test_a_start_of_zero_counts_only_with_unix_submit_times(
    write: WriteLog, header: str, submit: int, start: int | None
) -> None:
    assert read_swf(write(header, line(submit=submit))).unix_start_s == start


def test_missing_users_groups_and_queues_are_minus_one(write: WriteLog) -> None:
    jobs = read_swf(write("1 0 -1 60 4 -1 -1 8 600 -1 1 -1 -2 -1 -9 -1 -1 -1")).jobs
    assert (jobs.user[0], jobs.group[0], jobs.queue[0]) == (-1, -1, -1)


def test_the_power_column_is_read_where_the_header_declares_it(write: WriteLog) -> None:
    trace = read_swf(write(line() + " 250.5", line(2) + " -1", line(3) + " 0", "; NodePowerColumn: 19"))
    np.testing.assert_array_equal(trace.jobs.node_power_w, [250.5, np.nan, np.nan])
    assert trace.notes == ()


def test_a_reading_that_no_node_can_draw_is_not_measured(write: WriteLog) -> None:
    trace = read_swf(write(line() + " 250.5", line(2) + " 1e15", "; NodePowerColumn: 19"))
    np.testing.assert_array_equal(trace.jobs.node_power_w, [250.5, np.nan])
    assert trace.notes == ("1 job with an absurd power reading: taken as not measured",)


def test_surplus_columns_are_ignored_with_a_note(write: WriteLog) -> None:
    trace = read_swf(write(line() + " 4", line(2) + " 4"))
    assert trace.notes == ("19 columns: the 19th is not part of SWF and is ignored",)
    trace = read_swf(write(line() + " 4 7 1", line(2) + " 4 7 1"))
    assert trace.notes == ("21 columns: those after the 18th are not part of SWF and are ignored",)
    trace = read_swf(write("; NodePowerColumn: 20", line() + " 4 7", line(2) + " 4 7"))
    assert trace.notes == ("20 columns: the 19th is not part of SWF and is ignored",)
    assert trace.jobs.node_power_w.tolist() == [7, 7]


TWENTY_ONE = ("; MaxProcs: 8", line() + " climate 7 x", line(2) + " ocean model 3 y", line(3) + " - 2 z")


def test_columns_behind_the_format_may_hold_text(write: WriteLog) -> None:
    trace = read_swf(write(*TWENTY_ONE))
    assert (trace.jobs.job_id.tolist(), trace.jobs.size.tolist(), trace.skipped_lines) == ([1, 2, 3], [8, 8, 8], 0)
    assert trace.notes == ("21 columns: those after the 18th are not part of SWF and are ignored",)
    shortened = read_swf(write(*TWENTY_ONE, line(4)))
    assert (shortened.jobs.job_id.tolist(), shortened.notes) == ([1, 2, 3, 4], trace.notes)


def test_a_fault_within_the_format_is_found_beside_columns_of_text(write: WriteLog) -> None:
    assert refused(write(*TWENTY_ONE, "1 2 3"))[0] == ":5: 3 fields where 21 are expected"
    assert refused(write(*TWENTY_ONE, line(4, run="x") + " a b c"))[0] == ":5: field 4 is not a number: 'x'"
    trace = read_swf(write(*TWENTY_ONE, line(4, run="x") + " a b c"), lenient=True)
    assert (trace.jobs.job_id.tolist(), trace.skipped_lines) == ([1, 2, 3], 1)


BAD_LINES = [
    ("1 2 3", "3 fields where 18 are expected"),
    (line() + " 1", "19 fields where 18 are expected"),
    (line(run="abc"), "field 4 is not a number: 'abc'"),
    (line(run="1_0"), "field 4 is not a number: '1_0'"),
    (line(run="nan"), "field 4 is not a number: 'nan'"),
    (line(run="--1"), "field 4 is not a number: '--1'"),
    (line(run="1e999"), "field 4 is too large: '1e999'"),
    (line(run=2**53 + 2), f"field 4 is too large: '{2**53 + 2}'"),
    (line(submit=-1), "no submit time"),
    (line() + " ; remark", "20 fields where 18 are expected"),
]


@pytest.mark.parametrize(("bad", "fault"), BAD_LINES)
def test_a_malformed_line_is_refused_with_its_number(write: WriteLog, bad: str, fault: str) -> None:
    path = write("; MaxProcs: 4", "", line(), "  ; remark", "\t", line(2), bad, line(3), name="file.swf.gz")
    assert refused(path) == (f":7: {fault}", "--lenient skips such lines and counts them")


@pytest.mark.parametrize(("bad", "fault"), BAD_LINES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_lenient_skips_and_counts_malformed_lines(write: WriteLog, bad: str, fault: str, place: int) -> None:
    assert fault
    lines = ["; MaxProcs: 4", line(), line(2)]
    lines.insert(place, bad)
    trace = read_swf(write(*lines, bad), lenient=True)
    assert (trace.skipped_lines, trace.jobs.job_id.tolist(), trace.processors) == (2, [1, 2], 4)


def test_a_declared_power_column_must_be_there(write: WriteLog) -> None:
    assert refused(write("; NodePowerColumn: 19", line()))[0] == ":2: 18 fields where 19 are expected"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], ": is empty"),
        (["; MaxProcs: 100", "", "; the end"], ": has no job lines"),
        (["", "  "], ": has no job lines"),
        (["One would think that this is a log."], ":1: 8 fields where 18 are expected"),
        (["x" * 3_000_000], ":1: 1 fields where 18 are expected"),
    ],
)
def test_files_without_jobs_are_refused(write: WriteLog, lines: list[str], message: str) -> None:
    found, hint = refused(write(*lines))
    assert found == message
    assert hint


def test_lenient_still_needs_one_good_line(write: WriteLog) -> None:
    with pytest.raises(BadTrace, match="no job line can be read, 2 are malformed"):
        read_swf(write("1 2 3", "a b c"), lenient=True)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    truncated = tmp_path / "a.swf.gz"
    truncated.write_bytes(gzip.compress(line().encode())[:-4])
    assert refused(truncated)[0] == ": the gzip file ends too early"
    assert refused(tmp_path)[0] == ": is a directory"
    assert refused(tmp_path / "gone.swf")[0] == ": no such file"
    binary = tmp_path / "b.swf"
    binary.write_bytes(b"\x89PNG\0")
    assert refused(binary)[0] == ": is a binary file"


# Jobs, processors, Unix start, zone, rejected and jobs without estimate of every log.
REAL_LOGS = {
    "ANL-Intrepid_first10000": (10_000, 163_840, 1_231_135_224, "America/Chicago", 0, 0),
    "CEA-curie": (295_540, 80_640, None, None, 0, 0),
    "CTC-SP2": (77_199, 338, 835_466_429, None, 0, 0),
    "KTH-SP2-1996-2.1-cln": (28_475, 100, 843_480_031, "Europe/Stockholm", 1, 0),
    "KTH-SP2": (28_481, 100, 843_480_031, None, 0, 0),
    "KTH_common": (28_467, 100, 843_480_031, "Europe/Stockholm", 0, 0),
    "LCG-2005": (188_041, 24_515, 1_132_444_805, "Europe/London", 0, 0),
    "LLNL-Atlas-2006-2.1-cln": (39_207, 9_216, 1_163_199_901, "US/Pacific", 4_571, 6_294),
    "SDSC-BLUE": (232_542, 1_152, None, None, 0, 0),
    "SDSC-SP2-5K_common": (4_606, 128, 893_466_664, "US/Pacific", 0, 0),
    "SDSC-SP2": (54_006, 128, 893_466_664, None, 0, 0),
    "SDSC-SP2_first5000": (4_606, 128, 893_466_664, "US/Pacific", 355, 0),
    "XSEDE-synthetic_test": (4_100, None, None, None, 0, 0),
    "lublin99_ref_1000jobs": (1_000, None, None, None, 0, 1_000),
    "lublin99_tsafrir05_1000jobs": (1_000, None, None, None, 0, 0),
    "lublin_256": (10_000, None, None, None, 0, 10_000),
    "theta_2022": (23_911, 4_360, 0, None, 0, 0),
}


@pytest.mark.parametrize("name", REAL_LOGS)
def test_real_logs(shared: Path, name: str) -> None:
    trace = read_swf(shared / "data" / "traces" / f"{name}.swf.gz")
    rejected = sum(len(each.job_ids) for each in trace.rejected)
    without_estimate = len(trace.without_estimate)
    noted = [note for note in trace.notes if note.startswith(f"{without_estimate:,} jobs without an estimate")]
    assert bool(noted) == bool(without_estimate)
    found = (len(trace.jobs), trace.processors, trace.unix_start_s, trace.time_zone, rejected, without_estimate)
    assert found == REAL_LOGS[name]
    assert (np.diff(trace.jobs.submit_s) >= 0).all()
    assert (trace.jobs.size > 0).all()
    assert (trace.jobs.estimate_s >= 0).all()


def test_every_real_log_is_in_the_table(shared: Path) -> None:
    files = {path.name.removesuffix(".swf.gz") for path in (shared / "data" / "traces").glob("*.swf.gz")}
    assert files == set(REAL_LOGS)


def test_a_long_log_takes_little_more_memory_than_its_columns(monkeypatch, tmp_path):
    """Text is parsed block by block, and no second copy of the columns is made: 8 bytes for each of 11 numbers."""
    monkeypatch.setattr(swf_lines, "BLOCK_BYTES", 1 << 18)
    jobs = lublin_jobs(150_000, machine_size=128, seed=1, load=0.7)
    write_swf(jobs, tmp_path / "long.swf", processors=128, unix_start_s=None, zone=None)
    text = (tmp_path / "long.swf").read_bytes()
    tracemalloc.start()
    trace = swf_trace(LongText(text), "long.swf", lenient=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace.jobs) == len(jobs)
    assert peak < 120 * len(jobs)


@pytest.mark.parametrize("at", [0, 1, 2999])
def test_a_malformed_line_in_any_block_is_named(monkeypatch, at):
    monkeypatch.setattr(swf_lines, "BLOCK_BYTES", 2000)
    lines = [" ".join(map(str, [number, number, *[1] * 16])) for number in range(1, 3001)]
    whole = swf_trace(LongText("\n".join(lines).encode()), "x.swf", lenient=False)
    assert whole.jobs.job_id.tolist() == list(range(1, 3001))
    lines[at] += " surplus"
    with pytest.raises(BadTrace, match=f"x.swf:{at + 1}:"):
        swf_trace(LongText("\n".join(lines).encode()), "x.swf", lenient=False)
    lenient = swf_trace(LongText("\n".join(lines).encode()), "x.swf", lenient=True)
    assert (len(lenient.jobs), lenient.skipped_lines) == (2999, 1)
