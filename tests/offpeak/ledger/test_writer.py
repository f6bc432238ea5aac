"""The writer's thread: callers wait for a bounded time, and a killed transaction is complete or absent."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from ledger_sums import count, sums
from pytest_mock import MockerFixture
from sqlalchemy import Connection, insert

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import CannotWrite
from offpeak.ledger import tables, writer
from offpeak.ledger.backlog import RowKind
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord
from offpeak.ledger.writer import LedgerStore, Writer
from offpeak.model.constants import QUARTER_S

pytestmark = pytest.mark.quick

PATIENCE_S = 300.0

WRITES = """\
import sys
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.settings.ledger import LedgerSettings

ledger = Ledger(LedgerSettings(url=sys.argv[1]), patience_s=60.0)
for sweep in range(10**6):
    at = sweep * 10.0
    ledger.write_readings([MeterReading("pdu1", "snmp", f"outlet {i}", at, at + 10, 100.0) for i in range(300)])
    ledger.settle()
    print(sweep, flush=True)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def own(url: str) -> Iterator[Writer]:
    made = Writer(LedgerStore(url), clock=time.time, most_waiting=100, by_minute=False)
    made.call(lambda _: None, bound_s=PATIENCE_S)
    yield made
    made.close(PATIENCE_S)


def test_caller_waits_no_longer_than_its_bound_and_writes_nothing_later(
    own: Writer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs_now, go_on = Event(), Event()

    def hangs(connection: Connection) -> None:
        hangs_now.set()
        connection.execute(insert(tables.series).values(meter="m", way="w", part="p", node=""))
        go_on.wait(PATIENCE_S)

    with pytest.raises(CannotWrite, match=r"did not answer within 0\.1 s"):
        own.call(hangs, bound_s=0.1)
    own.add(RowKind.DECISIONS, [DecisionRecord(1.0, "n1", "sleep", "idle")])
    with pytest.raises(CannotWrite):
        own.call(lambda _: None, bound_s=0.1)
    assert hangs_now.wait(PATIENCE_S)
    monkeypatch.setattr(writer, "HANGS_S", 0.0)
    problem = own.problem()
    assert problem
    assert re.fullmatch(r"has not answered for \d+ s", problem.message)
    assert problem.waiting == 1
    go_on.set()
    assert own.settle(PATIENCE_S)
    wait_until(lambda: own.problem() is None, what="the writer to rest")
    assert count(url, tables.series) == 0
    assert count(url, tables.decisions) == 1


def test_a_closed_one_takes_no_questions(own: Writer) -> None:
    assert own.close(PATIENCE_S) == 0
    with pytest.raises(CannotWrite, match="closed"):
        own.call(lambda _: None, bound_s=1)


def test_readings_and_their_means_are_the_same_after_a_kill(url: str, opened: Callable[..., Ledger]) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITES, url], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        written = [int(agent.stdout.readline()) for _ in range(5)]
        os.kill(agent.pid, signal.SIGKILL)
    ledger = opened(url)
    ledger.ready()
    fine, coarse = sums(ledger, tables.readings, QUARTER_S), sums(ledger, tables.quarters, QUARTER_S)
    assert {key: pytest.approx(value) for key, value in fine.items()} == coarse
    assert sum(energy_j for energy_j, _ in coarse.values()) >= 300 * 1000.0 * len(written)


def test_rows_of_a_sweep_are_one_write(own: Writer, url: str, mocker: MockerFixture) -> None:
    mocker.patch.object(writer, "PAUSE_S", 3600.0)
    transactions = mocker.spy(LedgerStore, "transaction")
    for number in range(50):
        own.add(RowKind.DECISIONS, [DecisionRecord(float(number), "n1", "sleep", "idle")])
        # The query gives the thread the time to write too early.
        assert count(url, tables.decisions) == 0
    assert own.settle(PATIENCE_S)
    assert (count(url, tables.decisions), transactions.call_count) == (50, 1)
