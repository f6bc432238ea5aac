"""What of a demand charge was saved: the difference of two peaks, known at the end of the period, else not known."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from sqlalchemy import text
from test_evidence import members_of, with_rows

from offpeak.ledger.database import open_ledger, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading, NodeStateRecord, SavingRecord
from offpeak.model.constants import DAY_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.time_range import TimeRange
from offpeak.prices.tariff_file import TariffSource, parse_source
from offpeak.services.accounts.account_of_savings import DemandSaving, account_of
from offpeak.services.accounts.evidence import make_bundle, pack
from offpeak.services.accounts.examination import Examination, examine_bundle
from offpeak.services.accounts.month_account import make_month_account
from offpeak.services.accounts.power_bill import check_demand, make_metered_bill, months_of, read_demand
from offpeak.services.accounts.savings import book_savings
from offpeak.settings.ledger import LedgerSettings
from offpeak.ui.month.subject import lines_of

BERLIN = ZoneInfo("Europe/Berlin")
SERVER = bundled_node_class("server")
HEAD = 'currency = "EUR"\nzone = "Europe/Berlin"\n[[energy]]\nprice = "100EUR/MWh"\n'
MONTHLY: TariffSource = ("tariff.toml", HEAD + '[[demand]]\nprice = "8EUR/kW"\nper = "month"\n')
ATYPICAL: TariffSource = (
    "tariff.toml",
    HEAD + '[[demand]]\nname = "peak"\nprice = "120EUR/kW"\nper = "year"\n'
    '[[demand.window]]\nhours = "17:00-19:30"\ndays = "mon-fri"\nmonths = "nov-feb"\n',
)


def unix_s(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=BERLIN).timestamp())


OCTOBER = TimeRange(unix_s("2026-10-01"), unix_s("2026-11-01"))
"""Its last Sunday has 25 hours."""


@pytest.mark.parametrize(("first_h", "last_h"), [(-6, -1), (-1, 0), (-744, 0), (-24, 0)])
def test_the_last_hours_of_a_month_are_in_it(first_h: int, last_h: int) -> None:
    end_s = OCTOBER.until_unix_s
    assert months_of(TimeRange(end_s + 3600 * first_h, end_s + 3600 * last_h), BERLIN) == OCTOBER


PEAK_S = unix_s("2026-10-12T10:00")


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_month(tmp_path_factory.mktemp("month") / "ledger.sqlite", keep_readings_s=0)


def write_month(file: Path, *, keep_readings_s: int) -> Path:
    """Write a ledger: n1 draws 1 kW, n2 100 W and 10 W while it sleeps; n1 draws 1.5 kW when n2 sleeps once."""
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}", keep_readings_s=keep_readings_s))
    times = range(int(OCTOBER.from_unix_s), int(OCTOBER.until_unix_s), 900)
    for first in range(0, len(times), 400):
        some = times[first : first + 400]
        ledger.write_readings([reading("n1", at, 1500.0 if at == PEAK_S else 1000.0) for at in some])
        ledger.write_readings([reading("n2", at, 10.0 if 0 <= at - PEAK_S < 7200 else 100.0) for at in some])
        assert ledger.settle()
    states = ((OCTOBER.from_unix_s, "on", "scheduler"), (PEAK_S, "off", "offpeak"), (PEAK_S + 7200, "on", "offpeak"))
    ledger.write_states([NodeStateRecord("n2", at, state, state, by) for at, state, by in states])
    ledger.write_states([NodeStateRecord("n1", OCTOBER.from_unix_s, "on", "on", "scheduler")])
    assert ledger.settle()
    assert ledger.close() == 0
    return file


def reading(node: str, at: int, watts: float) -> MeterReading:
    return MeterReading(node, "dcmi", "total", at, at + 900, watts, node=node)


def days() -> list[TimeRange]:
    begins = [datetime(2026, 10, 1, tzinfo=BERLIN) + timedelta(days=number) for number in range(32)]
    return [TimeRange(one.timestamp(), other.timestamp()) for one, other in pairwise(begins)]


@pytest.fixture
def booked(month: Path, booked_month: Path, tmp_path: Path) -> Callable[..., str]:
    """Return a function that books the days of a copy of the ledger, after these statements, and returns its URL."""

    def made(*statements: str, tariffs: Mapping[int, TariffSource | None] | None = None) -> str:
        is_booked = not statements and tariffs is None
        url = f"sqlite:///{shutil.copy(booked_month if is_booked else month, tmp_path / 'copy.sqlite')}"
        if not is_booked:
            run(url, *statements)
            book(url, tariffs or {})
        return url

    return made


@pytest.fixture(scope="module")
def booked_month(month: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger with its days booked."""
    file = Path(shutil.copy(month, tmp_path_factory.mktemp("booked") / "ledger.sqlite"))
    book(f"sqlite:///{file}", {})
    return file


