"""Tariffs of the Utility Rate Database: charges by hand and by the System Advisor Model, and what is refused."""

import json
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.errors import BadPrices
from offpeak.prices.bill import make_bill
from offpeak.prices.tariff import Tariff, price_of_next_mwh
from offpeak.prices.tariff_file import site_tariff
from offpeak.prices.urdb import parse_urdb

DENVER, UTC = ZoneInfo("America/Denver"), ZoneInfo("UTC")
SUMMER = range(5, 9)


def schedule(of_hour: dict[int, int], otherwise: int) -> list[list[int]]:
    """Return 12 months of 24 hours: in summer the periods of these hours."""
    return [
        [of_hour.get(hour, otherwise) if month in SUMMER else otherwise for hour in range(24)] for month in range(12)
    ]


RATE: dict[str, Any] = {
    "utility": "Example Electric",
    "name": "Large General Service",
    "energyratestructure": [[{"rate": 0.05, "adj": 0.003, "unit": "kWh"}], [{"rate": 0.11, "sell": 0}]],
    "energyweekdayschedule": schedule(dict.fromkeys(range(14, 20), 1), 0),
    "energyweekendschedule": schedule({}, 0),
    "demandratestructure": [[{"rate": 0}], [{"rate": 9.5, "adj": 0.5}]],
    "demandweekdayschedule": schedule(dict.fromkeys(range(14, 20), 1), 0),
    "demandweekendschedule": schedule({}, 0),
    "flatdemandstructure": [[{"rate": 4.0}], [{"rate": 6.0}]],
    "flatdemandmonths": [0] * 5 + [1] * 4 + [0] * 3,
    "flatdemandunit": "kW",
    "fixedchargefirstmeter": 120,
}


def parse(rate: Any, zone: ZoneInfo = DENVER) -> Tariff:
    return parse_urdb(json.dumps(rate).encode(), "rate.json", zone)


def quarters(first: str, after: str, zone: ZoneInfo) -> np.ndarray:
    from_s, until_s = (int(datetime.fromisoformat(day).replace(tzinfo=zone).timestamp()) for day in (first, after))
    return np.arange(from_s, until_s, 900)


@pytest.mark.quick
def test_a_july_by_hand(tmp_path: Path) -> None:
    """100 kW in July 2026, with its 23 weekdays; 300 kW on Monday at 15:00, and 400 kW at night."""
    file = tmp_path / "rate.json"
    file.write_text(json.dumps({"items": [RATE]}))
    tariff = site_tariff(str(file), DENVER)
    start_s = quarters("2026-07-01", "2026-08-01", DENVER)
    kwh = np.full(len(start_s), 25.0)
    for when, extra in (("2026-07-06T15:00", 50.0), ("2026-07-07T02:00", 75.0)):
        kwh[np.searchsorted(start_s, datetime.fromisoformat(when).replace(tzinfo=DENVER).timestamp())] += extra
    bill = make_bill(tariff, start_s, kwh)
    peak_kwh = 23 * 6 * 100 + 50
    expected = peak_kwh * 0.11 + (31 * 24 * 100 + 125 - peak_kwh) * 0.053 + 400 * 6.0 + 300 * 10.0
    assert bill.total == pytest.approx(expected, abs=0.03)
    assert (tariff.currency, tariff.assumed, tariff.export) == ("USD", "", None)
    assert tariff.description.startswith("Example Electric Large General Service: energy at a time of use, ")


@pytest.mark.quick
def test_winter_and_weekends_have_their_own_prices() -> None:
    tariff = parse(RATE)
    moments = ("2026-07-06T14:00", "2026-07-05T14:00", "2026-01-05T14:00", "2026-07-06T20:00")
    at = np.array([int(datetime.fromisoformat(each).replace(tzinfo=DENVER).timestamp()) for each in moments])
    assert price_of_next_mwh(tariff, at).tolist() == pytest.approx([110, 53, 53, 53])


