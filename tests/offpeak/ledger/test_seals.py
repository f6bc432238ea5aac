"""Seals over the rows of each day: equal on both databases, and every later change is found and named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_sums import rows_of
from sqlalchemy import Connection, text

from offpeak.door.effect import AGENT, Effect, Outcome, Refusal
from offpeak.ledger import tables
from offpeak.ledger.database import open_ledger, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import (
    DecisionRecord,
    JobUse,
    MeterReading,
    NodeStateRecord,
    Price,
    SavingRecord,
)
from offpeak.ledger.seals import (
    SEALED_TABLES,
    SETTLED_S,
    UNSEEN_S,
    LedgerSeal,
    RowChange,
    TextColumn,
    broken_links,
    find_changes,
    make_next_seal,
    read_public,
    read_rows,
    read_seals,
    recoded,
    seal_rows,
    take_rows,
    text_column,
    with_pseudonyms,
)
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeOrder
from offpeak.model.time_range import TimeRange

Open = Callable[..., Ledger]
MIDNIGHT_S = 1_793_404_800.0  # 2026-10-31 00:00 UTC
NODES, DAYS = 12, 3
LONG_NAME = "job 1234567.a-server-whose-name-is-long"
KEY = "ab" * 32
SETTINGS = {"plan.revenues": "physics=0.08", "zone": "UTC"}
TABLES = {table.name: table for table in SEALED_TABLES}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """SQLite: one test shows that the seals of PostgreSQL are equal."""
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def fill(ledger: Ledger) -> None:
    """Write some days of each kind of row."""
    for day in range(DAYS):
        begin_s = MIDNIGHT_S + day * DAY_S
        ledger.write_prices(
            [Price(begin_s + 3600 * h, begin_s + 3600 * (h + 1), 0.1 + h, "EUR", "x") for h in range(24)]
        )
        ledger.write_readings(
            [
                MeterReading(
                    "pdu1", "snmp", f"outlet {n}", begin_s + q * 900, begin_s + q * 900 + 900, 100 / 3 + n, node=f"n{n}"
                )
                for n in range(NODES)
                for q in range(0, 96, 24)
            ]
        )
        ledger.write_states([NodeStateRecord(f"n{n}", begin_s + n, "on", "off", AGENT, "idle") for n in range(NODES)])
        ledger.write_decisions([DecisionRecord(begin_s, "n1", "sleep", "idle", (("price", 0.1), ("ü", "é")))])
        ledger.write_decisions([DecisionRecord(begin_s, LONG_NAME, "delayed", "")])
        ledger.write_jobs(
            [
                JobUse(
                    f"{day}_{job}", begin_s, begin_s + 60.0 * job, "ann", "physics", "b", "n1", 3.6e6 / 7, None, "EUR"
                )
                for job in range(40)
            ]
        )
        ledger.write_savings([SavingRecord(begin_s, begin_s + DAY_S, "all nodes on", 2.0, 1.0, 1.0, 0.5, "EUR")])
        number = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, AGENT, "idle"), begin_s)
        ledger.write_outcome(number, Outcome("done", ""), begin_s + 40 * 3600)
        ledger.write_refusal(Effect("n2", NodeOrder.ON, "ann", "x"), Refusal("held", "no", "ask"), begin_s)
    assert ledger.settle()


def seal_all(
    ledger: Ledger,
    now_unix_s: float = MIDNIGHT_S + 30 * DAY_S,
    zone: tzinfo = UTC,
    booked_unix_s: float | None = MIDNIGHT_S + 30 * DAY_S,
) -> list[LedgerSeal]:
    for _ in range(2 * DAYS):
        with open_ledger(ledger.settings.url) as connection:
            seal = make_next_seal(connection, zone, now_unix_s, booked_unix_s, key=KEY, settings=SETTINGS)
        if seal:
            ledger.write_seal(seal, SETTINGS)
    with open_ledger(ledger.settings.url) as connection:
        return read_seals(connection)


def change(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def changes(connection: Connection, seal: LedgerSeal) -> list[RowChange]:
    found = []
    for table in SEALED_TABLES:
        found += find_changes(table, seal.of(table), read_rows(connection, table, seal.span), KEY)
    return found


def test_the_days_are_sealed_in_order_and_nothing_has_changed(ledger: Ledger) -> None:
    fill(ledger)
    # What somebody else wrote is not in force.
    change(ledger.settings.url, f"INSERT INTO sealed_settings VALUES ({MIDNIGHT_S + 60}, 'zone', '', 'Mars')")
    chain = seal_all(ledger)
    assert [seal.span for seal in chain] == [
        TimeRange(MIDNIGHT_S + day * DAY_S, MIDNIGHT_S + (day + 1) * DAY_S) for day in range(DAYS)
    ]
    # Outcomes belong to the day in which they were written.
    assert [seal.rows for seal in chain] == [
        24 + 4 * NODES + NODES + 2 + 40 + 1 + 1 + 1 + len(SETTINGS) + day_after for day_after in (0, 1, 1)
    ]
    assert list(broken_links(chain)) == []
    with open_ledger(ledger.settings.url) as connection:
        assert [changes(connection, seal) for seal in chain] == [[]] * DAYS
        assert [read_public(connection, seal.from_unix_s) for seal in chain] == [{"zone": "UTC"}] * DAYS


def test_the_seals_of_both_databases_are_equal(tmp_path: object, postgres: object, opened: Open) -> None:
    digests = []
    for url in (f"sqlite:///{tmp_path}/ledger.sqlite", postgres.create("ledger_seals")):  # type: ignore[attr-defined]
        ledger = opened(url)
        fill(ledger)
        digests.append([seal.digest for seal in seal_all(ledger)])
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == DAYS


def test_rows_with_pseudonyms_have_the_seal_of_the_rows_with_names(ledger: Ledger) -> None:
    fill(ledger)
    (seal, *_) = seal_all(ledger)
    jobs = TABLES["jobs"]
    with open_ledger(ledger.settings.url) as connection:
        named = read_rows(connection, jobs, seal.span)
        hidden = {
            table.name: with_pseudonyms(table, read_rows(connection, table, seal.span), KEY) for table in SEALED_TABLES
        }
        for table in SEALED_TABLES:
            assert find_changes(table, seal.of(table), hidden[table.name], None) == []
    texts = [each.values for rows in hidden.values() for each in rows.values() if isinstance(each, TextColumn)]
    assert not {"ann", "physics", "idle", "no", "ask", "physics=0.08"} & {text for values in texts for text in values}
    assert hidden["intents"]["by"].values == (AGENT,)
    other = {**hidden["jobs"], "user": recoded(hidden["jobs"]["user"], ["0" * 32])}
    assert {change.kind for change in find_changes(jobs, seal.of(jobs), other, None)} == {"altered"}
    assert [each.kind for each in find_changes(jobs, seal.of(jobs), named, "cd" * 32)] == ["sealed under another key"]


def test_each_text_that_may_name_people_is_personal() -> None:
    names = {"user", "account", "owner", "by", "why", "reason", "said", "hint", "trouble", "comment", "name", "value"}
    for table in SEALED_TABLES:
        assert names.intersection(column.name for column in table.columns) == set(table.personal)


def test_an_older_seal_is_over_names_and_over_zeros_of_savings(ledger: Ledger) -> None:
    fill(ledger)
    ledger.write_savings([SavingRecord(MIDNIGHT_S, MIDNIGHT_S + DAY_S, "as it was", None, None, None, None, "")])
    (seal, *_) = seal_all(ledger)
    with open_ledger(ledger.settings.url) as connection:
        for name, zeros in (("jobs", ()), ("savings", ("baseline_energy_j", "energy_j"))):
            rows = read_rows(connection, TABLES[name], seal.span)
            was = {**rows, **{column: np.nan_to_num(rows[column]) for column in zeros}}
            older = seal_rows(replace(TABLES[name], personal=()), was, KEY)
            assert older
            assert find_changes(TABLES[name], replace(older, key=""), rows, KEY) == []
            assert bool(find_changes(TABLES[name], older, rows, KEY)) is True


@pytest.mark.parametrize(
    ("statement", "table", "kind", "key"),
    [
        ("UPDATE jobs SET energy_j = 0 WHERE job = '1_7'", "jobs", "altered", ("1_7", MIDNIGHT_S + DAY_S)),
        ("DELETE FROM jobs WHERE job = '1_7'", "jobs", "deleted", ("1_7", MIDNIGHT_S + DAY_S)),
        ("UPDATE jobs SET cost = 0 WHERE job = '1_7'", "jobs", "altered", ("1_7", MIDNIGHT_S + DAY_S)),
        (
            f"UPDATE prices SET price_per_mwh = 5.0 WHERE from_unix_s = {MIDNIGHT_S + DAY_S + 3600}",
            "prices",
            "altered",
            (MIDNIGHT_S + DAY_S + 3600,),
        ),
        (
            f"DELETE FROM states WHERE node = 'n3' AND at_unix_s = {MIDNIGHT_S + DAY_S + 3}",
            "states",
            "deleted",
            (MIDNIGHT_S + DAY_S + 3, "n3"),
        ),
        (
            'INSERT INTO states (node, at_unix_s, observed, desired, "by", why) '
            f"VALUES ('n77', {MIDNIGHT_S + DAY_S}, 'on', 'on', 'x', '')",
            "states",
            "added",
            (MIDNIGHT_S + DAY_S, "n77"),
        ),
        # A seal has the first 32 bytes of a text.
        (
            f"DELETE FROM decisions WHERE subject = '{LONG_NAME}' AND at_unix_s = {MIDNIGHT_S + DAY_S}",
            "decisions",
            "deleted",
            (MIDNIGHT_S + DAY_S, LONG_NAME[:32], "delayed"),
        ),
        (
            f"UPDATE quarters SET energy_j = 1 WHERE at_unix_s = {MIDNIGHT_S + DAY_S} AND series = 2",
            "quarters",
            "altered",
            None,
        ),
    ],
)
def test_a_row_that_was_changed_is_named(
    ledger: Ledger, statement: str, table: str, kind: str, key: tuple[object, ...] | None
) -> None:
    fill(ledger)
    chain = seal_all(ledger)
    change(ledger.settings.url, statement)
    with open_ledger(ledger.settings.url) as connection:
        found = [changes(connection, seal) for seal in chain]
    assert (found[0], found[2]) == ([], [])
    (of_it,) = found[1]
    assert (of_it.table, of_it.kind) == (table, kind)
    assert [name for name, _ in of_it.key] == list(TABLES[table].keys)
    assert key is None or tuple(value for _, value in of_it.key) == key


def test_many_changes_are_found_though_not_each_is_named(ledger: Ledger) -> None:
    fill(ledger)
    chain = seal_all(ledger)
    change(ledger.settings.url, "DELETE FROM jobs")
    with open_ledger(ledger.settings.url) as connection:
        found = changes(connection, chain[0])
    assert found
    assert {(each.table, each.kind) for each in found} == {("jobs", "deleted")}


def test_a_day_is_sealed_when_it_is_settled_and_never_twice(ledger: Ledger) -> None:
    fill(ledger)
    settled_s = MIDNIGHT_S + DAY_S + SETTLED_S
    assert seal_all(ledger, settled_s - 1) == []
    assert len(seal_all(ledger, settled_s)) == 1
    assert len(seal_all(ledger, settled_s)) == 1
    # A clock that is set back seals nothing.
    assert len(seal_all(ledger, settled_s - 5 * DAY_S)) == 1


def test_a_day_waits_for_its_jobs_but_no_longer_than_a_week(ledger: Ledger) -> None:
    fill(ledger)
    end_s = MIDNIGHT_S + DAY_S
    late_s = end_s + SETTLED_S + UNSEEN_S
    for booked_unix_s in (None, end_s + SETTLED_S - 1):
        assert seal_all(ledger, late_s - 1, booked_unix_s=booked_unix_s) == []
    assert len(seal_all(ledger, late_s - 1, booked_unix_s=end_s + SETTLED_S)) == 1
    assert len(seal_all(ledger, late_s + DAY_S, booked_unix_s=None)) == 2


def test_no_day_after_the_last_row_is_sealed(ledger: Ledger) -> None:
    fill(ledger)
    # The clock jumps by a year; prices and savings of the days to come are no rows of the past.
    ahead_s = MIDNIGHT_S + 10 * DAY_S
    ledger.write_prices([Price(ahead_s, ahead_s + 3600, 0.1, "EUR", "x")])
    assert ledger.settle()
    year_s = MIDNIGHT_S + 60 * DAY_S
    assert len(seal_all(ledger, year_s, booked_unix_s=year_s)) == DAYS


def test_days_are_those_of_the_zone(ledger: Ledger) -> None:
    fill(ledger)
    berlin = ZoneInfo("Europe/Berlin")
    chain = seal_all(ledger, zone=berlin)
    # Clocks went back on 25 October; rows from 00:00 UTC are from 01:00 in Berlin.
    assert [seal.span for seal in chain[:2]] == [
        TimeRange(MIDNIGHT_S - 3600, MIDNIGHT_S + DAY_S - 3600),
        TimeRange(MIDNIGHT_S + DAY_S - 3600, MIDNIGHT_S + 2 * DAY_S - 3600),
    ]


def test_an_empty_ledger_is_not_sealed(ledger: Ledger) -> None:
    assert seal_all(ledger) == []


def test_a_seal_that_was_altered_breaks_the_chain(ledger: Ledger) -> None:
    fill(ledger)
    chain = seal_all(ledger)
    for bad in [
        replace(chain[0], sealed_unix_s=0.0),
        replace(chain[0], rows=0),
        replace(chain[1], previous="0"),
        replace(chain[2], tables={}),
    ]:
        altered = [bad if seal.from_unix_s == bad.from_unix_s else seal for seal in chain]
        assert [seal.until_unix_s for seal in broken_links(altered)] == [bad.until_unix_s]
    assert list(broken_links([chain[0], chain[2]])) == [chain[2]]


def test_a_price_stays_known_since_the_first_time(ledger: Ledger) -> None:
    first = Price(0.0, 3600.0, 10.0, "EUR", "forecast", known_unix_s=5.0)
    ledger.write_prices([first, replace(first, source="published", known_unix_s=9.0)])
    assert ledger.settle()
    assert [row[-3:] for row in rows_of(ledger, tables.prices)] == [("published", None, 5.0)]
    ledger.write_prices([replace(first, price_per_mwh=11.0, known_unix_s=12.0)])
    assert ledger.settle()
    assert rows_of(ledger, tables.prices)[0][-1] == 12.0


PRICES = TABLES["prices"]


def price_rows(values: list[tuple[float, str]]) -> dict[str, object]:
    at = np.arange(len(values), dtype=np.float64)
    price = np.array([value for value, _ in values], np.float64)
    return {
        "from_unix_s": at,
        "until_unix_s": at + 1,
        "price_per_mwh": price,
        "currency": text_column([source for _, source in values]),
        "source": text_column([source for _, source in values]),
        "carbon_g_per_kwh": np.full(len(values), np.nan),
        "known_unix_s": at,
    }


@pytest.mark.parametrize("count", range(2, 40, 3))
def test_no_row_is_named_that_was_not_there(count: int) -> None:
    """Rows are deleted and others altered, so that some groups lose one row in all."""
    rows = [(float(number), "x") for number in range(120)]
    sealed = seal_rows(PRICES, price_rows(rows), KEY)
    places = np.array([number for number in range(120) if number % count != 1])
    left = take_rows(price_rows([(value + (value % 7 == 0), text) for value, text in rows]), places)
    found = find_changes(PRICES, sealed, left, KEY)
    deleted = {each.key[0][1] for each in found if each.kind == "deleted" and each.key}
    assert found
    assert deleted <= {float(number) for number in range(120)} - set(places.astype(float).tolist())


def test_two_rows_in_whose_place_another_one_stands_have_no_name() -> None:
    """The rows 0, 1 and 15 are of one group: the sums of it give a key of no row."""
    rows = price_rows([(float(number), "x") for number in range(16)])
    sealed = seal_rows(PRICES, take_rows(rows, np.arange(15)), KEY)
    found = find_changes(PRICES, sealed, take_rows(rows, np.arange(2, 16)), KEY)
    assert found == [RowChange("prices", "deleted")]


values = st.tuples(st.floats(allow_nan=True, width=64), st.text(max_size=3))


@given(st.lists(values, min_size=1, max_size=30), st.data())
def test_any_single_altered_value_is_found_and_named(rows: list[tuple[float, str]], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(values)
    sealed = seal_rows(PRICES, price_rows(rows), KEY)
    altered = price_rows([*rows[:place], other, *rows[place + 1 :]])
    found = find_changes(PRICES, sealed, altered, KEY)
    same = rows[place][1] == other[1] and (
        rows[place][0] == other[0] or (rows[place][0] != rows[place][0] and other[0] != other[0])
    )
    assert found == ([] if same else [RowChange("prices", "altered", (("from_unix_s", float(place)),))])