def book(url: str, tariffs: Mapping[int, TariffSource | None]) -> None:
    """Book each day at the tariff of its number, else at MONTHLY."""
    ledger = Ledger(LedgerSettings(url=url))
    for number, day in enumerate(days(), 1):
        source = tariffs.get(number, MONTHLY)
        rows = book_savings(url, day, ["n1", "n2"], {"n1": SERVER, "n2": SERVER}.get, {}, source and parse(source))
        ledger.write_savings(rows)
    assert ledger.settle()
    assert ledger.close() == 0


def run(url: str, *statements: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def parse(source: TariffSource) -> object:
    return parse_source(source, BERLIN)


def demand_of(url: str, span: TimeRange = OCTOBER, source: TariffSource = MONTHLY) -> DemandSaving:
    with open_ledger(url) as connection:
        (found,) = read_demand(connection, span, parse_source(source, BERLIN))
    return found


def test_the_saving_of_a_month_is_the_difference_of_two_peaks(booked: Callable[..., str]) -> None:
    """The highest quarter-hour as metered has 1.51 kW; with all nodes on it has 1.6 kW."""
    url = booked()
    found = demand_of(url)
    assert (found.name, found.at_unix_s, found.share, found.is_over) == ("demand 2026-10", PEAK_S, 1.0, True)
    assert (found.peak_kw, found.without_kw) == (pytest.approx(1.51), pytest.approx(1.6))
    assert (found.cost, found.saved) == (pytest.approx(1.51 * 8), pytest.approx(0.09 * 8))
    text = "demand 2026-10: 1.5 kW on 2026-10-12 10:00, 12.08 EUR; saved 0.72 EUR, 1.6 kW without offpeak"
    assert found.text(BERLIN) == text
    with open_ledger(url) as connection:
        levers = account_of(connection, OCTOBER).levers
    assert [lever.lever for lever in levers] == ["sleep"], "it is not added to the savings of days"


TIERED: TariffSource = (
    "rate.json",
    json.dumps(
        {
            "energyratestructure": [[{"rate": 0.1}]],
            "energyweekdayschedule": [[0] * 24] * 12,
            "energyweekendschedule": [[0] * 24] * 12,
            "flatdemandstructure": [[{"rate": 4, "max": 1.55}, {"rate": 20}]],
            "flatdemandmonths": [0] * 12,
            "lookbackPercent": 0.5,
            "lookbackRange": 1,
        }
    ),
)


def test_tiers_and_a_ratchet_charge_and_save_what_the_bill_has(booked: Callable[..., str]) -> None:
    """In September 3.14 kW were drawn, so that 1.57 kW are charged; with all nodes on it would be 1.6 kW."""
    url = booked(tariffs=dict.fromkeys(range(1, 32), TIERED))
    alone = demand_of(url, source=TIERED)
    assert (alone.cost, alone.saved) == (pytest.approx(1.51 * 4), pytest.approx(0.04 * 4 + 0.05 * 20))
    ledger = Ledger(LedgerSettings(url=url))
    september_s = unix_s("2026-09-14T10:00")
    ledger.write_readings([reading(node, september_s, watts) for node, watts in (("n1", 3000.0), ("n2", 140.0))])
    assert ledger.settle()
    assert ledger.close() == 0
    found = demand_of(url, source=TIERED)
    assert (found.cost, found.saved) == (pytest.approx(1.55 * 4 + 0.02 * 20), pytest.approx(0.03 * 20))
    with open_ledger(url) as connection:
        bill, gaps = make_metered_bill(connection, OCTOBER, parse_source(TIERED, BERLIN))
        assert list(check_demand(connection, OCTOBER, parse_source(TIERED, BERLIN))) == []
    assert (bill.lines[-1].quantity, bill.lines[-1].cost) == (pytest.approx(1.57), round(found.cost, 2))
    assert gaps[-2].endswith("the ratchet charges more than the 1.51 kW of this month")
    assert gaps[-1].endswith("the ratchet may charge more, because readings of 1 month before are missing")


def test_readings_that_are_kept_change_no_peak(booked: Callable[..., str], tmp_path: Path) -> None:
    url = f"sqlite:///{write_month(tmp_path / 'kept.sqlite', keep_readings_s=7 * DAY_S)}"
    book(url, {})
    assert demand_of(url) == demand_of(booked())


@pytest.mark.parametrize("boot_w", [130.0, 100.0])
def test_a_boot_saves_nothing_of_a_peak(tmp_path: Path, boot_w: float) -> None:
    """At the peak n2 boots after two hours of sleep: with all nodes on, it would draw its 100 W there."""
    url, day = f"sqlite:///{tmp_path / 'boot.sqlite'}", days()[11]
    ledger, awake_s = Ledger(LedgerSettings(url=url)), PEAK_S + 7200
    for at in range(int(day.from_unix_s), int(day.until_unix_s), 900):
        draw_w = 10.0 if PEAK_S <= at < awake_s else boot_w if at == awake_s else 100.0
        ledger.write_readings([reading("n1", at, 1500.0 if at == awake_s else 1000.0), reading("n2", at, draw_w)])
    states = ((day.from_unix_s, "on"), (PEAK_S, "off"), (awake_s, "booting"), (awake_s + 900, "on"))
    ledger.write_states([NodeStateRecord("n2", at, state, state, "offpeak") for at, state in states])
    ledger.write_states([NodeStateRecord("n1", day.from_unix_s, "on", "on", "scheduler")])
    assert ledger.settle()
    assert ledger.close() == 0
    rows = book_savings(url, day, ["n1", "n2"], {"n1": SERVER, "n2": SERVER}.get, {}, parse_source(MONTHLY, BERLIN))
    (of_demand,) = [row for row in rows if row.lever == "demand"]
    assert of_demand.energy_j == pytest.approx((1500 + boot_w) * 900)
    assert of_demand.baseline_energy_j == pytest.approx((1500 + 100) * 900)


def test_report_ledger_and_verify_show_the_same_figure(booked: Callable[..., str], tmp_path: Path) -> None:
    url = booked()
    found, tariff = demand_of(url), parse_source(MONTHLY, BERLIN)
    with open_ledger(url) as connection:
        account = make_month_account(connection, OCTOBER, BERLIN, tariff)
        bill, _ = make_metered_bill(connection, OCTOBER, tariff)
        content = make_bundle(connection, OCTOBER, BERLIN, tariff=MONTHLY)
    figures = examined(content, tmp_path).computed[found.name]
    charge, saved = [line for line in lines_of(account, tariff) if line.name.startswith(found.name)]
    assert account.demand == (found,)
    assert (charge.cost, saved.cost) == (found.cost, found.saved) == (figures["cost"], figures["saved"])
    assert bill.lines[-1].cost == round(found.cost, 2)


def test_until_the_end_of_the_month_it_is_so_far(booked: Callable[..., str]) -> None:
    url, middle = booked(), TimeRange(OCTOBER.from_unix_s, unix_s("2026-10-25T12:00"))
    run(url, f"UPDATE savings SET as_of_unix_s = {middle.until_unix_s} WHERE until_unix_s > {middle.until_unix_s}")
    found = demand_of(url, middle)
    assert (found.is_over, found.saved) == (False, pytest.approx(0.72))
    assert found.text(BERLIN).endswith("12.08 EUR so far; saved 0.72 EUR so far, 1.6 kW without offpeak")
    assert demand_of(url, TimeRange(unix_s("2026-10-25"), middle.until_unix_s)) == found, "a day shows its month"
    before = demand_of(url, TimeRange(OCTOBER.from_unix_s, unix_s("2026-10-05")))
    assert (before.peak_kw, before.saved) == (pytest.approx(1.1), 0.0)


def test_a_new_peak_counts_from_the_next_booking_on(booked: Callable[..., str]) -> None:
    """All commands show the state of the last booking, so that they show the same."""
    url, as_of = booked(), unix_s("2026-10-12T09:45")
    run(url, f"UPDATE savings SET as_of_unix_s = {as_of} WHERE until_unix_s > {PEAK_S}")
    assert demand_of(url, TimeRange(OCTOBER.from_unix_s, PEAK_S + 1800)).peak_kw == pytest.approx(1.1)


def test_an_agent_that_was_down_over_the_peak_leaves_the_saving_unknown(booked: Callable[..., str]) -> None:
    url = booked(f"DELETE FROM quarters WHERE at_unix_s = {PEAK_S}")
    found = demand_of(url)
    assert (found.peak_kw, found.without_kw, found.saved) == (pytest.approx(1.1), None, None)
    assert found.why == "no node was measured at 2026-10-12 10:00"
    assert found.text(BERLIN).endswith(f"; saving not known, because {found.why}")
    with open_ledger(url) as connection:
        rows = connection.execute(text("SELECT energy_j, cost FROM savings WHERE basis LIKE 'not known%'")).all()
    assert rows == [(None, None)]


def test_meters_of_a_node_that_fell_silent_leave_the_saving_unknown(booked: Callable[..., str]) -> None:
    silent = f"at_unix_s = {unix_s('2026-10-20T08:00')} AND series IN (SELECT number FROM series WHERE node = 'n1')"
    found = demand_of(booked(f"DELETE FROM quarters WHERE {silent}"))
    assert (found.saved, found.why) == (None, "readings are missing in the day from 2026-10-20 00:00")


def test_a_day_that_goes_on_leaves_its_last_quarter_hour_out(month: Path) -> None:
    """Its readings may be on their way: a row of the day says until when it counts."""
    day = TimeRange(unix_s("2026-10-12"), PEAK_S + 960.0)
    of_nodes = (["n1", "n2"], {"n1": SERVER, "n2": SERVER}.get, {}, parse_source(MONTHLY, BERLIN))
    for goes_on, until_s, peak_w in ((True, PEAK_S, 1100.0), (False, PEAK_S + 900, 1510.0)):
        *_, row = book_savings(f"sqlite:///{month}", day, *of_nodes, goes_on=goes_on)
        assert (row.until_unix_s, row.energy_j) == (until_s, pytest.approx(900 * peak_w))


def test_meters_that_sleep_with_their_node_leave_no_gap(booked: Callable[..., str]) -> None:
    asleep = f"at_unix_s >= {PEAK_S} AND at_unix_s < {PEAK_S + 7200}"
    url = booked(f"DELETE FROM quarters WHERE {asleep} AND series IN (SELECT number FROM series WHERE node = 'n2')")
    found = demand_of(url)
    assert found.peak_kw == pytest.approx(1.5)
    assert found.without_kw is not None
    assert 1.5 < found.without_kw <= 1.6, "the class says what it drew"


def test_a_bundle_of_a_running_month_is_proved_too(booked: Callable[..., str], tmp_path: Path) -> None:
    """The agent had booked the day up to 09:45 when the load rose."""
    url, span = booked(), TimeRange(OCTOBER.from_unix_s, PEAK_S + 1800)
    low, high = 900 * 1100.0, 900 * 1510.0
    day = f"from_unix_s = {unix_s('2026-10-12')} AND lever = 'demand'"
    run(url, f"UPDATE savings SET energy_j = {low}, cost = cost * {low / high}, as_of_unix_s = {PEAK_S} WHERE {day}")
    with open_ledger(url) as connection:
        content = make_bundle(connection, span, BERLIN, tariff=MONTHLY)
    found = examined(content, tmp_path)
    assert (found.changes, found.different) == ([], [])


def test_a_node_that_changes_its_meter_saves_nothing_by_it(booked: Callable[..., str]) -> None:
    """From 22 October on n1 is read at its outlet: of the month its BMC counts, of these days the outlet."""
    outlet = "INSERT INTO series (number, meter, way, part, node) VALUES (99, 'pdu', 'snmp', 'outlet 1', 'n1')"
    late = f"at_unix_s >= {unix_s('2026-10-22')} AND series IN (SELECT number FROM series WHERE node = 'n1')"
    found = demand_of(booked(outlet, f"UPDATE quarters SET series = 99, energy_j = 2e6 WHERE {late}"))
    assert found.saved == pytest.approx(0.0), "the highest quarter-hour is the same with all nodes on"


def test_a_day_without_a_booking_leaves_the_saving_unknown(booked: Callable[..., str]) -> None:
    found = demand_of(booked(tariffs={3: None}))
    assert (found.saved, found.why) == (None, "nothing is booked for 2026-10-03 00:00")


@pytest.mark.parametrize(
    "change", [("8EUR", "9EUR"), ("EUR", "USD"), ('"month"', '"month"\n[[demand.window]]\nhours = "08:00-20:00"')]
)
def test_a_charge_that_changed_in_the_month_leaves_the_saving_unknown(
    booked: Callable[..., str], change: tuple[str, str]
) -> None:
    """Another price, another currency, other windows."""
    later = (MONTHLY[0], MONTHLY[1].replace(*change))
    url = booked(tariffs=dict.fromkeys(range(16, 32), later))
    assert demand_of(url).why == "the charge had other terms on 2026-10-16 00:00"
    assert demand_of(url, source=later).why == "the charge had other terms on 2026-10-01 00:00"


def test_another_order_of_the_queue_leaves_the_saving_unknown(booked: Callable[..., str]) -> None:
    url = booked()
    day = days()[4]
    ledger = Ledger(LedgerSettings(url=url))
    row = SavingRecord(day.from_unix_s, day.until_unix_s, "the site's own order", 1.0, 1.0, 1.0, 1.0, currency="EUR")
    ledger.write_savings([replace(row, lever="order")])
    assert ledger.close() == 0
    found = demand_of(url)
    assert found.saved is None
    assert found.why == "the queue was put in another order from 2026-10-05 00:00, which changes the load"


def test_a_yearly_charge_counts_in_its_windows_of_atypical_use(booked: Callable[..., str]) -> None:
    """The window is from November on: in October there is no charge, and no row."""
    url = booked(tariffs=dict.fromkeys(range(1, 32), ATYPICAL))
    with open_ledger(url) as connection:
        assert read_demand(connection, OCTOBER, parse_source(ATYPICAL, BERLIN)) == ()
        assert connection.execute(text("SELECT count(*) FROM savings WHERE lever = 'demand'")).scalar_one() == 0
    autumn = (ATYPICAL[0], ATYPICAL[1].replace("nov-feb", "oct-feb"))
    found = demand_of(booked(tariffs=dict.fromkeys(range(1, 32), autumn)), source=autumn)
    assert (found.name, found.is_over, found.peak_kw) == ("peak 2026", False, pytest.approx(1.1))
    assert (found.without_kw, found.saved) == (None, None), "the windows of January and February were not booked"
    assert found.why == "no node was measured at 2026-01-01 17:00"
    assert found.share == pytest.approx((31 * 24 + 1) / (365 * 24)), "October has an hour more"


@pytest.fixture
def evidence(booked: Callable[..., str]) -> bytes:
    url = booked()
    with open_ledger(url) as connection:
        return make_bundle(connection, OCTOBER, BERLIN, tariff=MONTHLY)


def examined(content: bytes, tmp_path: Path) -> Examination:
    (tmp_path / "bundle.zip").write_bytes(content)
    return examine_bundle(tmp_path / "bundle.zip")


def with_manifest(bundle: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    members = members_of(bundle)
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    return pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()})


