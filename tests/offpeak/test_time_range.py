"""Times as sacct takes them, and local days of any length."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.time_range import TimeRange, day_edges, parse_range, parse_time

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


NOW = unix("2026-11-21T16:30:15")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-01", "2026-11-01T00:00"),
        ("2026-11-01T08:00", "2026-11-01T08:00"),
        ("2026-11-01T08:00:30", "2026-11-01T08:00:30"),
        ("2026-11-01T08:00Z", "2026-11-01T09:00"),
        ("2026-07-01T08:00+00:00", "2026-07-01T10:00"),
        ("08:15", "2026-11-21T08:15"),
        ("8:15:20", "2026-11-21T08:15:20"),
        ("11/01", "2026-11-01T00:00"),
        ("1101", "2026-11-01T00:00"),
        ("11/01/25", "2025-11-01T00:00"),
        ("11.01.25-07:00", "2025-11-01T07:00"),
        ("now", "2026-11-21T16:30:15"),
        ("now-7days", "2026-11-14T16:30:15"),
        ("now-2h", "2026-11-21T14:30:15"),
        ("now+90", "2026-11-21T16:31:45"),
        ("now-3minutes", "2026-11-21T16:27:15"),
        ("now-1w", "2026-11-14T16:30:15"),
        ("today", "2026-11-21T00:00"),
        ("Midnight", "2026-11-21T00:00"),
        ("yesterday", "2026-11-20T00:00"),
        ("tomorrow", "2026-11-22T00:00"),
        ("noon", "2026-11-21T12:00"),
        ("teatime", "2026-11-21T16:00"),
    ],
)
def test_times_of_sacct_are_accepted(text: str, instant: str) -> None:
    assert parse_time(text, now_unix_s=NOW, zone=BERLIN) == unix(instant)


@pytest.mark.parametrize("text", ["", "last week", "2026-13-01", "now-3x", "now-", "25:00", "1332", "now-9" + "9" * 30])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a time"):
        parse_time(text, now_unix_s=NOW, zone=BERLIN)


def test_without_start_and_end_it_is_today_until_now() -> None:
    assert parse_range(None, None, now_unix_s=NOW, zone=BERLIN) == TimeRange(unix("2026-11-21T00:00"), NOW)
    with pytest.raises(BadInput, match=r"the end \(yesterday\) is not after the start \(today\)"):
        parse_range(None, "yesterday", now_unix_s=NOW, zone=BERLIN)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)], ids=["spring", "autumn", "usual"]
)
def test_a_day_has_the_hours_that_its_clock_has(day: str, hours: int) -> None:
    end = f"{day[:-2]}{int(day[-2:]) + 1}"
    span = parse_range(day, end, now_unix_s=NOW, zone=BERLIN)
    assert span.until_unix_s - span.from_unix_s == hours * 3600
    assert day_edges(span, BERLIN) == [span.from_unix_s, span.until_unix_s]


def test_a_midnight_that_does_not_happen_is_the_change() -> None:
    zone = ZoneInfo("America/Sao_Paulo")
    edges = day_edges(TimeRange(unix("2018-11-03T12:00", zone), unix("2018-11-05T12:00", zone)), zone)
    assert [datetime.fromtimestamp(edge, zone).isoformat()[:16] for edge in edges] == [
        "2018-11-03T12:00",
        "2018-11-04T01:00",
        "2018-11-05T00:00",
        "2018-11-05T12:00",
    ]


@given(
    st.integers(1_290_000_000, 1_330_000_000),
    st.integers(1, 20 * 86_400),
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata"]),
)
def test_days_follow_each_other_without_a_gap(from_unix_s: int, length_s: int, name: str) -> None:
    zone = ZoneInfo(name)
    edges = day_edges(TimeRange(from_unix_s, from_unix_s + length_s), zone)
    assert (edges[0], edges[-1]) == (from_unix_s, from_unix_s + length_s)
    assert all(0 < after - before <= 25 * 3600 for before, after in pairwise(edges))
    dates = [datetime.fromtimestamp(edge, zone).date() for edge in edges[:-1]]
    assert dates == sorted(set(dates))


def test_a_range_of_another_zone_is_that_of_utc() -> None:
    assert parse_time("2026-11-01", now_unix_s=NOW, zone=UTC) == unix("2026-11-01T01:00")
