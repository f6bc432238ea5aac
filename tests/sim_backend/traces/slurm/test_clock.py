"""Times of Slurm: their spellings, and the hour that a clock shows twice."""

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.arrays import Int64
from offpeak.model.local_time import to_local_s
from offpeak.sim_backend.traces.slurm.values import BAD, UNKNOWN, between_s, instants, start_s

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
BACK_S = 1_792_890_000  # 2026-10-25 01:00 UTC: the clock goes from 3:00 back to 2:00
NEAR_S = st.integers(BACK_S - 4 * 3600, BACK_S + 4 * 3600)


def shown(unix_s: list[int]) -> pa.Array:
    local = to_local_s(np.array(unix_s, np.int64), BERLIN).astype("datetime64[s]")
    return pa.array(np.datetime_as_string(local).tolist(), pa.string())


def column(*values: int) -> Int64:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T22:01:28", 1_795_212_088),
        ("1795212088", 1_795_212_088),
        ("2026-11-20T23:01:28+0100", 1_795_212_088),
        ("2026-11-20T17:01:28-05:00", 1_795_212_088),
        ("2026-11-20T22:01:28Z", 1_795_212_088),
        ("Unknown", UNKNOWN),
        ("None", UNKNOWN),
        ("", UNKNOWN),
        ("1970-01-01T00:00:00", UNKNOWN),
        ("1969-12-31T23:59:58", UNKNOWN),
        ("Fr 20 Nov 2026", BAD),
        ("2026-13-01T00:00:00", BAD),
        ("2026-11-20", BAD),
        ("20 Nov 2026 22:01:2", BAD),
        ("22:01", BAD),
    ],
)
def test_spellings(text: str, expected: int) -> None:
    among = pa.array(["2026-01-01T00:00:00", text, "1767225600"], pa.string())
    for times in (among, pa.array([text], pa.string())):
        found = instants(times, UTC)
        assert expected in (found.first[len(times) // 2], found.last[len(times) // 2])


@given(NEAR_S, st.integers(0, 3 * 3600), st.integers(0, 3 * 3600))
def test_the_run_time_tells_which_of_two_hours_is_meant(submit: int, wait: int, run: int) -> None:
    begin, end = submit + wait, submit + wait + run
    times = [instants(shown([time]), BERLIN) for time in (submit, begin, end)]
    for time, true in zip(times, (submit, begin, end), strict=True):
        assert true in (time.first[0], time.last[0])
    found = start_s(times[1], times[2], not_before_s=times[0].first, runtime_s=column(run))
    assert found[0] >= times[0].first[0]
    assert found[0] + run in (times[2].first[0], times[2].last[0])
    assert abs(found[0] - begin) in (0, 3600)


@given(NEAR_S, st.integers(0, 3 * 3600))
def test_without_a_run_time_none_is_negative_nor_wrong_by_more_than_the_hour(begin: int, run: int) -> None:
    start, end = (instants(shown([time]), BERLIN) for time in (begin, begin + run))
    found = between_s(start_s(start, end, not_before_s=column(UNKNOWN), runtime_s=column(UNKNOWN)), end)
    assert found[0] >= 0
    assert abs(found[0] - run) in (0, 3600)


def test_a_start_that_cannot_be_before_the_submission_is_the_later_one() -> None:
    twice = instants(shown([BACK_S - 600]), BERLIN)
    assert twice.last - twice.first == 3600
    never = instants(pa.array(["Unknown"], pa.string()), BERLIN)
    assert start_s(twice, never, not_before_s=column(BACK_S), runtime_s=column(60))[0] == BACK_S + 3000
    assert start_s(twice, never, not_before_s=column(0), runtime_s=column(60))[0] == BACK_S - 600
    assert between_s(column(5, UNKNOWN, 5), instants(pa.array(["Unknown"] * 3, pa.string()), UTC)).tolist() == [-1] * 3
