"""On-peak rules: small cases by hand, larger ones against a loop over days."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.step_series import Series, value_at
from offpeak.prices.peak import AboveDayMean, AboveQuantile, ClockHours, Peak, classify, parse_peak_rule
from offpeak.prices.tariff import parse_tariff, tariff_series

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
NAN = float("nan")


def hourly(values, start_s=0) -> Series:
    start = start_s + 3600 * np.arange(len(values))
    return Series(start, int(start[-1]) + 3600, np.array(values, float), "EUR/MWh", "test")


def test_above_the_days_mean():
    _, peak = classify(hourly([-10] * 12 + [50] * 12 + [100] * 6 + [99] * 18), AboveDayMean(UTC))
    assert peak.dtype == np.int8
    assert peak.tolist() == [0] * 12 + [1] * 12 + [1] * 6 + [0] * 18


@pytest.mark.parametrize("rule", [AboveDayMean(UTC), AboveQuantile(0.5, UTC), AboveQuantile(0, UTC)])
@pytest.mark.parametrize("price", [0.1, 41.88, -7.3])
def test_a_flat_day_is_off_peak(rule, price):
    _, peak = classify(hourly([price] * 48), rule)
    assert not peak.any()


@pytest.mark.parametrize("rule", [AboveDayMean(UTC), AboveQuantile(0.5, UTC), ClockHours(0, 86400)])
def test_gaps_are_unknown_and_move_no_threshold(rule):
    _, peak = classify(hourly([1] * 6 + [NAN] * 12 + [2] * 6 + [NAN] * 24), rule)
    known = [1 if isinstance(rule, ClockHours) else 0] * 6
    assert peak.tolist() == [*known, *[Peak.UNKNOWN] * 12, *[1] * 6, *[2] * 24]


def test_the_quantile_of_a_day():
    values = np.random.default_rng(1).permutation(24)
    for q, dear in ((0, 23), (0.25, 18), (0.5, 12), (0.75, 6), (0.99, 0)):
        _, peak = classify(hourly(values), AboveQuantile(q, UTC))
        assert peak.sum() == dear
        assert set(values[peak == 1]) == set(range(24 - dear, 24))


def test_intervals_are_cut_at_local_midnight_and_at_the_clock_hours():
    long = Series(np.array([0]), 86400, np.array([5.0]), "EUR/MWh", "test")
    series, _ = classify(long, AboveDayMean(BERLIN))
    assert series.start_s.tolist() == [0, 23 * 3600]
    series, peak = classify(long, ClockHours(9 * 3600 + 900, 23 * 3600))
    assert series.start_s.tolist() == [0, 33300, 82800]
    assert peak.tolist() == [0, 1, 0]


def test_a_tariffs_own_hours_are_its_peak():
    tariff = parse_tariff("on=90EUR/MWh,off=30EUR/MWh,days=mon-fri,zone=Europe/Berlin")
    begin_s = int(datetime(2024, 3, 25, tzinfo=BERLIN).timestamp())
    series, peak = classify(tariff_series(tariff, begin_s, begin_s + 20 * 86400), tariff.hours)
    assert np.array_equal(peak == Peak.ON_PEAK, series.value == 90)


values = st.lists(st.one_of(st.integers(-50, 300), st.just(NAN)), min_size=1, max_size=120)
rules = st.one_of(
    st.just(AboveDayMean(BERLIN)),
    st.builds(AboveQuantile, st.sampled_from([0.0, 0.25, 0.6, 0.75, 0.9]), st.just(BERLIN)),
)


@settings(deadline=None)
@given(values, st.sampled_from(["2024-03-30T20:00Z", "2024-10-26T22:00Z", "2024-06-01T05:00Z"]), rules)
def test_each_day_is_judged_by_itself(hours, begin, rule):
    series, peak = classify(hourly(hours, int(datetime.fromisoformat(begin).timestamp())), rule)
    days = [datetime.fromtimestamp(int(second), BERLIN).date() for second in series.start_s]
    for day in set(days):
        which = np.array([other == day for other in days])
        assert peak[which].tolist() == judged(series.value[which], series.length_s[which], rule)


def judged(price, length_s, rule) -> list[int]:
    known = ~np.isnan(price)
    if not known.any():
        return [2] * len(price)
    spread = np.sort(np.repeat(price[known], length_s[known] // 3600))
    if isinstance(rule, AboveDayMean):
        threshold = spread.sum() / len(spread)
    else:
        threshold = spread[max(int(np.ceil(round(rule.q * len(spread), 6))) - 1, 0)]
    return [2 if np.isnan(p) else int(p > threshold + 1e-9) for p in price]


@settings(deadline=None)
@given(values, rules)
def test_classification_changes_no_price(hours, rule):
    series = hourly(hours)
    cut, peak = classify(series, rule)
    assert len(cut) == len(peak)
    assert np.array_equal(value_at(cut, series.start_s), series.value, equal_nan=True)
    assert np.array_equal(peak == Peak.UNKNOWN, np.isnan(cut.value))


def test_rules_of_text():
    assert parse_peak_rule("day-mean", zone=BERLIN) == AboveDayMean(BERLIN)
    assert parse_peak_rule("quantile:0.6", zone=UTC) == AboveQuantile(0.6, UTC)
    assert parse_peak_rule("hours:09:00-23:00", zone=BERLIN) == ClockHours(zone=BERLIN)


@pytest.mark.parametrize("text", ["day-meen", "quantile:1", "quantile:", "quantile:nan", "hours:9", "", "day-mean:3"])
def test_invalid_peak_rule_is_refused(text):
    with pytest.raises(BadInput) as problem:
        parse_peak_rule(text, zone=UTC)
    assert problem.value.hint
