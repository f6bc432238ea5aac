"""Text with a unit: valid input, invalid input, and the round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.units import (
    parse_bandwidth_mb_per_s,
    parse_carbon_g_per_kwh,
    parse_duration_s,
    parse_latency_s,
    parse_node_power_w,
    parse_power_w,
    parse_price,
    parse_series_unit,
)

pytestmark = pytest.mark.quick

finite = st.floats(min_value=0, max_value=1e4, allow_nan=False)


@pytest.mark.parametrize(("text", "power_w"), [("1.2kW", 1200.0), ("250W", 250.0), (" 3 MW ", 3e6), (".5kW", 500.0)])
def test_power(text, power_w):
    assert parse_power_w(text) == power_w


@pytest.mark.parametrize(("text", "seconds"), [("30min", 1800), ("1.5h", 5400), ("2d", 172800), ("0s", 0)])
def test_duration(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "price"),
    [("90EUR/MWh", (90.0, "EUR")), ("0.09 usd/kWh", (90.0, "USD")), ("-5e1EUR/MWh", (-50.0, "EUR"))],
)
def test_price(text, price):
    assert parse_price(text) == price


@pytest.mark.parametrize("text", ["400g/kWh", "0.4kg/kWh", "400kg/MWh"])
def test_carbon(text):
    assert parse_carbon_g_per_kwh(text) == 400.0


@pytest.mark.parametrize("parse", [parse_power_w, parse_duration_s, parse_price, parse_carbon_g_per_kwh])
@pytest.mark.parametrize("text", ["90", "", "kW", "1,5h", "nanW", "ten min", "9 0W"])
def test_a_bare_number_or_none_at_all_is_refused(parse, text):
    with pytest.raises(BadInput) as problem:
        parse(text)
    assert problem.value.hint


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (parse_power_w, "3KW", "did you mean kW?"),
        (parse_duration_s, "5mins", "did you mean min?"),
        (parse_price, "5EURO/MWh", "did you mean EUR/MWh?"),
        (parse_price, "5EUR/mwh", "did you mean EUR/MWh?"),
        (parse_carbon_g_per_kwh, "5gkWh", "did you mean g/kWh?"),
    ],
)
def test_an_unknown_unit_says_the_nearest(parse, text, hint):
    with pytest.raises(BadInput, match="unknown unit") as problem:
        parse(text)
    assert problem.value.hint == hint


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_power_w, "-1W"), (parse_duration_s, "-1h"), (parse_duration_s, "0.5s"), (parse_power_w, "1e999W")],
)
def test_impossible_quantities_are_refused(parse, text):
    with pytest.raises(BadInput):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_price, "1e308EUR/MWh", "not a plausible price"),
        (parse_price, "-101EUR/kWh", "not a plausible price"),
        (parse_price, "1e8HUF/kWh", "not a plausible price"),
        (parse_power_w, "1e308W", "more than 100 GW"),
        (parse_node_power_w, "2MW", "more than 1 MW, more than any node draws"),
        (parse_carbon_g_per_kwh, "11kg/kWh", "more than 10 kg/kWh"),
        (parse_duration_s, "1e300h", "more than 100 years"),
    ],
)
def test_implausible_quantities_are_refused_with_the_text(parse, text, message):
    with pytest.raises(BadInput, match=f"'{text}' is (?:more|no).*{message.split()[-1]}") as problem:
        parse(text)
    assert message in str(problem.value)
    assert problem.value.hint


def test_prices_of_weak_currencies_and_of_scarcity_are_plausible():
    assert parse_price("3000VND/kWh") == (3_000_000.0, "VND")
    assert parse_price("77777EUR/MWh") == (77_777.0, "EUR")


@pytest.mark.parametrize(("text", "seconds"), [("12ms", 0.012), ("250us", 0.00025), ("0s", 0.0)])
def test_latency(text, seconds):
    assert parse_latency_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "mb_per_s"), [("10Gbit/s", 1250.0), ("100 Mbit/s", 12.5), ("500MB/s", 500.0), ("1GB/s", 1000.0)]
)
def test_bandwidth(text, mb_per_s):
    assert parse_bandwidth_mb_per_s(text) == mb_per_s


def test_a_link_lets_something_through():
    with pytest.raises(BadInput, match="lets nothing through"):
        parse_bandwidth_mb_per_s("0Gbit/s")


def test_series_units():
    assert parse_series_unit("EUR/kWh") == ("EUR/MWh", 1000.0)
    assert parse_series_unit("kg/MWh") == ("g/kWh", 1.0)
    assert parse_series_unit("ct/kWh") == ("EUR/MWh", 10.0)
    assert parse_price("21ct/kWh") == (210.0, "EUR")


@given(st.integers(0, 36_500))
def test_durations_in_each_unit_are_whole_multiples_of_a_second(count):
    in_seconds = [parse_duration_s(f"{count}{unit}") for unit in ("s", "min", "h", "d")]
    assert in_seconds == [count, 60 * count, 3600 * count, 86_400 * count]


@given(finite)
def test_numbers_survive_the_round_trip(number):
    assert parse_power_w(f"{number!r}W") == number
    assert parse_price(f"{-number!r}EUR/MWh") == (-number, "EUR")
    assert parse_carbon_g_per_kwh(f"{number!r}g/kWh") == number
