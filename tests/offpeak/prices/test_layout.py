from datetime import UTC
from pathlib import Path

import pytest

from offpeak.errors import BadInput, BadPrices
from offpeak.model.units import parse_series_unit
from offpeak.prices.layout import PriceFileLayout, parse_file_and_layout, parse_layout, unit_of

pytestmark = pytest.mark.quick


def test_a_file_with_times():
    layout = parse_layout("time=utc,value=price,unit=EUR/MWh,zone=UTC")
    assert layout == PriceFileLayout(time="utc", value="price", unit="EUR/MWh", zone=UTC)
    assert parse_layout("") == PriceFileLayout()


def test_a_file_without_times():
    layout = parse_layout("start=2014-06-01,step=1h,value=price,unit=USD/MWh,zone=America/Chicago")
    assert (layout.start_s, layout.step_s, layout.time) == (1401598800, 3600, None)
    assert parse_layout("start=2014-06-01T00:00-05:00,step=15min").start_s == 1401598800


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("valu=price", "did you mean value?"),
        ("start=2014-06-01,zone=UTC", "step=1h"),
        ("step=1h", "start="),
        ("time=utc,start=2014-06-01,step=1h", "time="),
        ("start=2014-06-01,step=1h", "zone=America/Chicago"),
        ("start=June,step=1h,zone=UTC", "start=2014-06-01"),
        ("start=2014-06-01,step=0h,zone=UTC", "step=1h"),
        ("unit=EUR/Mwh", "EUR/MWh"),
        ("zone=Europe/Berln", "Europe/Berlin"),
    ],
)
def test_a_wrong_layout_says_what_to_write(text, hint):
    with pytest.raises(BadInput) as problem:
        parse_layout(text)
    assert hint in problem.value.hint


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("price_DE_2020_eur_per_mwh.csv.gz", ("EUR/MWh", 1.0)),
        ("x_usd_per_mwh.csv", ("USD/MWh", 1.0)),
        ("carbon_g_per_kwh.csv", ("g/kWh", 1.0)),
        ("x_chf_per_kwh.csv", ("CHF/MWh", 1000.0)),
        ("x_ct_per_kwh.csv", ("EUR/MWh", 10.0)),
    ],
)
def test_the_unit_in_the_name(name, unit):
    assert unit_of(PriceFileLayout(), name) == unit
    assert unit_of(PriceFileLayout(unit="EUR/kWh"), name) == ("EUR/MWh", 1000.0)


def test_a_file_may_be_named_with_its_layout():
    assert parse_file_and_layout("a,b.csv") == (Path("a,b.csv"), PriceFileLayout())
    path, layout = parse_file_and_layout("a,b.csv,value=life cycle,unit=g/kWh")
    assert (path, layout.value, layout.unit) == (Path("a,b.csv"), "life cycle", "g/kWh")
    with pytest.raises(BadInput, match="is not key=value"):
        parse_file_and_layout("a.csv,value=direct,nothing")


def test_without_a_unit():
    with pytest.raises(BadPrices, match=r"prices\.csv: the unit is not known") as problem:
        unit_of(PriceFileLayout(), "prices.csv")
    assert "unit=EUR/MWh" in problem.value.hint


@pytest.mark.parametrize(
    ("unit", "series"),
    [
        ("p/kWh", ("GBP/MWh", 10.0)),
        ("ct/kWh", ("EUR/MWh", 10.0)),
        ("öre/kWh", ("SEK/MWh", 10.0)),
        ("ctUSD/kWh", ("USD/MWh", 10.0)),
        ("ctdkk/MWh", ("DKK/MWh", 0.01)),
        ("lb/MWh", ("g/kWh", 0.45359237)),
        ("t/MWh", ("g/kWh", 1000.0)),
        ("lbs/MWh", ("g/kWh", 0.45359237)),
        ("gCO2eq/kWh", ("g/kWh", 1.0)),
    ],
)
def test_hundredths_of_a_currency_and_pounds_are_units(unit, series):
    name, factor = parse_series_unit(unit)
    assert name == series[0]
    assert factor == pytest.approx(series[1])


@pytest.mark.parametrize("unit", ["c/kWh", "øre/kWh", "ore/kWh", "oere/kWh", "¢/kWh"])
def test_a_hundredth_of_more_than_one_currency_is_asked_for(unit):
    with pytest.raises(BadInput, match="unknown unit") as problem:
        parse_series_unit(unit)
    assert "ctUSD/kWh" in problem.value.hint
