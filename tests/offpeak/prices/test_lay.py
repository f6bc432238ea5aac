"""The position of a log on a series, and the extension of a series."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.step_series import Series, value_at
from offpeak.prices.alignment import LogSpan, align_log, extend, extension_note, parse_start

pytestmark = pytest.mark.quick

STOCKHOLM = ZoneInfo("Europe/Stockholm")


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def prices(begin: str, end: str) -> Series:
    start_s = np.arange(unix(begin), unix(end), 3600)
    return Series(start_s, unix(end), np.arange(len(start_s), dtype=float), "EUR/MWh", "test")


FIVE_YEARS = prices("2019-12-31T23:00Z", "2024-12-31T23:00Z")


def log_of(begin: str, *, days: float, zone=UTC) -> LogSpan:
    return LogSpan(first_s=600, last_s=600 + round(days * DAY_S), unix_start_s=unix(begin) - 600, zone=zone)


def aligned_at(log: LogSpan, series: Series, **start) -> datetime:
    return datetime.fromtimestamp(log.begin_s + align_log(log, series, **start).offset_s, log.zone)


def test_own_dates_are_kept():
    log = log_of("2021-05-05T10:00Z", days=9999)
    assert align_log(log, FIVE_YEARS).offset_s == log.unix_start_s
    assert align_log(log, FIVE_YEARS).note == "log mapped to its own dates, from 2021-05-05"


def test_same_weekday_and_season_of_the_first_year():
    log = log_of("1996-09-23T16:40+02:00", days=340, zone=STOCKHOLM)
    aligned = align_log(log, FIVE_YEARS)
    assert aligned_at(log, FIVE_YEARS) == datetime(2020, 9, 21, 16, 40, tzinfo=STOCKHOLM)
    assert aligned.note == "log of 1996-09-23 mapped to 2020-09-21 (same weekday and season)"


def test_the_first_year_with_room_is_preferred():
    two_years = prices("2023-06-01T00:00Z", "2025-03-01T00:00Z")
    assert aligned_at(log_of("1998-01-07T00:00Z", days=30), two_years).date() == date(2024, 1, 10)
    assert aligned_at(log_of("1998-01-07T00:00Z", days=3000), two_years).date() == date(2024, 1, 10)
    half = prices("2023-01-01T00:00Z", "2024-02-01T00:00Z")
    assert aligned_at(log_of("1998-01-07T00:00Z", days=100), half).date() == date(2023, 1, 4)
    assert (
        aligned_at(log_of("1998-12-30T00:00Z", days=20), prices("2022-12-29T00:00Z", "2024-02-01T00:00Z")).year == 2023
    )


def test_prices_of_another_season_share_the_weekday():
    june = prices("2014-06-01T00:00Z", "2014-07-01T00:00Z")
    log = log_of("1996-09-23T16:40Z", days=5)
    assert aligned_at(log, june) == datetime(2014, 6, 2, 16, 40, tzinfo=UTC)
    assert align_log(log, june).note == "log of 1996-09-23 mapped to 2014-06-02 (same weekday)"
    weekend = prices("2014-06-07T00:00Z", "2014-06-09T00:00Z")
    assert "2014-06-07 (the first day of the prices)" in align_log(log, weekend).note


@pytest.mark.parametrize("first_s", [0, 7200, 10 * WEEK_S + 7200])
def test_a_log_without_a_date_begins_on_the_first_monday(first_s):
    log = LogSpan(first_s=first_s, last_s=first_s + 10**6, zone=STOCKHOLM)
    aligned = align_log(log, FIVE_YEARS)
    assert datetime.fromtimestamp(first_s % WEEK_S * -1 + first_s + aligned.offset_s, STOCKHOLM) == datetime(
        2020, 1, 6, tzinfo=STOCKHOLM
    )
    assert aligned.note == "log without a date mapped to 2020-01-06 (the first Monday of the prices)"


def test_a_start_that_the_user_chose():
    log = log_of("1996-09-23T16:40+02:00", days=340, zone=STOCKHOLM)
    assert aligned_at(log, FIVE_YEARS, start=date(2022, 3, 4)) == datetime(2022, 3, 4, 16, 40, tzinfo=STOCKHOLM)
    chosen = datetime(2022, 3, 4, 5, tzinfo=UTC)
    assert aligned_at(log, FIVE_YEARS, start=chosen) == chosen
    assert align_log(log, FIVE_YEARS, start=chosen).note == "log mapped to 2022-03-04 as asked"
    with pytest.raises(BadPrices, match="outside the prices of test") as problem:
        align_log(log, FIVE_YEARS, start=date(2031, 1, 1))
    assert problem.value.hint == "they go from 2020-01-01 to 2025-01-01"


def test_start_of_text():
    assert parse_start("2020-09-21", STOCKHOLM) == date(2020, 9, 21)
    assert parse_start("2020-09-21T06:00", STOCKHOLM) == datetime(2020, 9, 21, 6, tzinfo=STOCKHOLM)
    assert parse_start("2020-09-21T06:00Z", STOCKHOLM) == datetime(2020, 9, 21, 6, tzinfo=UTC)
    for wrong in ("soon", "2020-13-01", "21.09.2020"):
        with pytest.raises(BadPrices, match="cannot read the date"):
            parse_start(wrong, UTC)


@settings(deadline=None)
@given(st.datetimes(datetime(1990, 1, 1), datetime(2018, 1, 1)), st.integers(0, 700))
def test_weekday_clock_and_season_are_kept(begin, days):
    own = begin.replace(microsecond=0, tzinfo=STOCKHOLM)
    own = datetime.fromtimestamp(int(own.timestamp()), STOCKHOLM)
    log = log_of(own.isoformat(), days=days, zone=STOCKHOLM)
    aligned = aligned_at(log, FIVE_YEARS)
    assert aligned.weekday() == own.weekday()
    # In the hour that spring leaves out, it is the instant of the change.
    clock = (own.hour, own.minute, own.second) if aligned.hour == own.hour else (3, 0, 0)
    assert (aligned.hour, aligned.minute, aligned.second) == clock
    assert aligned.hour == own.hour or aligned.month == 3
    assert abs((aligned.timetuple().tm_yday - own.timetuple().tm_yday + 183) % 365 - 183) <= 5
    assert aligned.timestamp() + days * DAY_S <= FIVE_YEARS.end_s


def test_less_than_a_day_is_no_price_series():
    hours = prices("2020-01-01T00:00Z", "2020-01-01T05:00Z")
    with pytest.raises(BadPrices, match="less than a day"):
        extend(hours, hours.end_s + 1)
    with pytest.raises(BadPrices, match="less than a day"):
        align_log(log_of("1996-09-23T16:40Z", days=1), hours)


@pytest.mark.parametrize(
    ("begin", "repeated_s", "message"),
    [
        ("2020-12-01T00:00Z", 52 * WEEK_S, "last 52 weeks are"),
        ("2024-12-01T00:00Z", 4 * WEEK_S, "last 4 weeks are"),
        ("2024-12-20T00:00Z", WEEK_S, "last week is"),
        ("2024-12-28T05:00Z", 3 * DAY_S, "last 3 days are"),
    ],
)
def test_what_is_repeated(begin, repeated_s, message):
    series = prices(begin, "2025-01-01T00:00Z")
    longer = extend(series, series.end_s + 3 * repeated_s + 1800)
    at = np.arange(series.end_s, longer.end_s, 1800)
    assert np.array_equal(value_at(longer, at), value_at(longer, at - repeated_s))
    note = extension_note(series, longer.end_s, zone=UTC)
    assert note == f"prices end 2025-01-01, from there the {message} repeated"


def test_a_series_that_is_long_enough_is_left_alone():
    assert extend(FIVE_YEARS, FIVE_YEARS.end_s) is FIVE_YEARS
    assert extension_note(FIVE_YEARS, FIVE_YEARS.end_s, zone=UTC) == ""


@given(
    st.lists(st.sampled_from([900, 3600, 50_000]), min_size=40, max_size=200), st.integers(0, 4 * WEEK_S), st.randoms()
)
def test_extending_keeps_the_prefix(lengths_s, more_s, random):
    edges = np.cumsum([0, *lengths_s, DAY_S])
    value = np.array([random.uniform(-50, 200) for _ in edges[:-1]])
    series = Series(edges[:-1], int(edges[-1]), value, "EUR/MWh", "test")
    longer = extend(series, series.end_s + more_s)
    assert longer.end_s == series.end_s + more_s
    assert np.array_equal(longer.start_s[: len(series)], series.start_s)
    assert np.array_equal(longer.value[: len(series)], series.value)
    assert longer.start_s[-1] < longer.end_s
    assert np.all(longer.known)


@pytest.mark.parametrize("zone", [UTC, STOCKHOLM])
def test_another_week_has_the_season_the_weekday_and_the_clock_of_the_chosen_one(zone):
    log = log_of("1996-09-23T16:40+02:00", days=340, zone=zone)
    aligned = align_log(log, FIVE_YEARS)
    starts = [datetime.fromtimestamp(log.begin_s + offset_s, zone) for offset_s in aligned.weeks.offsets_s]
    chosen = datetime.fromtimestamp(log.begin_s + aligned.offset_s, zone)
    assert chosen in starts
    assert len(set(starts)) == len(starts) > 40
    assert {start.year for start in starts} == {2020, 2021, 2022, 2023, 2024} - {2024}
    assert {(start.weekday(), start.hour, start.minute) for start in starts} == {(0, chosen.hour, chosen.minute)}
    assert all(abs(start.timetuple().tm_yday - chosen.timetuple().tm_yday) <= 6 * 7 + 1 for start in starts)
    assert all(log.last_s + offset_s <= FIVE_YEARS.end_s for offset_s in aligned.weeks.offsets_s)
    assert f"{len(starts)} weeks, within 6 weeks of that day of any year" in aligned.weeks.note


def test_the_turn_of_the_year_does_not_part_a_season():
    log = log_of("1998-01-02T00:00Z", days=10)
    starts = [datetime.fromtimestamp(log.begin_s + each, UTC) for each in align_log(log, FIVE_YEARS).weeks.offsets_s]
    assert {start.month for start in starts} == {11, 12, 1, 2}


def test_a_log_without_a_date_has_no_season():
    weeks = align_log(LogSpan(first_s=0, last_s=10**6), FIVE_YEARS).weeks
    assert len(weeks.offsets_s) == (FIVE_YEARS.end_s - unix("2020-01-06T00:00Z") - 10**6) // WEEK_S + 1
    assert weeks.note.endswith("of any season")


def test_no_other_week_is_drawn_where_dates_or_the_user_fix_it_or_prices_have_none():
    assert align_log(log_of("2021-05-05T10:00Z", days=5), FIVE_YEARS).weeks is None
    asked = align_log(log_of("1996-09-23T16:40Z", days=5), FIVE_YEARS, start=date(2022, 3, 4))
    assert asked.weeks.offsets_s == (asked.offset_s,)
    assert "ranges over replays do not contain its choice" in asked.weeks.note
    short = align_log(log_of("1996-09-23T16:40Z", days=5), prices("2014-06-01T00:00Z", "2014-06-06T00:00Z"))
    assert short.weeks.offsets_s == (short.offset_s,)
    assert "no other week" in short.weeks.note


def test_prices_shorter_than_the_log_are_said_to_repeat():
    weeks = align_log(log_of("1996-09-23T16:40Z", days=900), prices("2020-01-01T00:00Z", "2021-01-01T00:00Z")).weeks
    assert len(weeks.offsets_s) == 13
    assert weeks.note.endswith("within 6 weeks of that day of any year; prices repeat where they end before it")


def test_weeks_without_prices_are_no_place_for_a_log():
    value = np.where(FIVE_YEARS.start_s < unix("2022-06-01T00:00Z"), FIVE_YEARS.value, np.nan)
    half = Series(FIVE_YEARS.start_s, FIVE_YEARS.end_s, value, "EUR/MWh", "half of them")
    log = log_of("1996-09-23T16:40Z", days=30)
    weeks = align_log(log, half).weeks
    assert 24 <= len(weeks.offsets_s) <= 26
    assert max(weeks.offsets_s) + log.last_s < unix("2022-06-01T00:00Z")


@given(st.integers(0, 2**31), st.integers(1, 3))
def test_every_week_is_drawn_once_before_any_comes_again(seed: int, rounds: int):
    weeks = align_log(log_of("1996-09-23T16:40Z", days=30), prices("2020-01-01T00:00Z", "2021-01-01T00:00Z")).weeks
    count = len(weeks.offsets_s)
    drawn = [weeks.draw(number, seed) for number in range(rounds * count)]
    assert sorted(drawn) == sorted(weeks.offsets_s * rounds)
    assert drawn == [weeks.draw(number, seed) for number in range(rounds * count)]
