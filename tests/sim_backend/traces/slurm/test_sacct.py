"""Dumps of `sacct`: what their lines mean, what is refused and how, and recordings of real ones."""

from collections.abc import Iterator
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.plugin.slurm.accounting import SACCT_COLUMNS
from offpeak.settings.replay import MachineSettings
from offpeak.sim_backend.case.machine_size import units_of
from offpeak.sim_backend.traces.slurm import fields as blocks
from offpeak.sim_backend.traces.slurm.fields import SACCT_COMMAND, looks_like_sacct
from offpeak.sim_backend.traces.slurm.read import sacct_trace

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
RAN = {
    "JobIDRaw": "1",
    "JobID": "1",
    "User": "user1",
    "Account": "project1",
    "Partition": "batch",
    "State": "COMPLETED",
    "Submit": "2026-11-20T10:00:00",
    "Eligible": "2026-11-20T10:00:00",
    "Start": "2026-11-20T10:05:00",
    "End": "2026-11-20T10:15:00",
    "ElapsedRaw": "600",
    "TimelimitRaw": "30",
    "AllocNodes": "2",
    "AllocCPUS": "96",
    "ConsumedEnergyRaw": "60000",
    "ReqTRES": "billing=96,cpu=96,mem=16G,node=2",
    "AllocTRES": "billing=96,cpu=96,mem=16G,node=2",
    "QOS": "normal",
    "Reservation": "",
    "Constraints": "",
    "NodeList": "n[1-2]",
    "Priority": "1000",
    "JobName": "app1",
}
TEN = 1_795_168_800  # 2026-11-20 10:00 UTC
WAITS = {"Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "AllocCPUS": "0", "State": "PENDING"}
RUNS = {"End": "Unknown", "State": "RUNNING"}


def job(number: object = 1, **changed: object) -> dict[str, str]:
    return RAN | {"JobIDRaw": str(number), "JobID": str(number)} | {name: str(value) for name, value in changed.items()}


MINIMAL = ("JobIDRaw", "State", "Submit", "Start", "End", "AllocCPUS")


def dump(*jobs: dict[str, str], columns: tuple[str, ...] = SACCT_COLUMNS, delimiter: str = "|", end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in (columns, *([row[name] for name in columns] for row in jobs)))


def read(text: str | bytes, *, lenient: bool = False, zone: tzinfo = UTC) -> Trace:
    return sacct_trace(LongText(text.encode() if isinstance(text, str) else text), "a.txt", lenient=lenient, zone=zone)


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(BadTrace) as caught:
        read(text)
    return str(caught.value), caught.value.hint


def ids(trace: Trace) -> list[int]:
    return sorted(trace.jobs.job_id.tolist())


def test_a_line_becomes_a_job() -> None:
    trace = read(dump(job(7, Submit="2026-11-20T09:00:00")), zone=BERLIN)
    jobs = trace.jobs
    assert (jobs.job_id[0], jobs.runtime_s[0], jobs.estimate_s[0], jobs.size[0]) == (7, 600, 1800, 2)
    assert (jobs.submit_s[0], jobs.logged_start_s[0]) == (TEN - 3600, TEN - 3300)
    assert jobs.node_power_w[0] == 50.0
    assert (trace.names.user, trace.names.group, trace.names.queue) == (("user1",), ("project1",), ("batch",))
    assert (trace.name, trace.time_zone, trace.unix_start_s) == ("a.txt", "Europe/Berlin", 0)
    assert (trace.notes, trace.rejected, trace.skipped_lines) == ((), (), 0)


@pytest.mark.parametrize("delimiter", ["|", "\x1f", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "|\n"])
def test_delimiters_and_line_ends(delimiter: str, end: str) -> None:
    text = dump(job(1), job(2, JobName=""), delimiter=delimiter, end=end.replace("|", delimiter))
    assert ids(read(text)) == [1, 2]


def test_any_order_and_the_columns_that_stand_for_others() -> None:
    columns = ("AllocTRES", "State", "Elapsed", "Start", "JobID", "Submit", "Timelimit", "ConsumedEnergy", "Comment")
    spelt = {"Elapsed": "1-00:10:00", "Timelimit": "2-00:00:00", "ConsumedEnergy": "8.70M", "Comment": "a"}
    trace = read(dump(job(AllocTRES="billing=96,cpu=96,energy=5,mem=4000M,node=2", **spelt), columns=columns))
    assert (trace.jobs.runtime_s[0], trace.jobs.estimate_s[0], trace.jobs.size[0]) == (87_000, 172_800, 2)
    assert trace.jobs.node_power_w[0] == 50.0
    assert trace.names.user == ()


def test_processors_alone_or_nodes_alone_will_do() -> None:
    for size, notes in (("AllocCPUS", 1), ("NNodes", 0)):
        trace = read(dump(job(NNodes="96"), columns=("JobID", "Submit", "Start", "End", "State", size)))
        assert (trace.jobs.size.tolist(), trace.jobs.runtime_s.tolist(), len(trace.notes)) == ([96], [600], 1 + notes)


def test_missing_columns_are_named_all_at_once_with_the_command() -> None:
    message, hint = refused("JobID|State|User\n1|COMPLETED|user1\n")
    assert message == "a.txt:1: has no columns Submit, Start, End, AllocCPUS"
    assert hint == f"`{SACCT_COMMAND}`"
    assert refused(dump(job(), columns=SACCT_COLUMNS[:8] + SACCT_COLUMNS[9:]))[0] == "a.txt:1: has no column Start"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.txt: is empty"),
        ("\n \n", "a.txt: is empty"),
        ("|".join(SACCT_COLUMNS), "a.txt: holds no jobs"),
        (dump(job("1.batch")), "a.txt: holds no jobs"),
        ("JobID    JobName   State\n----- ---- ---\n", "a.txt: is laid out for people, its values may be cut off"),
        (
            "Slurm accounting storage is disabled\n",
            "a.txt:1: is a message of sacct, not its answer: 'Slurm accounting storage is disabled'",
        ),
    ],
)
def test_texts_without_jobs_are_refused(text: str, message: str) -> None:
    found, hint = refused(text)
    assert found == message
    assert hint


