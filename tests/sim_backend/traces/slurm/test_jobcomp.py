"""Logs of jobcomp/filetxt: what their lines mean, what is refused, and recordings of real ones."""

from datetime import UTC
from pathlib import Path

import pytest

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.traces.slurm import fields as blocks
from offpeak.sim_backend.traces.slurm.read import jobcomp_trace, looks_like_jobcomp

pytestmark = pytest.mark.quick

TEN = 1_795_168_800  # 2026-11-20 10:00 UTC


def line(number: int = 1, **changed: str) -> str:
    fields = {
        "JobId": str(number),
        "UserId": "user1(1001)",
        "GroupId": "group1(1001)",
        "Name": "app1",
        "JobState": "COMPLETED",
        "Partition": "batch",
        "TimeLimit": "30",
        "StartTime": "2026-11-20T10:05:00",
        "EndTime": "2026-11-20T10:15:00",
        "NodeList": "node[1-2]",
        "NodeCnt": "2",
        "ProcCnt": "96",
        "WorkDir": "/home/user1",
        "ReservationName": "",
        "Tres": "cpu=96,node=2",
        "Account": "project1",
        "QOS": "normal",
        "Cluster": "c",
        "SubmitTime": "2026-11-20T10:00:00",
        "EligibleTime": "2026-11-20T10:01:00",
    } | changed
    return " ".join(f"{key}={value}" for key, value in fields.items()) + " DerivedExitCode=0:0 ExitCode=0:0 \n"


def read(text: str, *, lenient: bool = False) -> Trace:
    return jobcomp_trace(LongText(text.encode()), "a.log", lenient=lenient, zone=UTC)


def refused(text: str) -> str:
    with pytest.raises(BadTrace) as caught:
        read(text)
    assert caught.value.hint
    return str(caught.value)


def test_a_line_becomes_a_job() -> None:
    trace = read(line(7, Name="an app of = signs", WorkDir="/home/with blanks/x"))
    jobs = trace.jobs
    assert (jobs.job_id[0], jobs.runtime_s[0], jobs.estimate_s[0], jobs.size[0]) == (7, 600, 1800, 2)
    assert (jobs.submit_s[0], jobs.logged_start_s[0]) == (TEN + 60, TEN + 300)
    names = trace.names
    assert (names.user, names.group, names.application) == (("user1",), ("project1",), ("an app of = signs",))
    assert trace.notes == ()


def test_arrays_and_heterogeneous_jobs_keep_their_names() -> None:
    text = line(23, EligibleTime="2026-11-20T10:01:00 ArrayJobId=12 ArrayTaskId=4")
    text += line(17, EligibleTime="2026-11-20T10:01:00 HetJobId=16 HetJobOffset=1")
    text += line(19, EligibleTime="2026-11-20T10:01:00 PackJobId=18 PackJobOffset=1") + line(20)
    assert read(text).names.job == {23: "12_4", 17: "16+1", 19: "18+1"}


def test_jobs_that_never_started_and_runs_of_one_job() -> None:
    text = line(1, StartTime="Unknown", JobState="CANCELLED", NodeCnt="0") + line(2, TimeLimit="UNLIMITED")
    text += line(3, JobState="NODE_FAIL") + line(3, StartTime="2026-11-20T10:10:00") + line(3)
    trace = read(text)
    assert trace.rejected == (RejectedJobs("never started", (1,)),)
    assert sorted(trace.jobs.job_id.tolist()) == [2, 3, 3]
    assert trace.notes == (
        "1 job without a time limit: the run time is used",
        "1 more run of requeued jobs: counted as jobs of their own",
        "1 line of a job that is there already: left out",
    )


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("JobId=4 UserId=user1(1001)\n", "is not a line of jobcomp/filetxt"),
        (line(4, SubmitTime="Fr 20"), "is not a line of jobcomp/filetxt"),
        (line(4, EndTime="20.11.2026"), "End is not a time: '20.11.2026'"),
        (line(4, TimeLimit="soon"), "TimelimitRaw is not a value that Slurm writes: 'soon'"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(bad: str, fault: str) -> None:
    text = line(1) + "\n  \n" + bad + line(2)
    assert refused(text) == f"a.log:4: {fault}"
    trace = read(text, lenient=True)
    assert (trace.jobs.job_id.tolist(), trace.skipped_lines) == ([1, 2], 1)


def test_a_file_that_is_being_written_lacks_its_last_line() -> None:
    trace = read(line(1) + line(2)[:100])
    assert trace.jobs.job_id.tolist() == [1]
    assert trace.notes == ("the last line is cut off and left out: the file was still being written",)


def test_names_need_not_be_unicode_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 700)
    text = "".join(line(number, Name="caf\xe9") for number in range(50)).encode("latin-1")
    trace = jobcomp_trace(LongText(text), "a.log", lenient=False, zone=UTC)
    assert (trace.jobs.job_id.tolist(), trace.names.application) == (list(range(50)), ("caf\ufffd",))


def test_a_log_without_jobs_is_refused() -> None:
    assert refused("\n") == "a.log: holds no jobs"
    assert refused("") == "a.log: is empty"


def test_recordings_of_real_logs(shared: Path) -> None:
    recordings = sorted((shared / "data" / "captures" / "slurm").glob("*/jobcomp.log"))
    assert len(recordings) >= 4
    for path in recordings:
        text = path.read_bytes()
        assert looks_like_jobcomp(text[:4096])
        trace = jobcomp_trace(LongText(text), path.name, lenient=False, zone=UTC)
        assert len(trace.jobs) == len(text.splitlines())
        assert (trace.rejected, trace.notes, trace.names.user) == ((), (), ("root",))
    assert trace.names.job == {16: "16+0", 17: "16+1", 19: "12_1"}


def test_other_texts_are_not_taken_for_one() -> None:
    assert not looks_like_jobcomp(b"JobId=4 JobName=run\n   UserId=root(0) GroupId=root(0)\n")
    assert not looks_like_jobcomp(b"JobID|User\n")