@pytest.mark.quick
def test_what_is_fed_in_is_paid_where_the_rate_says_so() -> None:
    rate = deepcopy(RATE)
    for period in rate["energyratestructure"]:
        period[0]["sell"] = 0.02
    export = parse(rate).export
    assert export is not None
    assert {window.per_mwh for window in export.windows} == {20.0}
    assert parse(RATE | {"demandwindow": 30}).assumed == "demand by quarter-hours, not by 30 min"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flatdemandstructure": [[{"rate": 4.0, "max": 50}, {"rate": 5}], [{"rate": 6}]]}, "period 1 has 2 tiers"),
        ({"energyratestructure": [[{"rate": 1, "max": 9}, {"rate": 2, "max": 9}, {"rate": 3}], [{"rate": 1}]]}, "rise"),
        ({"energyratestructure": [[{"rate": 1, "max": 9}, {"rate": 2}], [{"rate": 1}]]}, "tiers of different amounts"),
        ({"demandratchetpercentage": [0.8] * 12}, "demand ratchets are not read"),
        ({"lookbackPercent": 0.5}, "demand ratchets are not read"),
        ({"coincidentratestructure": [[{"rate": 3}]]}, "the peak of the grid are not read"),
        ({"energyratestructure": [[{"rate": 0.1, "unit": "kWh/kW"}], [{"rate": 1}]]}, "is per kWh/kW"),
        ({"flatdemandunit": "kVA"}, "is per kVA, not per kW"),
        ({"energyweekdayschedule": [[0] * 24] * 11}, "not of 12 months of 24 known periods"),
        ({"energyweekendschedule": [[7] * 24] * 12}, "not of 12 months of 24 known periods"),
        ({"energyratestructure": [3, 4]}, "is no tariff of the URDB: TypeError"),
        ({"energyratestructure": [[{"rate": "x"}], [{"rate": 1}]]}, "'x' is no plausible price"),
    ],
)
def test_what_cannot_be_charged_exactly_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadPrices, match=message):
        parse(RATE | change)


@pytest.mark.quick
@pytest.mark.parametrize("text", ["{", "[]", "{}", "3", '{"items": [{"name": "a"}, {"name": "b"}]}'])
def test_a_file_that_is_no_tariff_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadPrices, match=r"rate\.json: (is no|holds \d)") as problem:
        parse_urdb(text.encode(), "rate.json", DENVER)
    assert len(str(problem.value)) < 200


TIERS = [
    [{"rate": 0.05, "max": 40_000}, {"rate": 0.06, "max": 90_000}, {"rate": 0.07}],
    [{"rate": 0.12, "max": 40_000}, {"rate": 0.13, "max": 90_000}, {"rate": 0.11}],
]


@pytest.mark.quick
def test_tiers_are_those_of_a_month_and_of_a_part_of_one() -> None:
    rate = {key: value for key, value in RATE.items() if "demand" not in key} | {"energyratestructure": TIERS}
    tariff = parse(rate)
    for first, after, share in (("2026-01-01", "2026-02-01", 1.0), ("2026-01-01", "2026-01-16", 15 / 31)):
        start_s = quarters(first, after, DENVER)
        bill = make_bill(tariff, start_s, np.full(len(start_s), 50.0))
        kwh = 50.0 * len(start_s)
        expected = share * (40_000 * 0.05 + 50_000 * 0.06) + (kwh - share * 90_000) * 0.07
        assert bill.total == pytest.approx(expected, abs=0.01)
    assert price_of_next_mwh(tariff, start_s[:1]).tolist() == pytest.approx([70])
    assert tariff.assumed == "each MWh at the price above the tiers, which only a bill has"


@pytest.mark.parametrize("energy", [RATE["energyratestructure"], TIERS])
def test_the_system_advisor_model_reads_the_same_tariff(energy: list[Any]) -> None:
    """By its own reader of the database, for a year that begins on a Monday and has no clock changes."""
    tools = pytest.importorskip("PySAM.UtilityRateTools", reason="pip install nrel-pysam")
    rates = pytest.importorskip("PySAM.Utilityrate5", reason="pip install nrel-pysam")
    rate = {key: value for key, value in RATE.items() if not key.startswith("fixed")} | {"energyratestructure": energy}
    start_s = quarters("2018-01-01", "2019-01-01", UTC)
    kw = np.random.default_rng(5).uniform(100, 400, len(start_s))
    bill = make_bill(parse(rate, UTC), start_s, kw / 4)
    model = rates.new()
    model.ElectricityRates.assign(tools.URDBv8_to_ElectricityRates(deepcopy(rate)))
    model.ElectricityRates.assign(
        {
            "ur_monthly_fixed_charge": 0, "ur_monthly_min_charge": 0, "ur_annual_min_charge": 0, "rate_escalation": [0],
            "ur_en_ts_sell_rate": 0, "ur_ts_sell_rate": [0],
        }
    )  # fmt: skip
    model.SystemOutput.assign({"gen": [0.0] * len(kw), "degradation": [0]})
    model.Load.assign({"load": kw.tolist(), "load_escalation": [0]})
    model.Lifetime.assign({"analysis_period": 1, "system_use_lifetime_output": 0, "inflation_rate": 0})
    model.execute(0)
    months = model.Outputs.year1_monthly_utility_bill_wo_sys[:12]
    assert bill.total == pytest.approx(sum(months), abs=0.01 * len(bill.lines))