def test_steps_are_left_out_and_lend_their_energy() -> None:
    rows = [
        job(1, ConsumedEnergyRaw=""),
        job("1.batch", ConsumedEnergyRaw=30_000),
        job("1.0", ConsumedEnergyRaw=15_000),
    ]
    rows += [job(2, ConsumedEnergyRaw=0), job("2.batch", ConsumedEnergyRaw=9), job("2.extern", ConsumedEnergyRaw=1200)]
    rows += [job(3, ConsumedEnergyRaw=2400), job("3.batch", ConsumedEnergyRaw=7)]
    rows += [job(4, ConsumedEnergyRaw=""), job("4.batch", ConsumedEnergyRaw=""), job("99.0", ConsumedEnergyRaw=5)]
    np.testing.assert_array_equal(read(dump(*rows)).jobs.node_power_w, [37.5, 1.0, 2.0, np.nan])


@pytest.mark.parametrize("garbage", [18446744073709551614, 4294967294, 20_000 * 2 * 600 + 1])
def test_absurd_energies_are_unknown(garbage: int) -> None:
    trace = read(dump(job(1, ConsumedEnergyRaw=garbage), job(2), job(3, ConsumedEnergyRaw="n/a")))
    np.testing.assert_array_equal(trace.jobs.node_power_w, [np.nan, 50.0, np.nan])
    assert trace.notes == ("1 job with an absurd energy reading: taken as not measured",)


def test_arrays_and_heterogeneous_jobs_keep_their_names() -> None:
    rows = [job(12, JobID="12_[5-6%2]", **WAITS), job(23, JobID="12_4"), job(17, JobID="16+1"), job(8)]
    trace = read(dump(*rows))
    assert trace.names.job == {12: "12_[5-6%2]", 23: "12_4", 17: "16+1"}
    assert trace.rejected == (RejectedJobs("never started", (12,)),)
    unnumbered = tuple(name for name in SACCT_COLUMNS if name != "JobIDRaw")
    steps = [job(JobID="12_4.batch", ConsumedEnergyRaw=1200), job(JobID="16+1.0", ConsumedEnergyRaw=2400)]
    without = [row | {"ConsumedEnergyRaw": ""} for row in rows]
    trace = read(dump(*without, *steps, columns=unnumbered))
    assert trace.rejected == (RejectedJobs("never started", (12,)),)
    assert {trace.names.job_text(number) for number in ids(trace)} == {"8", "12_4", "16+1"}
    power_w = {trace.names.job_text(n): w for n, w in zip(trace.jobs.job_id, trace.jobs.node_power_w, strict=True)}
    assert (power_w["12_4"], power_w["16+1"]) == (1.0, 2.0)


