"""The text of squeue, whatever users write into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.slurm.commands import CannotAskSlurm
from offpeak.plugin.slurm.jobs import (
    ARRAYS_ARGUMENTS,
    BASE_STATES,
    SQUEUE_COLUMNS,
    STATE_FLAGS,
    job_state,
    jobs_of_text,
    parse_task_limits,
    select_state,
    separator,
)
from offpeak.plugin.slurm.scheduler import LIMITS_LAST_S, TextReader

pytestmark = pytest.mark.quick

END = "\x1eabc"
USUAL = {
    "JobID": "7",
    "JobArrayID": "7",
    "HetJobID": "N/A",
    "State": "PENDING",
    "Reason": "Priority",
    "PriorityLong": "4294901758",
    "Nice": "-50",
    "NumNodes": "2-4",
    "NumCPUs": "8",
    "Partition": "b,a",
    "OverSubscribe": "OK",
    "TimeLimit": "UNLIMITED",
    "SubmitTime": "1795285863",
    "EligibleTime": "N/A",
    "Dependency": "(null)",
}


HEAD = f"JOBID{separator(END)}STATE{END}\n".encode()


def row(**others: str) -> bytes:
    parsed = USUAL | others
    return (separator(END).join(parsed.get(column, "") for column in SQUEUE_COLUMNS) + f"{END}\n").encode(
        "utf-8", "surrogateescape"
    )


def job(**others: str) -> Job:
    (only,) = jobs_of_text(HEAD + row(**others), END)
    return only


def test_job_record_is_parsed() -> None:
    parsed = job()
    assert (parsed.priority, parsed.offset, parsed.nodes, parsed.partitions) == (4_294_901_758, 50, 2, ("b", "a"))
    assert (parsed.limit_s, parsed.begin_s, parsed.submit_s, parsed.plain) == (None, None, 1_795_285_863, True)
    assert job(JobArrayID="7_[1-9%2]").plain
    assert not job(JobID="8", JobArrayID="7_3").plain
    assert not job(HetJobID="7", JobArrayID="7+0").plain
    assert not job(Dependency="afterok:5(unfulfilled)").plain


@given(st.text(max_size=20), st.text(max_size=20), st.binary(max_size=20))
def test_no_name_and_no_comment_makes_another_job(name: str, comment: str, rubbish: bytes) -> None:
    name += rubbish.decode("utf-8", "surrogateescape")
    names = {"Name": name.encode("utf-8", "replace").decode(), "Comment": comment.encode("utf-8", "replace").decode()}
    if END in "".join(names.values()):
        return
    jobs = jobs_of_text(HEAD + row(**names) + row(JobID="8", JobArrayID="8"), END)
    assert [parsed.job_id for parsed in jobs] == ["7", "8"]
    assert jobs[0]._replace(name="", comment="") == job()
    assert jobs[1]._replace(job_id="7") == job()


def test_a_forged_record_stays_a_name() -> None:
    forged = f"x\n{row(JobID='1', JobArrayID='1').decode().replace(END, '')}"
    assert job(Name=forged).name == forged


def test_the_tasks_of_an_array_are_one_job() -> None:
    tasks = b"".join(row(JobArrayID=f"7_{task}") for task in range(3))
    own = row(JobID="9", JobArrayID="7_5", PriorityLong="5")
    found = [(parsed.job_id, parsed.plain, parsed.tasks) for parsed in jobs_of_text(HEAD + tasks + own, END)]
    assert found == [("7", True, 3), ("9", False, 1)]
    assert parse_task_limits(b"JOBID|ARRAY_TASK_ID\n7|0-2%2\n8|N/A\n") == {"7": 2}


def test_the_limit_of_an_array_is_read_once_and_that_of_a_new_array_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, now_s, arrays = [], [0.0], ["7"]

    def answer(program: str, *arguments: str, **_: float) -> bytes:
        queries.append(arguments)
        if program == "scontrol":
            return b""
        if arguments == ARRAYS_ARGUMENTS:
            return b"JOBID|ARRAY_TASK_ID\n7|0-2%2\n8|0-9%4\n"
        end = arguments[-1].rpartition(":")[2]
        rows = b"".join(row(JobID=array, JobArrayID=f"{array}_0") for array in arrays)
        return (HEAD + rows).replace(END.encode(), end.encode())

    monkeypatch.setattr("offpeak.plugin.slurm.scheduler.ask", answer)
    reader = TextReader(10.0, clock=lambda: now_s[0])

    def read() -> list[int]:
        return [job.task_limit for job in reader.read().jobs]

    assert [read(), read(), queries.count(ARRAYS_ARGUMENTS)] == [[2], [2], 1]
    arrays.append("8")
    assert [read(), queries.count(ARRAYS_ARGUMENTS)] == [[2, 4], 2]
    now_s[0] = LIMITS_LAST_S + 1
    assert [read(), queries.count(ARRAYS_ARGUMENTS)] == [[2, 4], 3]


def test_a_job_whose_record_changed_is_parsed_anew() -> None:
    known: dict[bytes, Job | None] = {}
    first, _ = jobs_of_text(HEAD + row(PriorityLong="5") + row(JobID="9"), END, known)
    assert first.priority == 5
    assert len(known) == 2
    assert jobs_of_text(HEAD + row(PriorityLong="6"), END, known)[0].priority == 6
    assert len(known) == 1


def test_jobs_share_the_texts_that_are_the_same_in_both() -> None:
    first, second = jobs_of_text(HEAD + row(UserName="ann_of_physics") + row(JobID="9", UserName="ann_of_physics"), END)
    assert first.user == "ann_of_physics"
    assert first.user is second.user
    assert first.partitions is second.partitions


@pytest.mark.parametrize("answer", [b"", b"\n", row(), HEAD[:-3], HEAD + row()[:40], HEAD + row() + row()[:-1]])
def test_an_answer_that_is_not_complete_is_no_answer(answer: bytes) -> None:
    assert jobs_of_text(HEAD, END) == ()
    with pytest.raises(CannotAskSlurm, match="its answer is"):
        jobs_of_text(answer, END)


@pytest.mark.parametrize(
    ("state", "reason", "priority", "means"),
    [
        ("PENDING", "None", "5", JobState.PENDING),
        ("PENDING", "Priority", "0", JobState.HELD),
        ("PENDING", "JobHeldUser", "2", JobState.HELD),
        ("PENDING", "BeginTime", "5", JobState.PENDING),
        ("CONFIGURING", "None", "5", JobState.STARTS),
        ("STAGE_OUT", "None", "5", JobState.ENDS),
        ("REQUEUED", "None", "5", JobState.ENDS),
        ("SPECIAL_EXIT", "None", "0", JobState.HELD),
        ("OUT_OF_MEMORY", "OutOfMemory", "5", JobState.ENDED),
        ("DREAMING", "None", "5", JobState.OTHER),
    ],
)
def test_job_states_are_parsed(state: str, reason: str, priority: str, means: JobState) -> None:
    assert job(State=state, Reason=reason, PriorityLong=priority).state is means


def test_job_in_an_unknown_state_may_hold_nodes() -> None:
    assert job_state("", "", 5) in HOLDING
    assert job_state(select_state(["RUNNING", "DREAMING"]), "", 5) is JobState.OTHER


@given(st.sampled_from(sorted(BASE_STATES)), st.sets(st.sampled_from(sorted(STATE_FLAGS)), max_size=3))
def test_one_of_several_states_is_shown(base: str, flags: set[str]) -> None:
    shown = select_state([base, *flags])
    assert shown in {base, *flags, "CONFIGURING"}
    assert select_state([*flags, base, "UPDATE_DB"]) == shown
    assert flags or shown == base
