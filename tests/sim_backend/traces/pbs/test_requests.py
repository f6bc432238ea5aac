"""What jobs of Torque and OpenPBS requested, by the Resource_List of their accounting records, and their arrays."""

from datetime import UTC
from pathlib import Path

import pytest

from offpeak.files import LongText
from offpeak.model.jobs import Trace
from offpeak.model.request import Chunk, Request
from offpeak.sim_backend.traces.pbs.read import pbs_trace
from offpeak.sim_backend.traces.read import read_log

RECORD = (
    "11/20/2026 21:49:36;E;{job};user=a group=b jobname=x queue={queue} ctime=1000 qtime=1000 etime=1000 start={start}"
    " exec_host=n001/0*2 {resources} session=0 end=2000 Exit_status=0 resources_used.walltime=00:10:00\n"
)


def record(job: str, resources: str, *, queue: str = "workq", start: int = 1100) -> str:
    return RECORD.format(job=job, resources=resources, queue=queue, start=start)


def trace(*records: str) -> Trace:
    return pbs_trace(LongText("".join(records).encode()), "a.txt", lenient=False, zone=UTC)


def request(resources: str) -> Request | None:
    found = trace(record("1.head", resources))
    if found.jobs.request is None:
        return None
    assert found.jobs.request.tolist() == [0]
    return found.requests[0]


@pytest.mark.parametrize(
    ("resources", "asks"),
    [
        (
            "Resource_List.mem=8gb Resource_List.place=scatter:excl"
            " Resource_List.select=2:ncpus=4:mem=4gb:ngpus=2+1:ncpus=1:kind=fat Resource_List.walltime=01:00:00",
            Request(
                ("workq",),
                (Chunk(2, 4, 4096, 2), Chunk(1, 1, features=(frozenset({"fat"}),))),
                apart=True,
                whole_nodes=True,
            ),
        ),
        (
            "Resource_List.ncpus=8 Resource_List.place=free Resource_List.select=1:ncpus=8",
            Request(("workq",), (Chunk(1, 8),), apart=False),
        ),
        (
            "Resource_List.nodes=2:ppn=4:gpus=1:fast Resource_List.mem=3gb Resource_List.walltime=9",
            Request(("workq",), (Chunk(2, 4, 1536, 1, features=(frozenset({"fast"}),)),)),
        ),
        ("Resource_List.procs=6", Request(("workq",), (Chunk(6),), apart=False)),
        (
            "Resource_List.nodes=1 Resource_List.naccesspolicy=singlejob Resource_List.qos=high",
            Request(("workq",), (Chunk(1),), whole_nodes=True, qos="high"),
        ),
        ("Resource_List.walltime=9", None),
        ("Resource_List.select=99999999999999999999:ncpus=1", None),
    ],
)
def test_what_a_record_requests(resources: str, asks: Request | None) -> None:
    assert request(resources) == asks


def test_tasks_of_arrays_have_the_number_of_their_array() -> None:
    select = "Resource_List.select=1:ncpus=2"
    jobs = ("3[1].head", "3[2].head", "31.head", "03[x].head")
    found = trace(*(record(job, select, start=1100 + n) for n, job in enumerate(jobs)))
    assert found.jobs.array is not None
    by_name = {
        found.names.job_text(job): array
        for job, array in zip(found.jobs.job_id.tolist(), found.jobs.array.tolist(), strict=True)
    }
    assert by_name == {"3[1]": 3, "3[2]": 3, "31": -1, "03[x]": -1}
    assert len(found.requests) == 1
    assert trace(record("31.head", select)).jobs.array is None


@pytest.mark.parametrize(
    "file", ["openpbs/G_accounting.txt", "torque/A_accounting.txt", "torque/v4.2.10/accounting.txt"]
)
def test_recorded_accounting(shared: Path, file: str) -> None:
    found = read_log(str(shared / "data" / "captures" / file), lenient=True, zone=UTC)
    assert found.jobs.request is not None
    assert (found.jobs.request >= 0).all()
    assert all(each.chunks[0].cores for each in found.requests)
    if file.startswith("openpbs"):
        assert found.jobs.array is not None
        assert 3 in found.jobs.array