def test_jobs_that_never_ran_are_set_aside_with_the_reason() -> None:
    never = {"Start": "None", "ElapsedRaw": "0", "AllocCPUS": "0", "State": "CANCELLED by 12"}
    trace = read(
        dump(
            *(job(1, **WAITS), job(2, **never), job(3, **(never | {"Start": ""}))),
            *(job(4, Start="Unknown"), job(5, AllocCPUS="0"), job(6, AllocNodes="0"), job(7)),
            job(8, **(RUNS | {"ElapsedRaw": ""})),
            job(9, **(never | {"AllocCPUS": "1", "AllocNodes": "1"})),
        )
    )
    assert trace.rejected == (
        RejectedJobs("never started", (1, 2, 3, 9)),
        RejectedJobs("start unknown", (4,)),
        RejectedJobs("run time unknown", (8,)),
        RejectedJobs("no processors or nodes", (5, 6)),
    )
    assert ids(trace) == [7]


def test_running_jobs_count_so_far_and_runaways_do_not() -> None:
    day_and_limit = 86_400 + 1800
    rows = [job(1, **(RUNS | {"ElapsedRaw": day_and_limit})), job(2, **(RUNS | {"ElapsedRaw": day_and_limit + 1}))]
    rows += [job(3, **(RUNS | {"ElapsedRaw": 10**8, "TimelimitRaw": "UNLIMITED", "State": "SUSPENDED"}))]
    trace = read(dump(*rows))
    assert ids(trace) == [1, 3]
    assert trace.notes[1:] == (
        "2 jobs still running: counted with the run time so far",
        "1 job suspended for a time: not counted for the nodes in use at once",
    )
    assert trace.rejected[0].job_ids == (2,)
    assert "sacctmgr show runawayjobs" in trace.rejected[0].reason


def test_each_run_of_a_requeued_job_counts_and_a_line_twice_does_not() -> None:
    longer = job(1, End="2026-11-20T10:20:00", ElapsedRaw="900")
    first = dump(job(1, **(RUNS | {"ElapsedRaw": "60"})), job(2, **WAITS), longer)
    second = dump(job(1), job(1, Start="2026-11-20T12:00:00", State="NODE_FAIL"), job(2))
    trace = read(first + second)
    assert ids(trace) == [1, 1, 2]
    assert sorted(trace.jobs.runtime_s.tolist()) == [600, 600, 900]
    assert trace.rejected == ()
    assert trace.notes == (
        "1 more run of requeued jobs: counted as jobs of their own",
        "2 lines of a job that is there already: left out",
    )


def test_jobs_of_all_states_that_used_nodes_are_kept() -> None:
    states = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED", "DEADLINE")
    others = ("BOOT_FAIL", "CANCELLED by 1000", "FOO")
    rows = [job(number, State=state) for number, state in enumerate((*states, *others))]
    trace = read(dump(*rows))
    assert len(trace.jobs) == len(rows)
    assert trace.notes == ("1 job in an unknown state (FOO): counted as having run",)


def test_states_that_are_cut_to_ten_letters_are_known() -> None:
    cut = ("CANCELLED+", "OUT_OF_ME+", "LAUNCH_FA+", "RECONFIG_+")
    trace = read(
        dump(
            *(job(number, State=state) for number, state in enumerate(cut)), job(9, **(WAITS | {"State": "CANCELLED+"}))
        )
    )
    assert (len(trace.jobs), trace.notes) == (len(cut), ())
    assert [(rejected.reason, rejected.job_ids) for rejected in trace.rejected] == [("never started", (9,))]
    odd = read(dump(job(1, State="REQUEUE_+"), job(2, State="FOO+")))
    assert odd.notes == ("2 jobs in an unknown state (FOO+, REQUEUE_+): counted as having run",)


