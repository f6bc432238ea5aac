"""Bills: against bills computed by hand, a loop over the clock, and the System Advisor Model of NLR."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.step_series import Series
from offpeak.model.time_range import TimeRange
from offpeak.prices.bill import demand_cost, demand_peaks, make_bill
from offpeak.prices.tariff import Tariff
from offpeak.prices.tariff_file import parse_tariff_file, site_tariff

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
BERLIN = ZoneInfo("Europe/Berlin")


def example(name: str) -> Tariff:
    return site_tariff(str(EXAMPLES / f"tariff-{name}.toml"))


def quarters(zone: ZoneInfo, first: str, after: str) -> np.ndarray:
    from_s, until_s = (int(datetime.fromisoformat(day).replace(tzinfo=zone).timestamp()) for day in (first, after))
    return np.arange(from_s, until_s, 900)


def at(start_s: np.ndarray, zone: ZoneInfo, when: str) -> int:
    return int(np.searchsorted(start_s, datetime.fromisoformat(when).replace(tzinfo=zone).timestamp()))


@pytest.mark.quick
def test_a_year_in_germany_by_hand():
    """100 kW all year. 2026 has 261 days from Monday to Friday; 10 of them are holidays of the file.

    New Year, Good Friday, Easter Monday, Labour Day, Ascension, Whit Monday, Corpus Christi, 24, 25 and 31 December
    (3 October, 1 November and 26 December are on a weekend): 251 working days of 16 high hours.
    """
    start_s = quarters(BERLIN, "2026-01-01", "2027-01-01")
    kwh = np.full(len(start_s), 25.0)
    # The peaks count at 19:15 in winter, not at 19:30, in summer or on a holiday.
    kwh[at(start_s, BERLIN, "2026-02-02T19:15")] = 60
    kwh[[at(start_s, BERLIN, day) for day in ("2026-02-02T19:30", "2026-07-01T09:00", "2026-12-25T09:00")]] = 200
    bill = make_bill(example("de"), start_s, kwh)
    # 02-02 19:15 and 19:30, and 07-01 09:00, are high hours; 12-25 09:00 is a low one.
    high = 251 * 16 * 100 + 35 + 175 + 175
    low = (8760 - 251 * 16) * 100 + 175
    kwh_total = high + low
    expected = {
        "energy high": round(high * 0.118, 2),
        "energy low": round(low * 0.094, 2),
        "grid fee consumption": round(kwh_total * 0.0121, 2),
        "electricity tax": round(kwh_total * 0.0205, 2),
        "concession fee": round(kwh_total * 0.0011, 2),
        "demand 2026": 240 * 120.0,
    }
    assert expected["energy high"] == 47434.23
    assert expected["demand 2026"] == 28800.0
    net = sum(expected.values())
    expected["tax 19 %"] = round(net * 0.19, 2)
    assert {line.name: line.cost for line in bill.lines} == pytest.approx(expected, abs=0.001)
    assert bill.total == pytest.approx(round(net * 1.19, 2), abs=0.01)
    assert (bill.unpriced_kwh, bill.unknown_s, bill.currency) == (0, 0, "EUR")


@pytest.mark.quick
def test_a_july_in_california_by_hand():
    """200 kW in July 2026, which has 23 days from Monday to Friday, of which Friday the 3rd is a holiday."""
    zone = ZoneInfo("America/Los_Angeles")
    start_s = quarters(zone, "2026-07-01", "2026-08-01")
    kwh = np.full(len(start_s), 50.0)
    kwh[at(start_s, zone, "2026-07-03T17:00")] = 100
    kwh[at(start_s, zone, "2026-07-06T20:45")] = 75
    bill = make_bill(example("us"), start_s, kwh)
    on, mid = 22 * 5 * 200 + 25, 22 * 4 * 200
    off = 31 * 24 * 200 + 25 + 50 - on - mid
    assert {line.name: line.cost for line in bill.lines} == {
        "energy summer on-peak": round(on * 0.184, 2),
        "energy summer mid-peak": round(mid * 0.121, 2),
        "energy winter peak": 0.0,
        "energy off-peak": round(off * 0.098, 2),
        "public purpose programs": round((on + mid + off) * 0.0152, 2),
        "demand 2026-07": 400 * 21.40,
        "summer on-peak demand 2026-07": 300 * 26.10,
    }
    assert bill.total == pytest.approx(sum(line.cost for line in bill.lines))


@pytest.mark.quick
def test_a_spot_customer_who_feeds_in_by_hand():
    start_s = quarters(BERLIN, "2026-06-01", "2026-06-02")
    spot = Series(start_s[[0, 48]], int(start_s[-1]) + 900, np.array([100.0, -20.0]), "EUR/MWh", "market")
    kwh = np.where(np.arange(96) < 48, 10.0, 0.0)
    kwh[95] = -30
    bill = make_bill(example("spot"), start_s, kwh, spot)
    costs = {line.name: line.cost for line in bill.lines}
    # A negative price of the market is paid for what is fed in.
    assert costs["export window 1"] == round(30 * 0.020 * 0.97, 2)
    assert costs["energy window 1"] == round(480 * (0.100 * 1.015 + 0.0042), 2)
    assert costs["grid fee low"] == round(200 * 0.0045, 2)
    assert costs["demand 2026"] == round(40 * 120 / 365, 2)


@pytest.mark.quick
def test_what_is_not_known_is_in_no_position_and_is_counted():
    start_s = quarters(BERLIN, "2026-06-01", "2026-06-02")
    kwh = np.full(96, 10.0)
    kwh[:8] = np.nan
    spot = Series(start_s[[0]], int(start_s[48]), np.array([100.0]), "EUR/MWh", "market")
    bill = make_bill(example("spot"), start_s, kwh, spot)
    assert (bill.unpriced_kwh, bill.unknown_s) == (480, 8 * 900)
    assert next(line for line in bill.lines if line.name == "energy window 1").cost == round(400 * 0.1057, 2)
    assert demand_peaks(example("spot"), start_s, np.full(96, np.nan)) == ()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("day", "after", "hours"), [("2026-03-29", "2026-03-30", 23), ("2026-10-25", "2026-10-26", 25)]
)
def test_days_of_23_and_25_hours(day, after, hours):
    start_s = quarters(BERLIN, day, after)
    bill = make_bill(example("spot"), start_s, np.full(len(start_s), 25.0))
    quantities = {line.name: line.quantity for line in bill.lines}
    assert quantities["grid fee low"] == (5 + hours - 24) * 100
    assert quantities["grid fee standard"] == 19 * 100
    assert bill.unpriced_kwh == hours * 100


@pytest.mark.quick
def test_a_leap_year_has_its_29_february_and_the_whole_charge():
    start_s = quarters(BERLIN, "2028-01-01", "2029-01-01")
    bill = make_bill(example("de"), start_s, np.full(len(start_s), 25.0))
    costs = {line.name: line.cost for line in bill.lines}
    assert costs["demand 2028"] == 12000
    assert costs["grid fee consumption"] == round(8784 * 100 * 0.0121, 2)


@pytest.mark.quick
def test_the_bill_of_a_month_has_its_part_of_the_charge_of_the_year():
    """The peak of the year so far counts, in January's bill not the one of March."""
    start_s = quarters(BERLIN, "2026-01-01", "2026-05-01")
    power_w = np.full(len(start_s), 100e3)
    power_w[at(start_s, BERLIN, "2026-03-02T18:00")] = 300e3
    tariff = example("spot")
    april = int(start_s[at(start_s, BERLIN, "2026-04-01T00:00")])
    january = at(start_s, BERLIN, "2026-02-01T00:00")
    assert demand_cost(tariff, start_s, power_w, span=TimeRange(april, int(start_s[-1]) + 900)) == pytest.approx(
        300 * 120 * 30 / 365
    )
    assert demand_cost(tariff, start_s[:january], power_w[:january]) == pytest.approx(100 * 120 * 31 / 365)


