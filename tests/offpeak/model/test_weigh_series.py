"""What decisions go by: the price, CO2, or their weighted sum; what is not known stays a gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.step_series import Series, value_at
from offpeak.model.weighing import BY_CO2, BY_PRICE, CO2_UNIT, Weighing, check_carbon, parse_weighing
from offpeak.prices.peak import weigh

pytestmark = pytest.mark.quick

HOUR_S = 3600


def series_of(values: list[float], *, unit: str, step_s: int = HOUR_S, from_s: int = 0) -> Series:
    start_s = from_s + step_s * np.arange(len(values), dtype=np.int64)
    return Series(start_s, from_s + step_s * len(values), np.array(values, float), unit, "test")


PRICES = series_of([50.0, 100.0, 20.0], unit="EUR/MWh")
CARBON = series_of([300.0, 100.0, 500.0, 200.0], unit="g/kWh", step_s=HOUR_S // 2, from_s=HOUR_S)


@pytest.mark.parametrize(("text", "weighing"), [("price", BY_PRICE), ("co2", BY_CO2), ("price+co2:80", Weighing(80.0))])
def test_each_form_is_read(text: str, weighing: Weighing) -> None:
    assert parse_weighing(text) == weighing


@pytest.mark.parametrize("text", ["", "carbon", "co2:80", "price+co2", "price+co2:", "price+co2:-1", "price+co2:nan"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_weighing(text)


def test_by_price_the_series_is_the_price() -> None:
    assert weigh(PRICES, CARBON, BY_PRICE) is PRICES
    assert weigh(PRICES, None, BY_PRICE) is PRICES


def test_by_co2_it_is_the_intensity_while_the_price_is_given() -> None:
    by_co2 = weigh(PRICES, CARBON, BY_CO2)
    assert by_co2.unit == CO2_UNIT
    assert (by_co2.start_s[0], by_co2.end_s) == (PRICES.start_s[0], PRICES.end_s)
    assert value_at(by_co2, np.array([0, 3600, 5400, 7200, 9000])).tolist()[1:] == [300.0, 100.0, 500.0, 200.0]
    assert by_co2.gaps() == ((0, HOUR_S),)


def test_a_tonne_at_80_adds_8_cents_for_each_kilogram() -> None:
    both = weigh(PRICES, CARBON, Weighing(80.0))
    assert both.unit == "EUR+CO2/MWh"
    assert value_at(both, np.array([3600, 5400, 7200])).tolist() == [100 + 24.0, 100 + 8.0, 20 + 40.0]
    assert weigh(PRICES, 400.0, Weighing(80.0)).value.tolist() == [82.0, 132.0, 52.0]


def test_without_an_intensity_nothing_is_known() -> None:
    assert not weigh(PRICES, None, BY_CO2).known.any()
    assert not weigh(PRICES, None, Weighing(80.0)).known.any()


def test_weighing_without_a_source_is_refused() -> None:
    check_carbon(BY_PRICE, is_known=False)
    check_carbon(BY_CO2, is_known=True)
    with pytest.raises(BadInput, match="no carbon intensity is set"):
        check_carbon(BY_CO2, is_known=False)


VALUES = st.lists(st.one_of(st.just(float("nan")), st.integers(-100, 900).map(float)), min_size=1, max_size=8)


@given(VALUES, VALUES, st.sampled_from([900, 1800, 3600]), st.integers(-4, 4), st.sampled_from([0.0, 1.0, 80.0]))
def test_at_each_instant_it_is_the_sum(
    prices: list[float], grams: list[float], step_s: int, shift: int, per_t: float
) -> None:
    price = series_of(prices, unit="EUR/MWh")
    carbon = series_of(grams, unit="g/kWh", step_s=step_s, from_s=900 * shift)
    at_s = np.arange(0, price.end_s, 450)
    expected = value_at(price, at_s) + (per_t / 1000 * value_at(carbon, at_s) if per_t else 0)
    assert value_at(weigh(price, carbon, Weighing(per_t)), at_s) == pytest.approx(expected, nan_ok=True)