def test_a_bundle_proves_the_demand_charge(evidence: bytes, tmp_path: Path) -> None:
    found = examined(evidence, tmp_path)
    assert (found.changes, found.different) == ([], [])
    figures = found.computed["demand 2026-10"]
    assert (figures["peak_kw"], figures["saved"]) == (pytest.approx(1.51), pytest.approx(0.72))


def test_a_lower_peak_in_the_readings_is_found(evidence: bytes, tmp_path: Path) -> None:
    def lower(rows: pa.Table) -> pa.Table:
        energy = [
            900_000.0 if at == PEAK_S and each > 900_000 else each
            for at, each in zip(rows["at_unix_s"].to_pylist(), rows["energy_j"].to_pylist(), strict=True)
        ]
        return rows.set_column(rows.column_names.index("energy_j"), "energy_j", pa.array(energy))

    found = examined(with_rows(evidence, "quarters.parquet", lower), tmp_path)
    assert "demand 2026-10" in found.different
    assert any(
        each.startswith("demand 2026-10 of 2026-10-12: booked with 1.51 kW, 12.08 EUR") for each in found.changes
    )


@pytest.mark.parametrize("column", ["energy_j", "baseline_cost", "cost"])
def test_a_booked_result_that_was_altered_is_found(column: str, evidence: bytes, tmp_path: Path) -> None:
    def higher(rows: pa.Table) -> pa.Table:
        is_demand = [each == "demand" for each in rows["lever"].to_pylist()]
        values = [each + 9000.0 if its else each for its, each in zip(is_demand, rows[column].to_pylist(), strict=True)]
        return rows.set_column(rows.column_names.index(column), column, pa.array(values))

    found = examined(with_rows(evidence, "savings.parquet", higher), tmp_path)
    assert len([change for change in found.changes if change.startswith("demand 2026-10 of ")]) == 31


def test_another_tariff_or_result_in_the_manifest_is_found(evidence: bytes, tmp_path: Path) -> None:
    def cheaper(manifest: dict[str, object]) -> None:
        manifest["tariff"] = [MONTHLY[0], MONTHLY[1].replace("8EUR", "7EUR")]

    def saved_more(manifest: dict[str, object]) -> None:
        manifest["figures"]["demand 2026-10"]["saved"] += 0.01  # type: ignore[index]

    for change in (cheaper, saved_more):
        found = examined(with_manifest(evidence, change), tmp_path)
        assert found.different == ["demand 2026-10"]
