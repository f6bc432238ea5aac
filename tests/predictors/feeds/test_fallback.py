"""The stated fallback: what is published, else the forecast, else the tariff, said for every step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series, value_at
from offpeak.predictors.feeds.declared import fill_with_tariff
from offpeak.predictors.feeds.port import KnownSeries, Window

pytestmark = pytest.mark.quick

HOUR = 3600
WINDOW = Window(2 * HOUR, 12 * HOUR)
hours = st.lists(st.just(float("nan")) | st.floats(-500, 4000), min_size=1, max_size=15)
starts = st.integers(-3, 14)


def series(values, *, from_h: int = 0, unit: str = "EUR/MWh", source: str = "test") -> Series:
    start_s = HOUR * (from_h + np.arange(len(values), dtype=np.int64))
    return Series(start_s, int(start_s[-1]) + HOUR, np.array(values, float), unit, source)


TARIFF = series([30.0] * 24, source="on=90EUR/MWh,off=30EUR/MWh")


def test_each_step_says_what_it_rests_on():
    known = KnownSeries(series([1.0, float("nan"), 3.0], from_h=2), fetched_s=0, age_s=5 * HOUR + 100)
    based = fill_with_tariff(known, TARIFF, WINDOW)
    assert based.basis[:3] == ("cached 5 h", "tariff", "cached 5 h")
    assert based.basis[-1] == "tariff"
    assert based.series.value[:4].tolist() == [1.0, 30.0, 3.0, 30.0]
    assert value_at(based.series, np.array([11 * HOUR])) == 30.0


def test_texts_for_fresh_and_young():
    assert KnownSeries(TARIFF, fresh=True).basis == "published"
    assert KnownSeries(TARIFF, age_s=720).basis == "cached 12 min"


def test_tariff_is_the_last_fallback():
    based = fill_with_tariff(KnownSeries(), TARIFF, WINDOW)
    assert set(based.basis) == {"tariff"}


def test_another_currency_is_never_mixed_in():
    other = series([1000.0] * 24, unit="SEK/MWh", source="lear")
    assert set(fill_with_tariff(KnownSeries(other, fresh=True), TARIFF, WINDOW).basis) == {"tariff"}


def test_where_nothing_is_known_it_says_so():
    based = fill_with_tariff(KnownSeries(), series([30.0], from_h=5), WINDOW)
    assert based.basis == ("unknown", "tariff", "unknown")
    assert np.isnan(based.series.value).tolist() == [True, False, True]


@given(hours, starts, st.booleans())
def test_a_published_price_holds_before_the_tariff(published, published_h, has_known):
    known = KnownSeries(series(published, from_h=published_h), fresh=True) if has_known else KnownSeries()
    based = fill_with_tariff(known, TARIFF, WINDOW)
    assert (based.series.start_s[0], based.series.end_s) == WINDOW
    assert len(based.basis) == len(based.series)
    for second in range(*WINDOW, HOUR):
        at = np.array([second])
        layers = [known.series, TARIFF]
        message = [float(value_at(layer, at)[0]) for layer in layers if layer is not None]
        assert value_at(based.series, at)[0] == next(value for value in message if not np.isnan(value))
        step = int(np.searchsorted(based.series.start_s, second, side="right")) - 1
        if known.series is not None and not np.isnan(value_at(known.series, at)[0]):
            assert based.basis[step] == "published"
