"""Accounting logs as job logs: which jobs count, which are set aside and why, and recorded logs of real servers."""

from datetime import timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.traces.pbs.read import looks_like_pbs, pbs_trace

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")


def record(kind: str, job: str, attributes: str = "") -> bytes:
    return f"11/20/2026 21:57:22;{kind};{job};{attributes}\n".encode()


def ended(
    job: str, start: int = 100, end: int = 200, *, queued: int = 50, where: str = "n001/0-7", more: str = ""
) -> bytes:
    times = f"ctime={queued} qtime={queued} etime={queued} start={start} exec_host={where} {more}end={end}"
    return record("E", job, f"user=alice group=users jobname=cfd queue=batch {times} Exit_status=0")


def earlier(line: bytes, minutes: int) -> bytes:
    return line.replace(b"21:57:22", f"21:{57 - minutes}:22".encode())


def read(*lines: bytes, lenient: bool = False) -> Trace:
    return pbs_trace(LongText(b"".join(lines)), "20261120", lenient=lenient, zone=BERLIN)


def refused(*lines: bytes, lenient: bool = False) -> str:
    with pytest.raises(BadTrace) as caught:
        read(*lines, lenient=lenient)
    assert caught.value.hint
    return str(caught.value)


def test_an_end_record_becomes_a_job() -> None:
    more = "Resource_List.walltime=00:10:00 resources_used.energy_used=40000 "
    trace = read(record("Q", "31.head", "queue=batch"), record("S", "31.head"), ended("31.head", more=more))
    jobs = trace.jobs
    assert (jobs.job_id[0], jobs.submit_s[0], jobs.logged_start_s[0], jobs.runtime_s[0]) == (31, 50, 100, 100)
    assert (jobs.estimate_s[0], jobs.size[0], trace.units_per_node, jobs.node_power_w[0]) == (600, 1, 1, 400.0)
    assert (trace.name, trace.unix_start_s, trace.time_zone) == ("20261120", 0, "Europe/Berlin")
    assert (trace.names.user, trace.names.group, trace.names.queue) == (("alice",), ("users",), ("batch",))
    assert (trace.rejected, trace.notes) == ((), ())


def test_unmeasured_energy_is_unknown() -> None:
    trace = read(ended("1.head", more="resources_used.energy_used=0 "), ended("2.head"))
    assert np.isnan(trace.jobs.node_power_w).all()


def test_a_clock_that_is_a_fixed_offset_is_kept() -> None:
    zone = timezone(timedelta(hours=-5))
    assert pbs_trace(LongText(ended("1.head")), "log", lenient=False, zone=zone).time_zone == "UTC-05:00"


def test_jobs_without_an_end_are_set_aside_with_the_reason() -> None:
    lines = [record(kind, f"{number}.head") for number, kind in enumerate("QDASR", 1)]
    trace = read(*lines, record("S", "1.head"), record("Q", "9.head"), ended("9.head"), record("L", "license"))
    assert trace.rejected == (
        RejectedJobs("still running at the end of the log", (1, 4)),
        RejectedJobs("put back in the queue and not started again", (5,)),
        RejectedJobs("never started", (2, 3)),
    )


def test_runs_without_time_or_processors_are_set_aside() -> None:
    trace = read(ended("1.head", end=50), ended("2.head", where="n001/0*0"), ended("3.head"))
    assert trace.rejected == (RejectedJobs("run time unknown", (1,)), RejectedJobs("no processors", (2,)))
    assert trace.jobs.job_id.tolist() == [3]


def test_an_end_that_stands_twice_counts_once_and_the_later_one_wins() -> None:
    trace = read(ended("1.head", end=200), ended("1.head", end=230))
    assert trace.jobs.runtime_s.tolist() == [130]
    assert "end records that stand twice: 1, the later one counts" in trace.notes


def test_each_run_of_a_job_counts_and_queues_from_the_end_of_the_one_before() -> None:
    again = [record("R", "1.head"), record("Q", "1.head"), record("S", "1.head")]
    trace = read(record("S", "1.head"), ended("1.head"), *again, ended("1.head", 300, 400), ended("2.head", 600, 610))
    assert trace.jobs.submit_s.tolist() == [50, 50, 200]
    assert [trace.names.job_text(number) for number in trace.jobs.job_id.tolist()] == ["1", "2", "1"]
    assert trace.notes[-1] == "runs of a job that had run before: 1, each counts as a job of its own"


