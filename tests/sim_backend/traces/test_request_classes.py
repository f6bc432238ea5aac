"""Classes of requests: one number for equal rows, whatever the size of their values; SWF and GWF with memory."""

from datetime import UTC

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.files import LongText
from offpeak.model.request import Chunk, Request
from offpeak.sim_backend.traces.gwf import gwf_trace
from offpeak.sim_backend.traces.records import request_classes
from offpeak.sim_backend.traces.swf.read import swf_trace

pytestmark = pytest.mark.quick

VALUES = st.integers(-1, 3) | st.sampled_from([-1, 2**61, 2**62])


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=20))
def test_equal_rows_are_one_class(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    seen: list[tuple[int, ...]] = []

    def request_of(row: tuple[int, ...]) -> Request | None:
        seen.append(row)
        return None if row[0] == 0 else Request((str(row[0] % 2),), (Chunk(1),))

    code, requests = request_classes(columns, request_of)
    assert sorted(seen) == sorted(set(rows))
    assert len(set(requests)) == len(requests) <= 2
    for row, number in zip(rows, code.tolist(), strict=True):
        assert (requests[number] if number >= 0 else None) == (
            None if row[0] == 0 else Request((str(row[0] % 2),), (Chunk(1),))
        )


def swf_line(job: int, *, kib: int = -1, queue: int = -1, partition: int = -1) -> str:
    return f"{job} {job} 5 60 4 -1 -1 4 120 {kib} 1 7 -1 -1 {queue} {partition} -1 -1\n"


def test_swf_with_memory_and_partitions() -> None:
    text = swf_line(3, kib=2_000_000, queue=1, partition=2) + swf_line(1) + swf_line(2, kib=1025, queue=1)
    trace = swf_trace(LongText(text.encode()), "a.swf", lenient=False)
    assert trace.jobs.job_id.tolist() == [1, 2, 3]
    assert trace.jobs.request is not None
    found = [trace.requests[number] if number >= 0 else None for number in trace.jobs.request.tolist()]
    assert found == [
        None,
        Request((), (Chunk(4, 1, 2),), apart=False),
        Request(("2",), (Chunk(4, 1, 1954),), apart=False),
    ]
    code, names = trace.names.partitions(trace.jobs)
    assert [names[number] if number >= 0 else "" for number in code.tolist()] == ["", "", "2"]


def test_swf_without_memory_or_partitions() -> None:
    trace = swf_trace(LongText((swf_line(1, queue=3) + swf_line(2)).encode()), "a.swf", lenient=False)
    assert (trace.jobs.request, trace.jobs.partition, trace.requests) == (None, None, ())
    code, names = trace.names.partitions(trace.jobs)
    assert (code.tolist(), names) == ([0, -1], ("3",))


def gwf_line(job: int, *, memory: str = "-1", partition: str = "-1") -> str:
    return f"{job} {job} 5 60 4 -1 -1 4 120 {memory} 1 U7 G1 X Q2 {partition}" + " -1" * 13 + "\n"


def test_gwf_with_memory_and_partitions() -> None:
    text = gwf_line(1, memory="4096", partition="P1") + gwf_line(2, memory="?") + gwf_line(3, memory="1e999")
    trace = gwf_trace(LongText(text.encode()), "a.gwf", lenient=False, zone=UTC)
    assert trace.jobs.request is not None
    found = [trace.requests[number] if number >= 0 else None for number in trace.jobs.request.tolist()]
    assert found[:2] == [Request(("P1",), (Chunk(4, 1, 4),), apart=False), None]
    assert trace.names.partitions(trace.jobs)[1] == ("P1",)
    plain = gwf_trace(LongText(gwf_line(1).encode()), "a.gwf", lenient=False, zone=UTC)
    assert (plain.jobs.request, plain.jobs.partition, plain.names.partitions(plain.jobs)[1]) == (None, None, ("Q2",))