@pytest.mark.quick
def test_a_year_adds_up_to_its_months():
    start_s = quarters(ZoneInfo("America/Los_Angeles"), "2026-01-01", "2027-01-01")
    tariff = example("us")
    power_w = np.random.default_rng(3).uniform(1e3, 9e3, len(start_s))
    whole = demand_peaks(tariff, start_s, power_w)
    month = tariff.calendar.months(start_s)
    parts = [demand_cost(tariff, start_s[month == each], power_w[month == each]) for each in np.unique(month)]
    assert demand_cost(tariff, start_s, power_w) == pytest.approx(sum(parts))
    assert [peak.share for peak in whole] == [1.0] * 16


@pytest.mark.quick
def test_hours_are_no_quarter_hours():
    with pytest.raises(BadInput, match="not in quarter-hours"):
        demand_peaks(example("de"), np.arange(0, 36000, 3600), np.ones(10))


def naive_prices(start_s: list[int]) -> list[tuple[float, bool]]:
    """Return energy price and whether the demand counts, by the clock of each quarter-hour, for the German example."""
    found = []
    for second in start_s:
        now = datetime.fromtimestamp(second, BERLIN)
        working = now.weekday() < 5 and (now.month, now.day) not in {(12, 24), (12, 31)}
        clock = now.hour + now.minute / 60
        winter = now.month in (12, 1, 2) and (8 <= clock < 12.5 or 16.5 <= clock < 19.5)
        autumn = now.month in (9, 10, 11) and 17 <= clock < 19.5
        found.append((0.118 if working and 6 <= clock < 22 else 0.094, working and (winter or autumn)))
    return found


