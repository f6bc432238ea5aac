"""On-peak by the local clock, minute by minute against datetime."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.prices.peak import ClockHours
from offpeak.prices.rates import check_holidays, parse_days, parse_hours

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")


def test_hours_and_days_of_text():
    assert parse_hours("09:00-23:00") == (32400, 82800)
    assert parse_hours("22:00-6:30") == (79200, 23400)
    assert parse_hours("00:00-24:00") == (0, 86400)
    assert parse_days("mon-fri") == (0, 1, 2, 3, 4)
    assert parse_days("Fri-mon") == (0, 4, 5, 6)
    assert parse_days("sat") == (5,)
    assert parse_days("mon-sun") == (0, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("text", ["9-23", "09:00", "09:00-25:00", "24:00-09:00", "09:61-10:00", "09:00-09:00", ""])
def test_invalid_hours_are_refused(text):
    with pytest.raises(BadInput) as problem:
        parse_hours(text)
    assert problem.value.hint


@pytest.mark.parametrize(("text", "hint"), [("mon-fry", "did you mean fri?"), ("", "mon-fri"), ("weekdays", "mon-fri")])
def test_invalid_days_are_refused(text, hint):
    with pytest.raises(BadInput, match="unknown day") as problem:
        parse_days(text)
    assert hint in problem.value.hint


@pytest.mark.parametrize("place", ["DE", "DE-BY", "US"])
def test_known_holidays(place):
    assert check_holidays(place) == place


@pytest.mark.parametrize(
    ("place", "hint"), [("DE-BYY", "did you mean DE-BY?"), ("XQ-Z", "such as DE-BY"), ("Q", "such as DE")]
)
def test_unknown_holidays(place, hint):
    with pytest.raises(BadInput, match="no public holidays known") as problem:
        check_holidays(place)
    assert hint in problem.value.hint


def test_holidays_are_off_peak_on_their_local_date():
    hours = ClockHours(0, 86400, holidays="DE-BY", zone=BERLIN)
    # Epiphany is a holiday in Bavaria, not in all of Germany.
    night = [
        int(datetime(2025, 1, day, hour, 30, tzinfo=BERLIN).timestamp())
        for day, hour in ((5, 23), (6, 0), (6, 23), (7, 0))
    ]
    assert hours.on_peak_at(np.array(night)).tolist() == [True, False, False, True]
    assert ClockHours(0, 86400, holidays="DE", zone=BERLIN).on_peak_at(np.array(night)).all()


minutes = st.integers(0, 1439)


@given(
    minutes,
    minutes,
    st.sets(st.integers(0, 6), min_size=1),
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC"]),
    st.sampled_from(["2018-10-28", "2018-03-25", "2018-02-18", "2018-11-04", "2018-04-01", "2018-06-01"]),
)
def test_between_its_edges_nothing_changes(from_minute, until_minute, days, zone_name, day):
    zone = ZoneInfo(zone_name)
    hours = ClockHours(from_minute * 60, until_minute * 60, tuple(sorted(days)), zone=zone)
    begin_s = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - 43200
    moment = np.arange(begin_s, begin_s + 2 * 86400, 60)
    edges = np.append(begin_s, hours.edges_s(begin_s, int(moment[-1]) + 60))
    expected = [is_on(hours, datetime.fromtimestamp(int(second), zone)) for second in moment]
    assert hours.on_peak_at(moment).tolist() == expected
    since = edges[np.searchsorted(edges, moment, side="right") - 1]
    assert hours.on_peak_at(since).tolist() == expected


def is_on(hours: ClockHours, local: datetime) -> bool:
    clock_s = local.hour * 3600 + local.minute * 60
    if local.weekday() not in hours.days:
        return False
    if hours.from_s < hours.until_s:
        return hours.from_s <= clock_s < hours.until_s
    return clock_s >= hours.from_s or clock_s < hours.until_s
