"""A ledger that cannot be written: rows wait, calls are refused, the problem is reported, and it recovers by itself."""

import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger_sums import answers, count, file_of, rows_of
from postgres_server import new_postgres
from pytest_mock import MockerFixture
from sqlalchemy import Engine, event

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import Effect, Outcome
from offpeak.errors import CannotWrite
from offpeak.ledger import tables
from offpeak.ledger.database import back_up_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, MeterReading
from offpeak.ledger.writer import LedgerStore
from offpeak.model.orders import NodeOrder

Open = Callable[..., Ledger]
SLEEP = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
QUICK = {"patience_s": 0.3, "bound_s": 300.0}


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory, opened: Open) -> Ledger:
    """A ledger in a file that gives up a lock soon."""
    url = f"sqlite:///{tmp_path_factory.mktemp('small') / 'ledger.sqlite'}"
    made = opened(url, **QUICK)
    made.ready()
    return made


def sweep(number: int, nodes: int = 20) -> list[MeterReading]:
    """Readings of all nodes, the `number`-th time."""
    until_unix_s = number * 10.0
    return [
        MeterReading("pdu1", "snmp", f"outlet {i}", until_unix_s - 10, until_unix_s, 100.0, node=f"n{i}")
        for i in range(nodes)
    ]


def decision(number: int) -> DecisionRecord:
    return DecisionRecord(float(number), "n1", "sleep", "idle")


def problem_text(ledger: Ledger) -> str:
    return getattr(ledger.problem(), "message", "")


def wait_for_problem(ledger: Ledger, what: str) -> None:
    wait_until(lambda: what in problem_text(ledger), what=f"{what!r}, not {ledger.problem()}")


def is_full(ledger: Ledger) -> bool:
    full = "database or disk is full"
    wait_until(lambda: ledger.settle(0.1) or full in problem_text(ledger), what="rows to be written, or no room")
    return full in problem_text(ledger)


