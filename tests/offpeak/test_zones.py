"""Local clocks: against datetime itself, at every kind of change."""

from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import local_days, local_edges_s, to_local_s, to_unix_s, weekday
from offpeak.model.zones import machine_zone, parse_zone, zone_text

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
# Half-hour offsets, half-hour changes, changes at midnight, and a date that was skipped (Samoa, end of 2011).
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
]
instants = st.integers(1_290_000_000, 1_330_000_000)


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_zones_by_name_and_by_offset():
    assert parse_zone("Europe/Berlin") == BERLIN
    assert parse_zone("utc") is UTC
    assert parse_zone("+01:00") == parse_zone("UTC+0100") == timezone(timedelta(hours=1))
    assert parse_zone("-05:30") == timezone(-timedelta(hours=5, minutes=30))


@pytest.mark.parametrize("text", ["Europe/Berlin", "UTC", "+01:00", "-05:30"])
def test_a_zone_is_written_as_it_is_read(text):
    assert parse_zone(zone_text(parse_zone(text))) == parse_zone(text)


@pytest.mark.parametrize(("text", "hint"), [("Europe/Berlni", "Europe/Berlin"), ("", "Europe/"), ("+25:00", "+01:00")])
def test_an_unknown_zone_is_refused(text, hint):
    with pytest.raises(BadInput, match="unknown time zone") as problem:
        parse_zone(text)
    assert hint in problem.value.hint


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of a machine without a time zone, in which TZ is not set."""
    monkeypatch.delenv("TZ", raising=False)
    return tmp_path


@pytest.mark.parametrize("text", ["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin"])
def test_tz_goes_before_what_the_machine_is_set_to(etc, monkeypatch, text):
    (etc / "timezone").write_text("Asia/Kolkata\n")
    monkeypatch.setenv("TZ", text)
    assert machine_zone(etc) is BERLIN


def test_an_empty_tz_is_utc_and_a_rule_is_refused(etc, monkeypatch):
    monkeypatch.setenv("TZ", "")
    assert machine_zone(etc) is UTC
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    with pytest.raises(BadInput, match=r"TZ=CET-1CEST,M3.5.0,M10.5.0/3: is not the name of a time zone"):
        machine_zone(etc)


def test_the_machine_is_set_by_a_link_before_a_name(etc):
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    (etc / "timezone").write_text("Asia/Kolkata\n")
    assert machine_zone(etc) is BERLIN


def test_a_copied_clock_is_named_by_the_file_beside_it_or_has_no_name(etc):
    rules = resources.files("tzdata") / "zoneinfo" / "Europe" / "Berlin"
    (etc / "localtime").write_bytes(rules.read_bytes())
    assert machine_zone(etc).utcoffset(datetime(2024, 7, 1)) == timedelta(hours=2)
    (etc / "timezone").write_text("Europe/Berlin\n")
    assert machine_zone(etc) is BERLIN


@pytest.mark.parametrize("nonsense", [None, "", "Europe/Berlni", "../../etc"])
def test_a_machine_that_does_not_say_is_at_utc(etc, nonsense):
    if nonsense is not None:
        (etc / "timezone").write_text(nonsense)
        (etc / "localtime").write_text(nonsense)
    assert machine_zone(etc) is UTC


@given(st.sampled_from(ZONES), st.lists(instants, min_size=1, max_size=20))
def test_local_time_is_what_datetime_says(name, moments):
    zone = ZoneInfo(name)
    local = to_local_s(np.array(moments), zone)
    expected = [datetime.fromtimestamp(m, zone).replace(tzinfo=UTC).timestamp() for m in moments]
    assert local.tolist() == expected


@given(st.sampled_from(ZONES), st.lists(instants, min_size=1, max_size=20))
def test_the_way_back_finds_the_instant(name, moments):
    zone, moment = ZoneInfo(name), np.array(moments)
    first, last = to_unix_s(to_local_s(moment, zone), zone)
    assert np.all((moment == first) | (moment == last))
    assert np.all(first <= last)
    assert np.array_equal(to_local_s(first, zone), to_local_s(moment, zone))


def test_a_doubled_hour_has_two_instants_and_a_missing_one_the_change():
    doubled, missing = (np.array([unix(f"{day}T02:30+00:00")]) for day in ("2024-10-27", "2024-03-31"))
    assert [int(s[0]) for s in to_unix_s(doubled, BERLIN)] == [unix("2024-10-27T00:30Z"), unix("2024-10-27T01:30Z")]
    assert {int(s[0]) for s in to_unix_s(missing, BERLIN)} == {unix("2024-03-31T01:00Z")}


@pytest.mark.parametrize("name", ZONES)
def test_days_between_their_edges_add_up_to_the_local_days_length(name):
    zone = ZoneInfo(name)
    begin_s, end_s = unix("2011-01-01T00:00Z"), unix("2013-01-01T00:00Z")
    edges = local_edges_s(local_days(begin_s, end_s, zone) * DAY_S, zone)
    day = to_local_s(edges[:-1], zone) // DAY_S
    lengths = np.bincount(day - day.min(), weights=np.diff(edges))[2:-2]
    assert np.all((lengths >= 23 * 3600) & (lengths <= 25 * 3600) | (lengths == 0))
    assert (lengths == 0).sum() == (name == "Pacific/Apia")
    assert np.all(to_local_s(edges[1:] - 1, zone) // DAY_S == day)


def test_weekdays():
    days = np.arange(-400, 20_000)
    expected = [(datetime(1970, 1, 1) + timedelta(days=int(day))).weekday() for day in days]
    assert weekday(days).tolist() == expected


def test_empty_columns_stay_empty():
    nothing = np.array([], np.int64)
    assert (
        len(to_local_s(nothing, BERLIN)) == len(to_unix_s(nothing, BERLIN)[0]) == len(local_edges_s(nothing, UTC)) == 0
    )