def test_commas_cannot_separate_columns_that_hold_commas() -> None:
    row = job(1) | {"ReqTRES": "cpu=4,mem=3.5G,node=1"}
    with pytest.raises(BadTrace, match=r"ReqTRES of sacct hold commas") as refused:
        read(dump(row, columns=(*MINIMAL, "ReqTRES", "JobName"), delimiter=","))
    assert refused.value.hint.startswith("--delimiter=';': `sacct ")
    row = job(1) | {"NodeList": "n[1,3]"}
    with pytest.raises(BadTrace, match=r":2: \d+ fields where \d+ are expected"):
        read(dump(row, columns=(*MINIMAL, "NodeList", "JobName"), delimiter=","))
    assert len(read(dump(job(1), job(2), columns=(*MINIMAL, "JobName"), delimiter=",")).jobs) == 2


def test_unlimited_jobs_have_no_estimate() -> None:
    trace = read(dump(*(job(i, TimelimitRaw=text) for i, text in enumerate(["UNLIMITED", "Partition_Limit", "", "2"]))))
    assert trace.jobs.estimate_s.tolist() == [600, 600, 600, 120]
    assert trace.notes == ("3 jobs without a time limit: the run time is used",)
    assert len(trace.without_estimate) == 3


def test_a_start_before_the_submission_counts_as_no_wait() -> None:
    jobs = read(dump(job(1, Eligible="2026-11-20T10:05:01"), job(2, Eligible="2026-11-20T10:04:00"))).jobs
    assert (jobs.logged_start_s - jobs.submit_s).tolist() == [60, 0]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"Start": "Fr 20 Nov 2026"}, "Start is not a time: 'Fr 20 Nov 2026'"),
        ({"Submit": "2026-02-30T10:00:00"}, "Submit is not a time: '2026-02-30T10:00:00'"),
        ({"End": "2026-11-20"}, "End is not a time: '2026-11-20'"),
        ({"AllocCPUS": "many"}, "AllocCPUS is not a value that Slurm writes: 'many'"),
        ({"JobIDRaw": "x"}, "JobIDRaw is not a value that Slurm writes: 'x'"),
        ({"ElapsedRaw": "1_0"}, "ElapsedRaw is not a value that Slurm writes: '1_0'"),
        ({"TimelimitRaw": "1:00"}, "TimelimitRaw is not a value that Slurm writes: '1:00'"),
        ({"Account": "a|b"}, f"{len(SACCT_COLUMNS) + 1} fields where {len(SACCT_COLUMNS)} are expected"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_with_its_number(changed: dict[str, str], fault: str) -> None:
    columns = ("JobName", *SACCT_COLUMNS[:-1])
    bad = dict(job(4), **changed)
    text = dump(job(1), job(2), columns=columns) + "\n" + dump(job(3), bad, job(5), columns=columns)
    message, hint = refused(text)
    assert message == f"a.txt:7: {fault}"
    assert hint
    trace = read(text, lenient=True)
    assert (ids(trace), trace.skipped_lines) == ([1, 2, 3, 5], 1)


def test_foreign_times_name_the_remedy() -> None:
    assert "SLURM_TIME_FORMAT=standard" in refused(dump(job(Submit="ven. 20 nov. 2026")))[1]


def test_surplus_fields_belong_to_the_name_where_it_is_last() -> None:
    trace = read(dump(job(1, JobName="a|b|c"), job(2), job(3, JobName="|"), end="|\n"))
    assert set(trace.names.application) == {"app1", "a|b|c", "|"}
    assert "make JobName the last column" in refused(dump(job(1, JobName="a|b"), columns=SACCT_COLUMNS[::-1]))[1]


def test_names_need_not_be_unicode() -> None:
    text = dump(job(1, JobName="caf\xe9"), job(2, JobName="caf\xe9|")).encode("latin-1")
    assert set(read(text).names.application) == {"caf\ufffd", "caf\ufffd|"}


def test_a_file_that_is_being_written_lacks_its_last_line() -> None:
    whole = dump(job(1), job(2))
    trace = read(whole[: len(whole) - 40])
    assert ids(trace) == [1]
    assert trace.notes == ("the last line is cut off and left out: the file was still being written",)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 300)
    return


