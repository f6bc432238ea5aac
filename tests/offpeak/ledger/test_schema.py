"""Tables of this program, of an older one, of a newer one, and of something else."""

import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from ledger_sums import count, file_of, rows_of
from sqlalchemy import Connection, text

from offpeak.door.effect import Effect
from offpeak.errors import BadInput, BadLedger, BadSetting, CannotWrite
from offpeak.ledger import database as place
from offpeak.ledger import database as schema
from offpeak.ledger import tables
from offpeak.ledger.database import (
    HEAD,
    back_up_ledger,
    check_schema,
    ledger_address,
    list_partitions,
    reading_engine,
    writing_engine,
)
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, MeterReading, SavingRecord
from offpeak.ledger.tables import metadata
from offpeak.model.orders import NodeOrder
from offpeak.settings.file import read_values

Open = Callable[..., Ledger]


def test_the_steps_lead_to_the_tables_of_the_program(ledger: Ledger) -> None:
    engine = reading_engine(ledger.settings.url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    check_schema(engine, ledger.settings.url)
    engine.dispose()


def change(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_ledger_of_a_newer_program_is_left_alone(url: str, opened: Open) -> None:
    opened(url).ready()
    change(url, "UPDATE alembic_version SET version_num = '9999'")
    again = opened(url)
    with pytest.raises(BadLedger, match=r"written by a newer offpeak \(tables 9999\); nothing was changed") as refused:
        again.ready()
    assert "install that version again" in refused.value.hint
    with pytest.raises(BadLedger):
        again.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
    engine = reading_engine(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
        assert connection.execute(text("SELECT count(*) FROM intents")).scalar() == 0
    engine.dispose()


def test_a_database_of_something_else_is_left_alone(url: str, opened: Open) -> None:
    change(url, "CREATE TABLE customers (name TEXT)")
    with pytest.raises(BadLedger, match="holds tables of another program"):
        opened(url).ready()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "ledger.sqlite").write_text("dear diary " * 500)
    with pytest.raises(CannotWrite, match="file is not a database"):
        opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}").ready()
    assert (tmp_path / "ledger.sqlite").read_text() == "dear diary " * 500


def test_an_older_file_is_copied_before_it_is_changed(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    number = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
    ledger.close()
    _with_one_step_more(tmp_path, monkeypatch)
    newer = opened(ledger.settings.url)
    assert [intent.number for intent in newer.unfinished()] == [number]
    copy = tmp_path / "ledger.sqlite.before-0011"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as before, closing(sqlite3.connect(file_of(newer))) as now:
        assert before.execute("SELECT version_num FROM alembic_version").fetchall() == [("0010",)]
        assert now.execute("SELECT version_num FROM alembic_version").fetchall() == [("0011",)]
        assert before.execute("SELECT number FROM intents").fetchall() == [(number,)]
        assert now.execute("SELECT extra FROM intents").fetchall() == [(None,)]


def _with_one_step_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate the next release, whose intents have one more column."""
    later = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, later)
    (later / "versions" / "r0011_more.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\nrevision, down_revision = '0011', '0010'\n"
        "def upgrade():\n    op.add_column('intents', sa.Column('extra', sa.Text()))\n"
    )
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(schema, "HEAD", "0011")


def test_a_migration_that_is_killed_leaves_the_old_tables_and_is_made_by_the_next_start(
    url: str, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(url)
    number = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
    ledger.close()
    _with_one_step_more(tmp_path, monkeypatch)
    step = schema.MIGRATIONS / "versions" / "r0011_more.py"
    whole = step.read_text()
    # The process ends in the middle: the column is there, the number of the version is not.
    step.write_text(f"{whole}    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    program = (
        "import sys; from pathlib import Path; from offpeak.ledger import database as d\n"
        "d.MIGRATIONS, d.HEAD = Path(sys.argv[2]), '0011'\n"
        "d.prepare_schema(d.writing_engine(sys.argv[1]), sys.argv[1])"
    )
    killed = subprocess.run((sys.executable, "-c", program, url, str(schema.MIGRATIONS)), check=False)
    assert killed.returncode == -signal.SIGKILL
    engine = reading_engine(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0010"
        columns = list(connection.execute(text("SELECT * FROM intents")).keys())
        assert "extra" not in columns
    engine.dispose()
    step.write_text(whole)
    assert [intent.number for intent in opened(url).unfinished()] == [number]


def test_a_ledger_of_the_first_tables_keeps_what_is_in_it(
    url: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(url)
    with monkeypatch.context() as older:
        older.setattr(schema, "HEAD", "0001")
        older.setattr(schema, "_upgrade", partial(_upgrade_to, "0001"))
        number = first.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
        change(url, "INSERT INTO series (meter, way, part, node) VALUES ('pdu1', 'snmp', 'outlet 1', 'n1')")
        change(url, f"INSERT INTO quarters ({MEANS}) VALUES (0, 1, 900, 90000, 100, 100, 0)")
        first.write_decisions([DecisionRecord(1.0, "n1", "sleep", "idle")])
        assert first.close() == 0
    now = opened(url)
    assert [intent.number for intent in now.unfinished()] == [number]
    assert now.marks() == ()
    assert now.remembered("lives") is None
    assert count(url, tables.decisions) == 1
    now.write_readings([MeterReading("pdu1", "snmp", "outlet 1", 900.0, 1000.0, 100.0, node="n1")])
    assert now.settle()
    assert [row[3] for row in rows_of(now, tables.quarters)] == [90_000.0, 10_000.0]


def test_savings_that_are_not_known_become_null_and_0_again(
    url: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(schema, "HEAD", "0004")
        older.setattr(schema, "_upgrade", partial(_upgrade_to, "0004"))
        opened(url).ready()
    columns = "from_unix_s, until_unix_s, baseline, baseline_energy_j, energy_j, currency, basis, lever"
    rows = "(0, 1, 'own', 0, 0, '', 'not known, because of a plan', 'order'), (1, 2, 'on', 0, 0, '', '1 h', 'sleep')"
    change(url, f"INSERT INTO savings ({columns}) VALUES {rows}")
    ledger = opened(url)
    ledger.write_savings([SavingRecord(2.0, 3.0, "own", None, None, None, None, "")])
    assert ledger.settle()
    found = [(row[3], row[5], row[9]) for row in rows_of(ledger, tables.savings)]
    assert found == [(None, None, "order"), (0.0, 0.0, "sleep"), (None, None, "sleep")]
    engine = writing_engine(url)
    with engine.begin() as connection:
        _upgrade_to("0004", connection, command.downgrade)
        again = connection.execute(text("SELECT energy_j, lever FROM savings ORDER BY from_unix_s"))
        assert again.all() == [(0.0, "order"), (0.0, "sleep"), (0.0, "sleep")]
    engine.dispose()
    opened(url).ready()


MEANS = "at_unix_s, series, covered_s, energy_j, min_w, max_w, without_value"


@pytest.fixture
def older_means(url: str, opened: Open, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a ledger without partitions that has the last minute of January and the first one of February 1970."""
    with monkeypatch.context() as older:
        older.setattr(schema, "HEAD", "0008")
        older.setattr(schema, "_upgrade", partial(_upgrade_to, "0008"))
        opened(url).ready()
    change(url, "INSERT INTO series (meter, way, part, node) VALUES ('pdu1', 'snmp', 'outlet 1', 'n1')")
    for table in ("minutes", "quarters"):
        rows = "(2678340, 1, 30, 3000, 100, 100, 0), (2678400, 1, 60, 6000, 100, 100, 0)"
        change(url, f"INSERT INTO {table} ({MEANS}) VALUES {rows}")
    return url


def test_means_of_an_older_program_go_on_and_back(older_means: str, opened: Open) -> None:
    ledger = opened(older_means)
    # Late readings of both months, and a later month.
    ends_s = (2_678_400.0, 2_678_430.0, 9_000_000.0)
    ledger.write_readings([MeterReading("pdu1", "snmp", "outlet 1", at - 10, at, 40.0, node="n1") for at in ends_s])
    assert ledger.settle()
    expected = [
        (2_678_340, 1, 40.0, 3400.0, 40.0, 100.0, 0),
        (2_678_400, 1, 70.0, 6400.0, 40.0, 100.0, 0),
        (8_999_940, 1, 10.0, 400.0, 40.0, 40.0, 0),
    ]
    assert rows_of(ledger, tables.minutes) == expected
    engine = writing_engine(older_means)
    with engine.begin() as connection:
        is_postgresql = connection.dialect.name == "postgresql"
        names = ["minutes_1970_04", "minutes_until_1970_02"]
        assert list_partitions(connection, "minutes") == (names if is_postgresql else [])
        _upgrade_to("0008", connection, command.downgrade)
        assert list_partitions(connection, "minutes") == []
        back = connection.execute(text("SELECT * FROM minutes ORDER BY at_unix_s"))
        assert [tuple(row) for row in back] == expected
    engine.dispose()
    again = opened(older_means)
    again.ready()
    assert rows_of(again, tables.minutes) == expected


def test_partitions_whose_making_is_killed_are_made_by_the_next_start(older_means: str, opened: Open) -> None:
    program = (
        "import os, signal, sys; from sqlalchemy import event; from offpeak.ledger import database as d\n"
        "engine = d.writing_engine(sys.argv[1])\n"
        "def end(connection, cursor, statement, *rest):\n"
        "    if 'ATTACH PARTITION quarters' in statement or '0009' in str(rest[0]) or \"'0009'\" in statement:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "event.listen(engine, 'after_cursor_execute', end)\n"
        "d.prepare_schema(engine, sys.argv[1])"
    )
    killed = subprocess.run((sys.executable, "-c", program, older_means), check=False)
    assert killed.returncode == -signal.SIGKILL
    engine = reading_engine(older_means)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0008"
        assert list_partitions(connection, "minutes") == []
    engine.dispose()
    ledger = opened(older_means)
    ledger.ready()
    assert [row[3] for row in rows_of(ledger, tables.minutes)] == [3000.0, 6000.0]


def _upgrade_to(revision: str, connection: Connection, go: Callable[[Config, str], None] = command.upgrade) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    go(config, revision)


def test_many_that_open_it_at_once_make_it_once(url: str, opened: Open) -> None:
    ledgers = [opened(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda ledger: ledger.ready(), ledgers))
    assert len({ledger.write_intent(Effect("n1", NodeOrder.ON, "offpeak", "asked"), 1.0) for ledger in ledgers}) == 4


def test_a_copy_is_whole_and_ours_alone(ledger: Ledger, tmp_path: Path) -> None:
    ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
    if ledger.settings.url.startswith("postgresql"):
        with pytest.raises(BadInput, match="PostgreSQL's own tool makes copies") as refused:
            back_up_ledger(ledger.settings.url, tmp_path / "copy")
        assert refused.value.hint.startswith("pg_dump --format=custom --file=")
        return
    back_up_ledger(ledger.settings.url, tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("SELECT count(*) FROM intents").fetchone() == (1,)
    with pytest.raises(BadInput, match="is there already"):
        back_up_ledger(ledger.settings.url, tmp_path / "copy")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://db/offpeak", "is not an address of a SQLite file or a PostgreSQL database"),
        ("sqlite:///ledger.sqlite", "has no absolute path"),
        ("postgresql://offpeak:hush@db1/offpeak", "has a password in it"),
        ("postgresql://offpeak@db1/offpeak?password=hush", "has a password in it"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_no_password_is_shown(url: str, message: str) -> None:
    with pytest.raises(BadSetting, match=message) as refused:
        read_values(None, options={"ledger.url": url})
    assert "hush" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.loses_rows("its driver is missing")
def test_a_driver_that_is_missing_is_named(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "find_spec", lambda _: None)
    ledger = opened("postgresql://offpeak@127.0.0.1/offpeak")
    with pytest.raises(BadLedger, match="needs psycopg"):
        ledger.ready()
    ledger.write_decisions([DecisionRecord(1.0, "n1", "sleep", "idle")])
    assert not ledger.settle(0.3)
    problem = ledger.problem()
    assert problem
    assert (problem.waiting, problem.dropped_others) == (1, 0)


def test_a_place_is_reported_without_a_password() -> None:
    assert ledger_address("sqlite:////var/lib/offpeak/ledger.sqlite") == "/var/lib/offpeak/ledger.sqlite"
    assert ledger_address("postgresql://offpeak@db1/offpeak") == "postgresql://offpeak@db1/offpeak"
