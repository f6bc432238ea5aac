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
        ({"flatdemandstructure": [[{"rate": 4.0}, {"rate": 5}], [{"rate": 6}]]}, "do not rise"),
        ({"energyratestructure": [[{"rate": 1, "max": 9}, {"rate": 2, "max": 9}, {"rate": 3}], [{"rate": 1}]]}, "rise"),
        ({"energyratestructure": [[{"rate": 1, "max": 9}, {"rate": 2}], [{"rate": 1}]]}, "tiers of different amounts"),
        ({"demandratchetpercentage": [0.8] * 11 + [0.5]}, "demand ratchets of different months"),
        ({"lookbackPercent": 80}, "above 1, are not read"),
        ({"lookbackPercent": 0.8, "lookbackRange": 6, "lookbackMonths": [True] * 12}, "contradict each other"),
        ({"lookbackPercent": 0.8, "flatdemandstructure": [[{"rate": 0}], [{"rate": 0}]]}, "a time of use is not read"),
        ({"coincidentratestructure": [[{"rate": 3}]]}, "the peak of the grid are not read"),
        ({"energyratestructure": [[{"rate": 0.1, "unit": "kWh/kW"}], [{"rate": 1}]]}, "is per kWh/kW"),
        ({"flatdemandunit": "kVA"}, "is per kVA, not per kW"),
        ({"energyweekdayschedule": [[0] * 24] * 11}, "not of 12 months of 24 known periods"),
        ({"energyweekendschedule": [[7] * 24] * 12}, "not of 12 months of 24 known periods"),
        ({"energyratestructure": [3, 4]}, "is not a tariff of the URDB: TypeError"),
        ({"energyratestructure": [[{"rate": "x"}], [{"rate": 1}]]}, "'x' is not a plausible price"),
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


DEMAND_TIERS = {
    "flatdemandstructure": [[{"rate": 4.0, "max": 150}, {"rate": 7.0}], [{"rate": 6.0, "max": 150}, {"rate": 9.0}]],
    "demandratestructure": [
        [{"rate": 0, "max": 100}, {"rate": 0, "max": 300}, {"rate": 0}],
        [{"rate": 2, "max": 100}, {"rate": 3, "max": 300}, {"rate": 1}],
    ],
}


def year_of_peaks(monthly_kw: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the quarter-hours of 2018, in UTC, and their power: 10 kW but for one peak at noon in each month."""
    start_s = quarters("2018-01-01", "2019-01-01", UTC)
    kw = np.full(len(start_s), 10.0)
    months = [int(datetime(2018, month, 1, 12, tzinfo=UTC).timestamp()) for month in range(1, 13)]
    kw[np.searchsorted(start_s, months)] = monthly_kw
    return start_s, kw


def test_a_tier_of_demand_is_charged_by_the_highest_quarter_hour() -> None:
    tariff = parse(RATE | DEMAND_TIERS, UTC)
    start_s, kw = year_of_peaks([120, 200, *[10.0] * 10])
    peaks = {peak.name: peak.cost for peak in make_bill(tariff, start_s, kw / 4).peaks}
    assert peaks["demand 1 2018-01"] == 120 * 4
    assert peaks["demand 1 2018-02"] == 150 * 4 + 50 * 7
    assert [charge.cost(400) for charge in tariff.demand if charge.name == "time-of-use demand 2"] == [900]


@pytest.mark.parametrize(
    ("ratchet", "charged_kw"),
    [
        ({"lookbackPercent": 0.5, "lookbackRange": 2}, [100, 400, 200, 200, 60, 60, *[10] * 5, 30]),
        ({"demandratchetpercentage": [0.5] * 12}, [100, 400, *[200] * 10]),
        (
            {"lookbackPercent": 0.5, "lookbackMonths": [month == 3 for month in range(12)]},
            [100, 400, 10, 120, *[60] * 8],
        ),
    ],
)
def test_a_ratchet_charges_a_part_of_the_peaks_of_the_months_before(
    ratchet: dict[str, Any], charged_kw: list[float]
) -> None:
    start_s, kw = year_of_peaks([100, 400, 10, 120, *[10] * 7, 30])
    bill = make_bill(parse(RATE | ratchet, UTC), start_s, kw / 4)
    peaks = [peak for peak in bill.peaks if peak.name.startswith("demand")]
    assert [peak.charged_kw for peak in sorted(peaks, key=lambda peak: peak.at_s)] == charged_kw
    # What lies before the first quarter-hour is not known.
    first, last = (peak.unknown_months for peak in sorted(peaks, key=lambda peak: peak.at_s)[:: len(peaks) - 1])
    assert first > last == 0


RATCHET = {
    "lookbackPercent": 0.8,
    "lookbackRange": 5,
    # The other model has a ratchet at times of use, too.
    "demandratestructure": [[{"rate": 0}], [{"rate": 0}]],
}


@pytest.mark.parametrize("change", [{}, {"energyratestructure": TIERS}, DEMAND_TIERS, RATCHET, DEMAND_TIERS | RATCHET])
def test_the_system_advisor_model_reads_the_same_tariff(change: dict[str, Any]) -> None:
    """By its own reader of the database, for a year that begins on a Monday and has no clock changes."""
    tools = pytest.importorskip("PySAM.UtilityRateTools", reason="pip install nrel-pysam")
    rates = pytest.importorskip("PySAM.Utilityrate5", reason="pip install nrel-pysam")
    rate = {key: value for key, value in RATE.items() if not key.startswith("fixed")} | change
    start_s = quarters("2018-01-01", "2019-01-01", UTC)
    kw = np.random.default_rng(5).uniform(100, 400, len(start_s)) * np.linspace(1, 0.3, len(start_s))
    bill = make_bill(parse(rate, UTC), start_s, kw / 4)
    model = rates.new()
    model.ElectricityRates.assign(tools.URDBv8_to_ElectricityRates(deepcopy(rate)))
    if "lookbackPercent" in rate:
        # Its reader knows other spellings only.
        model.ElectricityRates.assign(
            {
                "ur_enable_billing_demand": 1, "ur_billing_demand_minimum": 0, "ur_yearzero_usage_peaks": [0] * 12,
                "ur_billing_demand_lookback_period": rate["lookbackRange"],
                "ur_billing_demand_lookback_percentages": [[100 * rate["lookbackPercent"], 1]] * 12,
                "ur_dc_billing_demand_periods": [[1, 1], [2, 1]],
            }
        )  # fmt: skip
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