def test_starts_that_went_back_to_the_queue_are_left_out_with_a_note() -> None:
    starts = [record("S", "1.head"), record("R", "1.head"), record("S", "1.head"), record("S", "1.head")]
    trace = read(*starts, ended("1.head"))
    assert len(trace.jobs) == 1
    assert trace.notes[-1] == "starts of a job that went back to the queue: 2, left out"


def test_nodes_that_a_job_released_are_its_own_until_then() -> None:
    end = ended("1.head", end=7300, where="n001/0-7+n002/0-7+n003/0-7+n004/0-7")
    trace = read(
        record("S", "1.head"),
        earlier(record("c", "1.head", "exec_host=n001/0-7+n002/0-7"), 40),
        earlier(record("c", "1.head", "exec_host=n001/0-7"), 10),
        end,
        end,
        ended("2.head"),
    )
    jobs = trace.jobs
    names = map(trace.names.job_text, jobs.job_id.tolist())
    found = dict(zip(names, zip(jobs.size.tolist(), jobs.runtime_s.tolist(), strict=True), strict=True))
    assert found == {"1": (1, 7200), "1-released4": (2, 4800), "1-released2": (1, 6600), "2": (1, 100)}
    note = "jobs that released nodes before their end: 1; these nodes count as jobs of their own till then"
    assert trace.notes[-1] == note


def test_a_release_that_cannot_be_told_leaves_the_job_its_nodes() -> None:
    same_host = earlier(record("c", "1.head", "exec_host=n001/0-3+n002/0-7"), 1)
    too_early = earlier(record("c", "2.head", "exec_host=n001/0-7"), 40)
    where = "n001/0-7+n002/0-7"
    trace = read(same_host, too_early, ended("1.head", where=where), ended("2.head", where=where))
    assert trace.jobs.size.tolist() == [2, 2]
    assert not any("released" in note for note in trace.notes)


def test_a_log_in_which_nothing_ended_has_no_jobs() -> None:
    trace = read(record("Q", "1.head"), record("S", "2.head"))
    assert (len(trace.jobs), [each.job_ids for each in trace.rejected]) == (0, [(2,), (1,)])


EVENTS = st.lists(st.tuples(st.sampled_from("QDSRE"), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9)))


@given(EVENTS.filter(bool))
def test_lines_in_any_order_are_sorted_out_as_if_each_job_were_an_object(
    events: list[tuple[str, int, int, int]],
) -> None:
    """Of the records of a job and start the last one counts, and of a job's other lines too."""
    runs: dict[tuple[int, int], int] = {}
    last: dict[int, str] = {}
    went_back = repeated = 0
    lines = []
    for kind, job, start_s, runtime_s in events:
        lines.append(ended(f"{job}.h", start_s, start_s + runtime_s) if kind == "E" else record(kind, f"{job}.h"))
        if kind == "E":
            repeated += (job, start_s) in runs
            runs[job, start_s] = runtime_s
        elif kind in "SR":
            went_back += last.get(job) == "S"
        if kind in "SRE":
            last[job] = kind
        else:
            last.setdefault(job, "Q")
    trace = read(*lines)
    jobs = trace.jobs
    called = [int(trace.names.job_text(number)) for number in jobs.job_id.tolist()]
    found = zip(called, jobs.logged_start_s.tolist(), jobs.runtime_s.tolist(), strict=True)
    assert sorted(found) == sorted((*run, runtime_s) for run, runtime_s in runs.items())
    left = [[job for job, news in last.items() if news == kind] for kind in "SRQ"]
    rejected = [[int(trace.names.job_text(number)) for number in each.job_ids] for each in trace.rejected]
    assert rejected == [jobs_left for jobs_left in left if jobs_left]
    again = len(runs) - len({job for job, _ in runs})
    for count, note in ((went_back, "starts of"), (repeated, "end records"), (again, "runs of a job")):
        assert [int(text.split(": ")[1].split(",")[0]) for text in trace.notes if text.startswith(note)] == (
            [count] if count else []
        )


def test_members_of_arrays_are_jobs_and_arrays_are_not() -> None:
    array = [record("Q", "3[].head"), record("S", "3[].head"), record("E", "3[].head", "nothing")]
    trace = read(*array, ended("3[1].head"), ended("3[2].head"), record("S", "3[3].head"))
    assert [trace.names.job_text(number) for number in trace.jobs.job_id.tolist()] == ["3[1]", "3[2]"]
    assert [trace.names.job_text(number) for number in trace.rejected[0].job_ids] == ["3[3]"]


def test_a_clock_set_back_never_makes_a_job_start_before_it_was_queued() -> None:
    jobs = read(ended("1.head", start=40, queued=50)).jobs
    assert (jobs.submit_s[0], jobs.logged_start_s[0]) == (40, 40)


