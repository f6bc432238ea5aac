"""The yearly sheet of a data centre whose figures are known by hand."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from year_site import BERLIN, job, unix_s, year_ledger

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading, NodeStateRecord, Price
from offpeak.services.accounts.data_centre_year import (
    CUSTOMER,
    LEFT_TO_OPERATOR,
    MONTH,
    SheetValue,
    YearUse,
    gaps,
    make_sheet,
    read_year_use,
)
from offpeak.settings.ledger import DataCentreSettings
from offpeak.settings.plan import PlanSettings
from offpeak.ui.month.year import year_months

YEAR_KWH = 4.0 * 8760
ALL_ENTERED = DataCentreSettings(
    year=2025,
    it_power_kw=5.0,
    total_energy_kwh=1.5 * YEAR_KWH,
    water_m3=35.04,
    reused_heat_kwh=0.15 * YEAR_KWH,
    certificates_kwh=0.5 * YEAR_KWH,
    agreements_kwh=0.25 * YEAR_KWH,
    on_site_kwh=0.0,
    contract_g_per_kwh=500.0,
    node_embodied_kg=1753.2,
    node_lifetime_years=5.0,
)
NOTHING = DataCentreSettings()


def use_of(url: str, year: int = 2025, now_unix_s: float = 4e9) -> YearUse:
    with open_ledger(url) as connection:
        number, months = year_months(str(year), now_unix_s=now_unix_s, zone=BERLIN)
        return read_year_use(connection, number, months, is_over=months[-1].until_unix_s < now_unix_s)


def sheet_of(use: YearUse, settings: DataCentreSettings, plan: PlanSettings = PlanSettings()) -> Sequence[SheetValue]:  # noqa: B008
    return make_sheet(use, settings, plan)


def find(values: Sequence[SheetValue], name: str, of: str = "") -> SheetValue:
    (found,) = [value for value in values if name in (value.symbol, value.name) and value.of == of]
    return found


def half(_node: str, at: int) -> bool:
    return at >= unix_s(2025, 7)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> YearUse:
    """A year that is measured as a whole, at 200 g/kWh in its first half and 600 g/kWh in its second."""
    jobs = [
        job("1", "physics", unix_s(2025, 3), 10, 10.0, carbon_g=2000.0, currency="EUR"),
        job("2", "physics", unix_s(2025, 8), 20, 10.0, carbon_g=6000.0, currency="USD", basis="modelled: x"),
        job("3", "chem", unix_s(2025, 8), 5, None, basis="not known"),
    ]
    file = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    return use_of(year_ledger(file, 2025, intensity=lambda at: 600.0 if half("", at) else 200.0, jobs=jobs))


@pytest.mark.parametrize(
    ("name", "value", "origin"),
    [
        ("E_NODES", YEAR_KWH, "measured"),
        ("E_IT", YEAR_KWH, "measured"),
        ("E_DC", 1.5 * YEAR_KWH, "entered"),
        ("E_RES-TOT", 0.75 * YEAR_KWH, "entered"),
        ("PUE", 1.5, "measured and entered"),
        ("WUE", 1.0, "measured and entered"),
        ("ERF", 0.1, "entered"),
        ("REF", 0.5, "entered"),
        # From January to June there are 4343 hours on Berlin's clock, from July to December 4417.
        ("CI", (4343 * 200 + 4417 * 600) / 8760, "measured"),
        ("CO2e, scope 2 by location, IT equipment", 4.0 * (4343 * 200 + 4417 * 600) / 1000, "measured"),
        ("CO2e, scope 2 by location, data centre", 6.0 * (4343 * 200 + 4417 * 600) / 1000, "measured and entered"),
        ("CO2e, scope 2 by market, data centre", 0.75 * YEAR_KWH * 0.5, "entered"),
        ("CO2e, embodied share of nodes", 2 * 8760 * 0.04, "entered"),
    ],
)
def test_a_year_by_hand(whole: YearUse, name: str, value: float, origin: str) -> None:
    found = find(sheet_of(whole, ALL_ENTERED), name)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.origin == origin
    assert found.basis


def test_customers_with_their_overhead(whole: YearUse) -> None:
    values = sheet_of(whole, ALL_ENTERED)
    physics = {value.name: value for value in values if value.of == "physics"}
    assert {name: value.value for name, value in physics.items()} == pytest.approx(
        {"jobs": 2, "energy": 20, "overhead": 10, "CO2e": 8, "node-hours": 30, "embodied": 1.2}
    )
    assert physics["energy"].origin == "measured and modelled"
    chem = {value.name: value for value in values if value.of == "chem"}
    assert [chem[name].value for name in ("jobs", "energy", "overhead", "CO2e")] == [1, None, None, None]
    assert "1 job without a known energy" in chem["energy"].basis
    assert find(values, "energy", "(no job)").value == pytest.approx(YEAR_KWH - 20)


def test_nothing_entered_leaves_empty_named_values(whole: YearUse) -> None:
    values = sheet_of(whole, NOTHING)
    for name in ("E_DC", "PUE", "WUE", "ERF", "REF", "E_RES-TOT", *LEFT_TO_OPERATOR):
        found = find(values, name)
        assert (found.value, found.origin) == (None, "not known")
        assert found.basis
    assert find(values, "E_DC").basis == "set data_centre.total_energy_kwh"
    assert find(values, "E_IT").value == pytest.approx(YEAR_KWH)
    assert [value.value for value in values if value.name == "overhead"] == [None, None]


def test_a_sum_with_an_unknown_part_is_unknown(whole: YearUse) -> None:
    values = sheet_of(whole, DataCentreSettings(year=2025, certificates_kwh=5.0, agreements_kwh=0.0))
    assert find(values, "E_RES-TOT").value is None
    assert find(values, "E_RES-TOT").basis == "needs E_RES-OS"


def test_values_of_another_year_do_not_count(whole: YearUse) -> None:
    of_2024 = find(sheet_of(whole, DataCentreSettings(year=2024, total_energy_kwh=1.0)), "E_DC")
    assert (of_2024.value, of_2024.basis) == (None, "data_centre.total_energy_kwh is of 2024")
    of_no_year = find(sheet_of(whole, DataCentreSettings(total_energy_kwh=1.0)), "E_DC")
    assert "belongs to no year: set data_centre.year" in of_no_year.basis


def test_a_total_below_the_energy_of_it_is_no_pue(whole: YearUse) -> None:
    pue = find(sheet_of(whole, DataCentreSettings(year=2025, total_energy_kwh=YEAR_KWH / 2)), "PUE")
    assert (pue.value, pue.basis) == (None, "E_DC is smaller than E_IT, which is impossible: check both")


def test_no_energy_at_all_is_no_division_by_zero(whole: YearUse) -> None:
    values = sheet_of(whole, DataCentreSettings(year=2025, total_energy_kwh=0.0, it_energy_kwh=0.0))
    assert find(values, "PUE").basis == "E_IT is 0"
    assert find(sheet_of(whole, DataCentreSettings(year=2025, total_energy_kwh=0.0)), "PUE").value is None


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_both_databases_add_up_the_same(ledger: Ledger) -> None:
    start = float(unix_s(2025, 3))
    ledger.write_states([NodeStateRecord("n9", start, "on", "on", "offpeak")])
    ledger.write_readings([MeterReading("pdu1", "snmp", "1", start, start + 3600, 1000.0, node="n1")])
    ledger.write_prices([Price(start, start + 1800, 50.0, "EUR", "published", 400.0)])
    jobs = [job("1", "a", unix_s(2025, 3), 2, 1.0), job("2", "b", unix_s(2025, 3), 2, 1.0, node_count=None)]
    ledger.write_jobs(jobs)
    assert ledger.close() == 0
    use = use_of(ledger.settings.url)
    assert (use.nodes, [account.node_s for account in use.accounts]) == (2, [7200.0, None])
    assert use.whole.energy_j == pytest.approx(3.6e6)
    assert use.whole.carbon_g == pytest.approx(200)
    assert use.whole.intensity_share == pytest.approx(0.5)


def test_a_facility_models_the_total(whole: YearUse, tmp_path: Path) -> None:
    table = tmp_path / "room.csv"
    table.write_text("power,0C,20C\n2kW,1.2,1.4\n6kW,1.4,1.6\n")
    plan = PlanSettings(facility=str(table), outside_c=10.0)
    total = find(sheet_of(whole, DataCentreSettings(year=2025, it_power_kw=5.0), plan), "E_DC")
    assert total.value == pytest.approx(1.4 * YEAR_KWH)
    assert total.origin == "modelled"
    without_power = find(sheet_of(whole, NOTHING, plan), "E_DC")
    assert without_power.value is None
    assert "with PD_IT" in without_power.basis


@pytest.mark.parametrize(
    ("is_measured", "value", "origin"),
    [
        (half, None, "not known"),
        (lambda node, _at: node == "n2", None, "not known"),
        (lambda _node, at: at >= unix_s(2025, 1, 20), YEAR_KWH, "modelled"),
        (lambda _node, at: at >= unix_s(2025, 1, 2), 4.0 * 8736, "measured"),
    ],
)
def test_a_year_measured_in_part(
    tmp_path: Path, is_measured: Callable[[str, int], bool], value: float | None, origin: str
) -> None:
    use = use_of(year_ledger(tmp_path / "ledger.sqlite", 2025, is_measured=is_measured))
    it = find(sheet_of(use, ALL_ENTERED), "E_IT")
    assert it.value == (None if value is None else pytest.approx(value))
    assert it.origin == origin
    assert find(sheet_of(use, ALL_ENTERED), "E_NODES").value is not None


def test_what_is_missing_is_said_by_month(tmp_path: Path) -> None:
    url = year_ledger(
        tmp_path / "ledger.sqlite",
        2025,
        is_measured=lambda _node, at: at >= unix_s(2025, 3, 16),
        intensity=lambda at: None if unix_s(2025, 5) <= at < unix_s(2025, 6, 16) else 300.0,
    )
    assert gaps(use_of(url)) == [
        "No readings of nodes in 2025-01 to 2025-02.",
        "Only part of the readings of nodes in 2025-03 (51.5 %).",
        "No carbon intensity in 2025-05.",
        "Only part of the carbon intensity in 2025-06 (50.0 %).",
    ]
    values = sheet_of(use_of(url), ALL_ENTERED)
    assert find(values, "energy", "2025-01").value is None
    assert find(values, "CO2e", "2025-05").value is None
    assert find(values, "energy", "2025-05").value == pytest.approx(4.0 * 31 * 24)
    intensity = find(values, "CI")
    assert intensity.value is None
    assert "kg CO2e: set feeds.carbon" in intensity.basis


def test_without_prices_and_intensities(tmp_path: Path) -> None:
    values = sheet_of(use_of(year_ledger(tmp_path / "l.sqlite", 2025, intensity=lambda _at: None)), ALL_ENTERED)
    assert find(values, "PUE").value == pytest.approx(1.5)
    assert find(values, "CI").value is None
    assert find(values, "CO2e, scope 2 by location, data centre").basis == "needs CI"
    assert find(values, "CO2e, scope 2 by market, data centre").value == pytest.approx(0.75 * YEAR_KWH * 0.5)


def test_a_leap_year_with_its_clock_changes(tmp_path: Path) -> None:
    use = use_of(year_ledger(tmp_path / "ledger.sqlite", 2024), 2024)
    assert use.whole.length_s == 8784 * 3600
    values = sheet_of(use, NOTHING)
    assert find(values, "E_IT").value == pytest.approx(4.0 * 8784)
    hours = {"2024-02": 29 * 24, "2024-03": 31 * 24 - 1, "2024-10": 31 * 24 + 1}
    for month, length_h in hours.items():
        assert find(values, "energy", month).value == pytest.approx(4.0 * length_h)
        assert find(values, "measured", month).value == pytest.approx(100)


def test_two_currencies_in_a_year_do_not_matter(tmp_path: Path) -> None:
    url = year_ledger(tmp_path / "ledger.sqlite", 2025)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database, database:
        database.execute("UPDATE prices SET currency = 'BGN' WHERE from_unix_s < ?", (unix_s(2025, 7),))
    assert find(sheet_of(use_of(url), ALL_ENTERED), "CI").value == pytest.approx(400)


def test_an_empty_ledger(tmp_path: Path) -> None:
    use = use_of(year_ledger(tmp_path / "ledger.sqlite", 2025, intensity=lambda _at: None), 2023)
    values = sheet_of(use, ALL_ENTERED)
    assert use.nodes == 0
    assert all(value.value in (None, 0.0) for value in values)
    assert [value.value for value in values if value.part == MONTH and value.name == "energy"] == [None] * 12
    assert not [value for value in values if value.part == CUSTOMER]


def test_a_year_that_goes_on_has_no_ratios(tmp_path: Path) -> None:
    use = use_of(year_ledger(tmp_path / "ledger.sqlite", 2025), now_unix_s=unix_s(2025, 4, 11) + 50.0)
    assert [month.name for month in use.months] == ["2025-01", "2025-02", "2025-03", "2025-04"]
    values = sheet_of(use, ALL_ENTERED)
    assert find(values, "E_IT").value == pytest.approx(4.0 * (100 * 24 - 1), rel=1e-4)
    assert find(values, "PUE").basis == "2025 is not over"
