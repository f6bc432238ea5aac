"""The loop that seals settled days: not in its first round, then one day a round, and what it missed in order."""

import asyncio
import json
import sqlite3
import threading
from datetime import UTC
from pathlib import Path

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import NodeStateRecord
from offpeak.ledger.seals import broken_links, read_public, read_seals
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.power.lifecycle.node_record import Instant
from offpeak.services.agent.accounting_loops import SealLoop
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings

MIDNIGHT_S = 1_793_404_800.0
TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"
SITE = (Settings(prices=PriceSettings(tariff=TARIFF)), UTC)


def rounds(ledger: Ledger, now_unix_s: float, count: int) -> list[float]:
    """Run rounds of a new loop, as after a restart, and return the pause after each."""
    loop, pauses = SealLoop(ledger, lambda: SITE, lambda: Instant(0.0, now_unix_s), lambda: now_unix_s), []
    for _ in range(count):
        asyncio.run(loop.round())
        pauses.append(loop.period_s)
    return pauses


def test_missed_days_are_sealed_in_order_also_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    ledger.write_states([NodeStateRecord("n1", MIDNIGHT_S + day * DAY_S, "on", "on", "x") for day in (0, 1, 3, 4)])
    assert ledger.settle()
    now_s = MIDNIGHT_S + 4 * DAY_S + 30 * HOUR_S
    assert rounds(ledger, now_s, 3) == [HOUR_S, MINUTE_S, MINUTE_S]
    assert rounds(ledger, now_s, 4) == [HOUR_S, MINUTE_S, MINUTE_S, HOUR_S]
    with open_ledger(url) as connection:
        chain = read_seals(connection)
        public = read_public(connection, chain[-1].from_unix_s)
    assert set(public) == {"zone", "tariff", "offpeak", "python", "numpy", "pyarrow", "sqlalchemy"}
    assert (public["zone"], json.loads(public["tariff"])) == ("UTC", ["", TARIFF])
    settings = [seal.tables["sealed_settings"]["rows"] for seal in chain]
    assert min(settings) > 40
    assert [(seal.from_unix_s, seal.rows - others) for seal, others in zip(chain, settings, strict=True)] == [
        (MIDNIGHT_S + day * DAY_S, rows) for day, rows in enumerate((1, 1, 0, 1))
    ]
    assert list(broken_links(chain)) == []
    ledger.close()


def test_rows_that_wait_for_the_disk_are_in_the_seal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    ledger.write_states([NodeStateRecord("n1", MIDNIGHT_S + day * DAY_S, "on", "on", "x") for day in (0, 1)])
    assert ledger.settle()
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ledger.write_states([NodeStateRecord("n2", MIDNIGHT_S + 60, "on", "on", "x")])
    now_s = MIDNIGHT_S + 2 * DAY_S + 30 * HOUR_S
    loop = SealLoop(ledger, lambda: SITE, lambda: Instant(0.0, now_s), lambda: now_s)
    release = threading.Timer(1.0, other.rollback)
    release.start()
    for _ in range(2):
        asyncio.run(loop.round())
    with open_ledger(url) as connection:
        assert [seal.tables["states"]["rows"] for seal in read_seals(connection)] == [2]
    release.join()
    other.close()
    ledger.close()


def test_a_clock_that_jumps_forward_seals_no_day_before_it_has_gone_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    # What the agent writes by the wrong clock.
    ledger.write_states([NodeStateRecord("n1", MIDNIGHT_S + day * DAY_S, "on", "on", "x") for day in (0, 1, 6)])
    assert ledger.settle()
    now = Instant(500.0, MIDNIGHT_S + DAY_S + 30 * HOUR_S - 100)
    loop = SealLoop(ledger, lambda: SITE, lambda: now, lambda: now.unix_s)

    def sealed_after(passed_s: float, gained_s: float = 0.0) -> int:
        nonlocal now
        now = Instant(now.monotonic_s + passed_s, now.unix_s + passed_s + gained_s)
        asyncio.run(loop.round())
        with open_ledger(url) as connection:
            return len(read_seals(connection))

    assert [sealed_after(0.0), sealed_after(10.0)] == [0, 0]
    assert [sealed_after(10.0, 2 * DAY_S), sealed_after(20.0)] == [0, 0]
    assert sealed_after(10.0, -2 * DAY_S) == 0, "it goes back"
    assert sealed_after(10.0, 2 * DAY_S) == 0
    assert sealed_after(60.0) == 1, "the time that passed settles the day"
    assert sealed_after(29 * HOUR_S) == 2
    assert sealed_after(HOUR_S) == 3, "the clock has gone on: it is right"
    ledger.close()