def test_a_locked_file_keeps_rows_waiting_and_refuses_intents(small: Ledger) -> None:
    with closing(sqlite3.connect(file_of(small), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        small.write_readings(sweep(1))
        small.write_decisions([decision(1)])
        wait_for_problem(small, "database is locked")
        problem = small.problem()
        assert problem
        assert (problem.waiting, problem.dropped_readings, problem.dropped_others) == (21, 0, 0)
        assert problem.since_unix_s == pytest.approx(time.time(), abs=600)
        assert problem.hint.startswith("another program writes to it")
        with pytest.raises(CannotWrite, match=r"ledger\.sqlite: database is locked"):
            small.write_intent(SLEEP, 1.0)
        other.execute("ROLLBACK")
    assert small.settle()
    assert small.problem() is None
    assert count(small.settings.url, tables.readings) == 20
    assert count(small.settings.url, tables.intents) == 0


def test_a_ledger_that_is_closed_when_it_works_again_writes_all_that_waits(small: Ledger) -> None:
    with closing(sqlite3.connect(file_of(small), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        small.write_readings(sweep(1))
        small.write_decisions([decision(1)])
        wait_for_problem(small, "database is locked")
        other.execute("ROLLBACK")
    assert small.close() == 0


def test_many_intents_in_a_row_wait_for_one_vain_attempt(small: Ledger, mocker: MockerFixture) -> None:
    attempts = mocker.spy(LedgerStore, "transaction")
    with closing(sqlite3.connect(file_of(small), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for _ in range(50):
            with pytest.raises(CannotWrite, match="database is locked"):
                small.write_intent(SLEEP, 1.0)
        # One, and another one after each time that this test is not run for as long as an attempt takes.
        assert attempts.call_count < 25
    wait_until(lambda: answers(small), what="the ledger to answer again")
    assert small.write_intent(SLEEP, 2.0)


def test_a_full_disk_keeps_the_newest_readings_and_every_decision(
    tmp_path: Path, opened: Open, room: dict[str, int]
) -> None:
    room["pages"] = 60
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    opened(url).ready()
    ledger = opened(url, most_waiting=150, **QUICK)
    filled = next(number for number in range(1, 999) if ledger.write_readings(sweep(number)) or is_full(ledger))
    for number in range(filled + 1, filled + 100):
        ledger.write_readings(sweep(number))
        ledger.write_decisions([decision(number)])
    problem = ledger.problem()
    assert problem
    assert (problem.waiting, problem.dropped_others) == (150, 0)
    assert problem.dropped_readings > 1000
    with pytest.raises(CannotWrite, match="disk is full") as refused:
        ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "x" * 50_000), 1.0)
    assert "`offpeak ledger prune`" in refused.value.hint
    room["pages"] = 100_000
    assert ledger.settle()
    left = ledger.problem()
    assert left
    assert (left.message, left.waiting, left.dropped_readings) == ("", 0, problem.dropped_readings)
    assert count(ledger.settings.url, tables.decisions) == 99
    # The last sweep came through whole.
    assert [row[0] for row in rows_of(ledger, tables.readings)[-20:]] == [10.0 * (filled + 99)] * 20


@pytest.fixture
def room() -> Iterator[dict[str, int]]:
    """How many pages a SQLite file may have, from the next time on that it is opened."""
    limit = {"pages": 100_000}

    def limited(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {limit['pages']}").close()

    event.listen(Engine, "connect", limited)
    yield limit
    event.remove(Engine, "connect", limited)


def test_a_file_that_is_gone_is_not_begun_anew(small: Ledger) -> None:
    file = file_of(small)
    number = small.write_intent(SLEEP, 1.0)
    file.rename(file.with_suffix(".away"))
    with pytest.raises(CannotWrite, match=r"ledger\.sqlite: is gone"):
        small.write_intent(SLEEP, 2.0)
    small.write_outcome(number, Outcome("done", "accepted"), 3.0)
    wait_for_problem(small, "is gone")
    assert not file.exists()
    file.with_suffix(".away").rename(file)
    assert small.settle()
    assert small.unfinished() == ()


def test_a_file_that_was_brought_back_from_a_copy_is_used(small: Ledger, tmp_path: Path) -> None:
    small.write_readings(sweep(1))
    assert small.settle()
    back_up_ledger(small.settings.url, tmp_path / "copy")
    small.write_intent(SLEEP, 1.0)
    for file in file_of(small).parent.iterdir():
        file.unlink()
    (tmp_path / "copy").rename(file_of(small))
    assert small.unfinished() == ()
    small.write_readings(sweep(2))
    assert small.settle()
    assert count(small.settings.url, tables.readings) == 40


def test_a_copy_that_is_moved_over_the_file_gets_no_rows_of_the_former_one(small: Ledger, tmp_path: Path) -> None:
    small.write_decisions([decision(1)])
    assert small.settle()
    back_up_ledger(small.settings.url, tmp_path / "copy")
    small.write_decisions([decision(number) for number in range(2, 500)])
    assert small.settle()
    # The log of writes stays, as an admin who only moves the copy leaves it.
    (tmp_path / "copy").replace(file_of(small))
    assert small.unfinished() == ()
    small.write_decisions([decision(500)])
    assert small.settle()
    assert count(small.settings.url, tables.decisions) == 2
    with closing(sqlite3.connect(file_of(small))) as there:
        assert there.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_folder_that_is_missing_is_waited_for(tmp_path: Path, opened: Open) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'var' / 'ledger.sqlite'}", **QUICK)
    with pytest.raises(CannotWrite, match="No such file or directory") as refused:
        ledger.ready()
    assert refused.value.hint
    ledger.write_readings(sweep(1))
    (tmp_path / "var").mkdir()
    assert ledger.settle()
    assert stat.S_IMODE(file_of(ledger).stat().st_mode) == 0o600


def test_an_intent_that_cannot_be_written_in_time_is_not_written_later(small: Ledger) -> None:
    with closing(sqlite3.connect(file_of(small), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CannotWrite):
            small.write_intent(SLEEP, 1.0)
        other.execute("ROLLBACK")
    wait_until(lambda: answers(small), what="the ledger to answer again")
    assert small.unfinished() == ()


def test_a_row_that_no_database_takes_stops_no_other(ledger: Ledger) -> None:
    good = [decision(number) for number in range(50)]
    bad = DecisionRecord(99.0, "n1", "sleep", "idle", (("of", object()),))  # type: ignore[arg-type]
    ledger.write_decisions([*good[:20], bad, *good[20:]])
    ledger.write_outcome(12345, Outcome("done", "of an intent that never was"), 1.0)
    ledger.write_readings(sweep(1))
    assert ledger.settle()
    problem = ledger.problem()
    assert problem
    assert (problem.message, problem.waiting, problem.dropped_others) == ("", 0, 2)
    assert count(ledger.settings.url, tables.decisions) == 50
    assert count(ledger.settings.url, tables.readings) == 20


def test_postgresql_that_is_restarted_is_found_again(opened: Open) -> None:
    with new_postgres() as server:
        with server.up():
            ledger = opened(server.create("offpeak"))
            ledger.ready()
            number = ledger.write_intent(SLEEP, 1.0)
        ledger.write_outcome(number, Outcome("done", "accepted"), 2.0)
        ledger.write_readings(sweep(1))
        wait_for_problem(ledger, "refused")
        with pytest.raises(CannotWrite, match=f"127.0.0.1:{server.port}/offpeak: ") as refused:
            ledger.write_intent(SLEEP, 3.0)
        assert refused.value.hint.startswith("is the database up")
        with server.up():
            assert ledger.settle()
            assert ledger.problem() is None
            assert ledger.unfinished() == ()
            assert count(ledger.settings.url, tables.readings) == 20
            assert ledger.write_intent(SLEEP, 4.0) > number
            ledger.close()


def test_settle_and_close_wait_in_proportion_to_the_patience(
    opened: Open, tmp_path: Path, mocker: MockerFixture
) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", patience_s=20.0)
    settle, close = mocker.spy(ledger._writer, "settle"), mocker.spy(ledger._writer, "close")
    ledger.remembered("x")
    ledger.close()
    assert (settle.call_args.args, close.call_args.args) == ((50.0,), (100.0,))