def test_jobs_come_sorted_by_submission() -> None:
    jobs = read(ended("1.head", queued=70), ended("2.head", queued=60), ended("3.head", queued=70)).jobs
    assert jobs.job_id.tolist() == [2, 1, 3]


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_a_half_written_last_line_is_left_out_with_a_note(cut: int) -> None:
    trace = read(ended("1.head"), ended("2.head")[:-cut])
    assert trace.jobs.job_id.tolist() == [1]
    assert trace.notes[-1] == "the last line is cut off and left out"


def test_windows_line_ends_blank_lines_and_foreign_bytes() -> None:
    log = record("Q", "1.head", "queue=batch") + b"\n  \n" + ended("1.head").replace(b"=cfd", b"=c\xfcd;\x01")
    trace = read(log.replace(b"\n", b"\r\n"))
    assert (trace.names.application, trace.names.queue) == (("c�d;\x01",), ("batch",))


BAD_LINES = [
    (b"1 2 3\n", "not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;JOB;...)"),
    (b"11/20/2026 21:57:22;E;7.head\n", "not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;JOB;...)"),
    (ended("7.head", where="elsewhere"), "exec_host cannot be read: 'elsewhere'"),
    (
        ended("7.head").replace(b" end=", b" x="),
        "an E record without one of its times (ctime, qtime, etime, start, end)",
    ),
]


@pytest.mark.parametrize(("bad", "fault"), BAD_LINES)
def test_a_malformed_line_is_refused_with_its_number_or_skipped(bad: bytes, fault: str) -> None:
    assert refused(ended("1.head"), b"\n", bad, ended("2.head")) == f"20261120:3: {fault}"
    trace = read(ended("1.head"), b"\n", bad, ended("2.head"), bad, lenient=True)
    assert (trace.skipped_lines, trace.jobs.job_id.tolist()) == (2, [1, 2])


def test_logs_without_records_are_refused() -> None:
    assert refused() == "20261120: is empty"
    assert refused(b"\n \n") == "20261120: has no records"
    assert refused(record("L", "license")) == "20261120: has no records"
    assert refused(b"a\n", b"b\n", lenient=True) == "20261120: no record can be read, 2 lines are malformed"


def test_an_accounting_log_is_recognised_by_its_lines() -> None:
    assert looks_like_pbs(b"\r\n" + record("Q", "1.head", "queue=batch")[:45])
    assert looks_like_pbs(record("L", "license"))
    assert not looks_like_pbs(b"; MaxProcs: 128\n1 0 -1 60 4\n")
    assert not looks_like_pbs(b"JobID|State\n1|COMPLETED\n")
    assert not looks_like_pbs(b"")


# Jobs, processors a node, jobs set aside by reason and the names of array members of every recorded log.
RECORDED = {
    "torque/A_accounting.txt": (7, 2, {"still running": 8, "never started": 32}),
    "torque/v4.2.10/accounting.txt": (2, 2, {"still running": 6, "never started": 10}),
    "openpbs/G_accounting.txt": (80, 8, {"never started": 311}),
}


@pytest.mark.parametrize("log", RECORDED)
def test_recorded_logs(shared: Path, log: str) -> None:
    trace = pbs_trace(LongText((shared / "data/captures" / log).read_bytes()), log, lenient=False, zone=BERLIN)
    jobs, units_per_node, rejected = RECORDED[log]
    assert (len(trace.jobs), trace.units_per_node) == (jobs, units_per_node)
    assert [len(each.job_ids) for each in trace.rejected] == list(rejected.values())
    assert all(each.reason.startswith(reason) for each, reason in zip(trace.rejected, rejected, strict=True))
    assert (trace.jobs.logged_start_s >= trace.jobs.submit_s).all()
    assert len(set(trace.jobs.job_id.tolist())) == jobs


def test_the_recorded_log_of_openpbs_in_detail(shared: Path) -> None:
    log = shared / "data/captures/openpbs/G_accounting.txt"
    trace = pbs_trace(LongText(log.read_bytes()), "openpbs", lenient=False, zone=BERLIN)
    which = trace.jobs.job_id.tolist().index(2)
    job = trace.jobs.take(np.array([which]))
    assert (job.submit_s[0], job.runtime_s[0], job.estimate_s[0], job.size[0]) == (1_795_211_379, 62, 3_600, 8)
    assert trace.names.group[int(job.group[0])] == "proj_aero"
    assert {f"3[{member}]" for member in range(1, 7)} <= set(trace.names.job.values())