@pytest.mark.usefixtures("small_blocks")
def test_the_boundaries_of_blocks_do_not_matter() -> None:
    rows = [job(n, JobID=f"9_{n}" if n % 3 else n, User=f"user{n % 7}", ConsumedEnergyRaw="") for n in range(1, 90)]
    rows += [job(f"{n}.batch", ConsumedEnergyRaw=1200 * n) for n in range(1, 90)]
    trace = read(dump(*rows) + "\n" * 700 + dump(job(1), job(90, JobName="a|b")))
    assert ids(trace) == list(range(1, 91))
    order = np.argsort(trace.jobs.job_id)
    np.testing.assert_allclose(trace.jobs.node_power_w[order], [50.0, *range(2, 90), 50.0])
    assert trace.names.user_text(int(trace.jobs.user[order][12])) == "user6"
    bad = dump(*rows) + dump(job(91, AllocCPUS="?"))
    assert refused(bad)[0].startswith(f"a.txt:{len(rows) + 3}: AllocCPUS")
    assert refused(dump(*rows) + "1|2\n")[0].startswith(f"a.txt:{len(rows) + 2}: 2 fields")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("JobID|JobName|State\n", True),
        ("sacct: error: Invalid field requested\n", True),
        ("       JobID    JobName      State\n", True),
        ("; MaxProcs: 128\n1 0 -1 60\n", False),
        ("JobId=1 UserId=root(0) GroupId=root(0) Name=a State=x\n", False),
        ("utc,price\n2020-01-01,5\n", False),
        ("", False),
    ],
)
def test_a_dump_is_recognised_by_its_header(head: str, expected: bool) -> None:
    assert looks_like_sacct(head.encode()) == expected


def test_recordings_of_real_dumps(shared: Path) -> None:
    recordings = sorted((shared / "data" / "captures" / "slurm").glob("*/sacct_P.txt"))
    assert len(recordings) >= 4
    for path in recordings:
        text = path.read_bytes()
        trace = read(text, zone=BERLIN)
        assert looks_like_sacct(text[:4096])
        started = [line for line in text.decode().splitlines()[1:] if "." not in line.split("|")[0]]
        rejected = sum(len(group.job_ids) for group in trace.rejected)
        assert len(trace.jobs) + rejected == len(started)
        assert {group.reason for group in trace.rejected} == {"never started"}
        assert (trace.jobs.logged_start_s >= trace.jobs.submit_s).all()
        assert trace.units_per_node == 1


def test_the_recorded_priority_is_that_of_each_job() -> None:
    recorded = read(dump(job(1), job(2, Priority=4_294_901_759), job(3, Priority="")))
    assert recorded.jobs.priority is not None
    assert recorded.jobs.priority.tolist() == [1000, 4_294_901_759, -1]
    without = tuple(name for name in SACCT_COLUMNS if name != "Priority")
    assert read(dump(job(1), columns=without)).jobs.priority is None
    assert read(dump(job(1, Priority=""))).jobs.priority is None
    message, _ = refused(dump(job(1), job(2, Priority="high")))
    assert message == "a.txt:3: Priority is not a value that Slurm writes: 'high'"


def test_suspended_jobs_do_not_double_the_machine() -> None:
    """Two jobs take turns on the same nodes (gang scheduling): each runs for half of the time from start to end."""
    turns = {"ElapsedRaw": 300, "NodeList": "n[1-2]"}
    trace = read(dump(job(1, **turns), job(2, **turns), job(3, Start="2026-11-20T11:00:00", End="2026-11-20T11:10:00")))
    assert units_of(trace, MachineSettings()).nodes == 2
    assert trace.notes == ("2 jobs suspended for a time: not counted for the nodes in use at once",)
    running = read(dump(job(1, **(RUNS | turns | {"State": "SUSPENDED"})), job(2, **(RUNS | turns))))
    assert units_of(running, MachineSettings()).nodes == 2
