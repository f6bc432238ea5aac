"""What jobs requested, as sacct and jobcomp tell it: classes of requests, arrays, and dumps without such columns."""

from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from offpeak.files import LongText
from offpeak.model.jobs import Trace
from offpeak.model.request import Chunk, Request
from offpeak.plugin.slurm.jobs import SEPARATOR, SQUEUE_COLUMNS, job_of
from offpeak.plugin.slurm.requests import Tres, parse_tres
from offpeak.sim_backend.traces.filters import between
from offpeak.sim_backend.traces.read import read_log
from offpeak.sim_backend.traces.slurm.read import jobcomp_trace, sacct_trace
from offpeak.sim_backend.traces.slurm.runs import REQUEST_COLUMNS, SlurmRow, request_of

pytestmark = pytest.mark.quick

RUN_COLUMNS = ("JobIDRaw", "JobID", "User", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw")
COLUMNS = (*RUN_COLUMNS, "AllocNodes", "AllocCPUS", *REQUEST_COLUMNS, "NodeList", "JobName")
RAN = ("2026-11-20T10:00:00", "2026-11-20T10:05:00", "2026-11-20T10:15:00", "600")


def line(number: int, partition: str, size: tuple[int, int], tres: str, **other: str) -> dict[str, str]:
    nodes, cpus = size
    row = dict.fromkeys(COLUMNS, "") | {"JobIDRaw": str(number), "JobID": str(number), "State": "COMPLETED"}
    row |= dict(zip(("Submit", "Start", "End", "ElapsedRaw"), RAN, strict=True))
    given = {"Partition": partition, "AllocNodes": str(nodes), "AllocCPUS": str(cpus), "ReqTRES": tres}
    return row | given | {"JobName": "app"} | other


def trace(*rows: dict[str, str], without: tuple[str, ...] = ()) -> Trace:
    columns = [name for name in COLUMNS if name not in without]
    text = "".join(";".join(row) + "\n" for row in (columns, *([row[name] for name in columns] for row in rows)))
    return sacct_trace(LongText(text.encode()), "a.txt", lenient=False, zone=UTC)


def requests(found: Trace) -> list[Request | None]:
    assert found.jobs.request is not None
    return [found.requests[number] if number >= 0 else None for number in found.jobs.request.tolist()]


def test_jobs_of_one_request_have_one_class() -> None:
    found = trace(
        line(1, "cpu", (2, 128), "billing=128,cpu=128,mem=16G,node=2", QOS="normal"),
        line(2, "cpu", (2, 128), "cpu=128,mem=16384M,node=2,billing=7", QOS="normal"),
        line(3, "gpu", (1, 16), "cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1", Constraints="rack1|rack2"),
        line(4, "cpu", (1, 1), "what?"),
    )
    node = Chunk(2, 64, 8192)
    on_gpus = Chunk(1, 16, 65_536, 4, "a100", (frozenset({"rack1"}), frozenset({"rack2"})))
    same = Request(("cpu",), (node,), qos="normal")
    assert requests(found) == [same, same, Request(("gpu",), (on_gpus,)), None]
    assert found.jobs.request is not None
    assert found.jobs.request.tolist() == [0, 0, 1, -1]
    assert found.jobs.array is None


@pytest.mark.parametrize(
    ("size", "tres", "asks"),
    [
        ((3, 128), "cpu=128,mem=128G,node=1", Request(("p",), (Chunk(128, 1, 1024),), apart=False)),
        ((1, 64), "cpu=1,mem=4G,node=1", Request(("p",), (Chunk(1, 1, 4096),), whole_nodes=True)),
        ((1, 2), "cpu=1,node=1", Request(("p",), (Chunk(1, 2),))),
        ((2, 4), "cpu=4,gres/gpu=3,node=1", Request(("p",), (Chunk(2, 2, gpus=2),))),
        ((1, 4), "cpu=4,gres/gpu:a=1,gres/gpu:b=1,node=1", Request(("p",), (Chunk(1, 4, gpus=2),))),
        ((1, 4), "cpu=4,mem=1.50T", Request(("p",), (Chunk(1, 4, 1_572_864),))),
        ((1, 4), "", None),
        ((1, 4), "node=1", None),
        ((1, 4), "cpu=4,mem=lots", None),
    ],
)
def test_resource_request_of_a_line_is_parsed(size: tuple[int, int], tres: str, asks: Request | None) -> None:
    assert request_of(SlurmRow({"ReqTRES": tres.encode()}, "p", *size)) == asks


@pytest.mark.parametrize(
    ("queued", "logged", "size"),
    [
        ({"NumNodes": "2", "NumTasks": "2", "NumCPUs": "8", "MinCpus": "4"}, "cpu=8,node=2", (2, 8)),
        ({"NumNodes": "2", "NumTasks": "2", "NumCPUs": "8", "MinMemory": "4G"}, "cpu=8,mem=8G,node=2", (2, 8)),
        ({"NumCPUs": "4", "tres-per-node": "gres/gpu:a:2"}, "cpu=4,gres/gpu:a=2,gres/gpu=2,node=1", (1, 4)),
        (
            {"NumNodes": "2", "NumTasks": "2", "NumCPUs": "2", "tres-per-job": "gres/gpu=3"},
            "cpu=2,gres/gpu=3,node=2",
            (2, 2),
        ),
        ({"tres-per-node": "gres/nic:1"}, "cpu=1,gres/nic=1,node=1", (1, 1)),
        ({"Licenses": "mat:2,sim"}, "cpu=1,license/mat=2,license/sim=1,node=1", (1, 1)),
        ({"OverSubscribe": "NO", "NumNodes": "2", "NumTasks": "2", "NumCPUs": "2"}, "cpu=2,node=2", (2, 32)),
        (
            {"NumTasks": "6", "NumCPUs": "6", "MinMemory": "100M", "tres-alloc": "cpu=6,mem=600M,node=1"},
            "cpu=6,mem=600M,node=1",
            (3, 6),
        ),
    ],
)
def test_the_queue_and_the_log_tell_the_same_request(
    queued: dict[str, str], logged: str, size: tuple[int, int]
) -> None:
    terms = {"Partition": "a,b", "QOS": "high", "Reservation": "maint", "Feature": "x|y"}
    once = dict.fromkeys(("NumNodes", "NumTasks", "NumCPUs", "MinCpus"), "1")
    record = dict.fromkeys(SQUEUE_COLUMNS, "") | once | {"JobID": "1", "State": "PENDING"} | terms | queued
    job = job_of(SEPARATOR.join(record.values()))
    texts = {"ReqTRES": logged, "QOS": "high", "Reservation": "maint", "Constraints": "x|y"}
    assert job is not None
    assert job.request is not None
    assert request_of(SlurmRow({name: text.encode() for name, text in texts.items()}, "a,b", *size)) == job.request


def test_what_a_job_was_given_stands_in_for_an_empty_request() -> None:
    """Slurm 22.05 writes no ReqTRES for some jobs that end within a second."""
    given = {"ReqTRES": b"", "AllocTRES": b"billing=4,cpu=4,gres/gpu:a=2,gres/gpu=2,mem=2G,node=1"}
    assert request_of(SlurmRow(given, "p", 1, 4)) == Request(("p",), (Chunk(1, 4, 2048, 2, "a"),))
    found = trace(line(1, "p", (1, 1), "", AllocTRES="cpu=1,node=1"), without=("ReqTRES",))
    assert requests(found) == [Request(("p",), (Chunk(1),))]


def test_the_first_node_of_each_job_is_read() -> None:
    lists = ("g[01-04,07],t1", "t1", "None assigned", "", "t[2,4]", "(null)", "r[1-2]c[1-4]")
    found = trace(*(line(number, "p", (1, 1), "cpu=1", NodeList=nodes) for number, nodes in enumerate(lists)))
    assert found.jobs.node is not None
    names = (*found.names.node, "")
    assert [names[code] for code in found.jobs.node.tolist()] == ["g01", "t1", "", "", "t2", "", ""]
    assert trace(line(1, "p", (1, 1), "cpu=1"), without=("NodeList",)).jobs.node is None


def test_memory_that_slurm_does_not_manage_is_not_requested() -> None:
    texts = {"ReqTRES": b"billing=4,cpu=4,mem=4000M,node=4", "AllocTRES": b"billing=16,cpu=16,node=4"}
    assert request_of(SlurmRow(texts, "p", 4, 16)) == Request(("p",), (Chunk(4, 1),), whole_nodes=True)
    managed = texts | {"AllocTRES": b"billing=16,cpu=16,mem=4000M,node=4"}
    assert request_of(SlurmRow(managed, "p", 4, 16)) == Request(("p",), (Chunk(4, 1, 1000),), whole_nodes=True)


@pytest.mark.parametrize(
    ("size", "text"),
    [((3, 6), "cpu=6,gres/gpu:a=1,gres/gpu:b=1,gres/gpu=2"), ((1, 2), "cpu=2,gres/gpu:a=1,gres/gpu:b=1")],
)
def test_gpus_of_several_types_count_as_gpus_of_any_type(size: tuple[int, int], text: str) -> None:
    assert parse_tres(text) == Tres(cpus=size[1], gpus=2)
    asks = request_of(SlurmRow({"ReqTRES": text.encode()}, "p", *size))
    assert asks == Request(("p",), (Chunk(size[0], 2, gpus=-(-2 // size[0])),))


def test_a_job_of_several_partitions_and_a_reservation() -> None:
    texts = {"ReqTRES": b"cpu=1,node=1", "Reservation": b"maint", "Constraints": b"(null)", "QOS": b"high"}
    asks = request_of(SlurmRow(texts, "a,b", 1, 1))
    assert asks == Request(("a", "b"), (Chunk(1),), reservation="maint", qos="high")


def test_a_constraint_that_makes_no_sense_fits_every_node() -> None:
    asks = request_of(SlurmRow({"ReqTRES": b"cpu=1", "Constraints": b"a&&b"}, "", 1, 1))
    assert asks == Request((), (Chunk(1),))


def test_tres_of_older_and_newer_versions() -> None:
    assert parse_tres("billing=2,cpu=2,mem=1000M,node=1") == Tres(2, 1, 1000)
    assert parse_tres("cpu=1.50K,energy=123,fs/disk=5,gres/gpu:a100=8,mem=2T,node=8") == Tres(
        1536, 8, 2 << 20, 8, "a100"
    )
    assert parse_tres("") == Tres()


def test_tasks_of_arrays_are_jobs_with_the_number_of_their_array() -> None:
    found = trace(
        line(12, "p", (1, 1), "cpu=1", JobID="12_6"),
        line(23, "p", (1, 1), "cpu=1", JobID="12_4"),
        line(24, "p", (1, 1), "cpu=1"),
        line(26, "p", (1, 1), "cpu=1", JobID="25+1"),
    )
    assert found.jobs.array is not None
    assert found.jobs.array.tolist() == [12, 12, -1, -1]
    assert found.names.job_text(23) == "12_4"


def test_a_dump_without_these_columns_has_no_requests() -> None:
    found = trace(line(1, "p", (1, 1), "cpu=1"), without=REQUEST_COLUMNS)
    assert (found.jobs.request, found.requests) == (None, ())
    only_qos = trace(line(1, "p", (1, 1), "cpu=1", QOS="normal"), without=("ReqTRES",))
    assert only_qos.jobs.request is None


def test_requests_stay_with_their_jobs_when_a_log_is_cut() -> None:
    rows = [
        line(number, "p", (1, 1), f"cpu={1 + number % 3}", Submit=f"2026-11-20T10:00:{number:02}")
        for number in range(9)
    ]
    found = trace(*rows[::-1])
    assert found.jobs.request is not None
    of_job = dict(zip(found.jobs.job_id.tolist(), requests(found), strict=True))
    assert of_job == {number: Request(("p",), (Chunk(1, 1 + number % 3),)) for number in range(9)}
    taken = found.jobs.take(np.array([3, 1]))
    assert taken.request is not None
    assert taken.request.tolist() == found.jobs.request[[3, 1]].tolist()
    start_s = int(found.jobs.logged_start_s[0])
    cut = between(found, start_s + 100, start_s + 400)
    assert requests(cut) == requests(found)


def test_jobcomp_tells_requests() -> None:
    begin = "JobId={} UserId=a(1) GroupId=a(1) Name=x JobState=COMPLETED Partition=gpu TimeLimit=5 "
    times = "StartTime=2026-11-20T10:05:00 EndTime=2026-11-20T10:15:00 NodeList=n1 NodeCnt=1 ProcCnt=4 WorkDir=/a b "
    end = "SubmitTime=2026-11-20T10:00:00 EligibleTime=2026-11-20T10:00:00 ExitCode=0:0 \n"
    full = "ReservationName=r Tres=cpu=4,mem=8G,node=1,gres/gpu=1 Account=c QOS=high WcKey= Cluster=x "
    text = begin.format(1) + times + full + end + begin.format(2) + times + "Account=c QOS= " + end
    found = jobcomp_trace(LongText(text.encode()), "j", lenient=False, zone=UTC)
    asks = Request(("gpu",), (Chunk(1, 4, 8192, 1),), reservation="r", qos="high")
    assert requests(found) == [asks, None]


@pytest.mark.parametrize("version", ["22.05", "23.02", "24.11", "25.11"])
@pytest.mark.parametrize("file", ["sacct_P.txt", "jobcomp.log"])
def test_recorded_dumps(shared: Path, version: str, file: str) -> None:
    found = read_log(str(shared / "data" / "captures" / "slurm" / version / file), lenient=True, zone=UTC)
    assert len(found.jobs)
    if file == "jobcomp.log" or version == "22.05":
        asked = requests(found)
        assert None not in asked
        assert {asks.partitions for asks in asked if asks} == {("batch",)}