@pytest.mark.quick
@given(st.integers(0, 365), st.integers(1, 400), st.integers(0, 2**32))
def test_any_time_is_charged_as_a_loop_over_its_clock_charges_it(day, count, seed):
    text = (EXAMPLES / "tariff-de.toml").read_text().replace('"DE-NW", ', "")
    tariff = parse_tariff_file(text.encode(), "de.toml", UTC)
    first = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    start_s = int(first.timestamp()) + 900 * np.arange(count)
    kwh = np.random.default_rng(seed).uniform(0, 100, count)
    prices = naive_prices(start_s.tolist())
    bill = make_bill(tariff, start_s, kwh)
    energy = sum(line.cost for line in bill.lines if line.name.startswith("energy"))
    assert energy == pytest.approx(sum(each * price for each, (price, _) in zip(kwh, prices, strict=True)), abs=0.011)
    counted = [float(each) for each, (_, counts) in zip(kwh, prices, strict=True) if counts]
    peaks = demand_peaks(tariff, start_s, kwh * 4000)
    assert max((peak.power_kw for peak in peaks), default=0.0) == pytest.approx(4 * max(counted, default=0.0))


def test_the_system_advisor_model_computes_the_same_bill():
    """NLR's model has no holidays and no clock changes, so the example is charged without them, in a common year."""
    rates = pytest.importorskip("PySAM.Utilityrate5", reason="pip install nrel-pysam")
    text = (
        (EXAMPLES / "tariff-us.toml").read_text().replace("America/Los_Angeles", "UTC").replace('["US"]', '["01-01"]')
    )
    tariff = parse_tariff_file(text.replace('["01-01"]', '["2000-01-01"]').encode(), "us.toml", UTC)
    # The year of the model begins on a Monday.
    start_s = quarters(ZoneInfo("UTC"), "2018-01-01", "2019-01-01")
    kw = np.random.default_rng(7).uniform(100, 400, len(start_s))
    bill = make_bill(tariff, start_s, kw / 4)
    summer, winter = range(5, 9), [*range(5), *range(9, 12)]
    week, end = np.full((12, 24), 4), np.full((12, 24), 4)
    for month in summer:
        week[month, 16:21], week[month, [14, 15, 21, 22]] = 1, 2
    for month in winter:
        week[month, 16:21] = end[month, 16:21] = 3
    model = rates.new()
    levy = 0.0152
    energy = [(period, 1, 1e38, 0, price + levy, 0) for period, price in enumerate((0.184, 0.121, 0.139, 0.098), 1)]
    model.ElectricityRates.assign(
        {
            "ur_metering_option": 0, "ur_monthly_fixed_charge": 0, "ur_monthly_min_charge": 0,
            "ur_annual_min_charge": 0,
            "ur_en_ts_sell_rate": 0, "ur_ts_sell_rate": [0], "ur_ec_sched_weekday": week.tolist(),
            "ur_ec_sched_weekend": end.tolist(), "ur_ec_tou_mat": energy, "ur_dc_enable": 1, "ur_dc_sched_weekday":
            np.where(week == 1, 1, 2).tolist(), "ur_dc_sched_weekend": np.full((12, 24), 2).tolist(),
            "ur_dc_tou_mat": [(1, 1, 1e38, 26.10), (2, 1, 1e38, 0)],
            "ur_dc_flat_mat": [(month, 1, 1e38, 21.40) for month in range(12)], "rate_escalation": [0],
        }
    )  # fmt: skip
    model.SystemOutput.assign({"gen": [0.0] * len(kw), "degradation": [0]})
    model.Load.assign({"load": kw.tolist(), "load_escalation": [0]})
    model.Lifetime.assign({"analysis_period": 1, "system_use_lifetime_output": 0, "inflation_rate": 0})
    model.execute(0)
    # Each of its positions is rounded to the cent here, and not there.
    assert bill.total == pytest.approx(
        sum(model.Outputs.year1_monthly_utility_bill_wo_sys[:12]), abs=0.01 * len(bill.lines)
    )
