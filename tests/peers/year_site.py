"""The ledger of a year of a site with two nodes of 1 and 3 kW, a price for each hour, and jobs of two accounts."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, NodeStateRecord
from offpeak.settings.ledger import LedgerSettings

BERLIN = ZoneInfo("Europe/Berlin")
QUARTER_S = 900
NODE_W = {"n1": 1000.0, "n2": 3000.0}


def unix_s(year: int, month: int, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=BERLIN).timestamp())


def year_ledger(
    file: Path,
    year: int,
    *,
    is_measured: Callable[[str, int], bool] = lambda _node, _at: True,
    intensity: Callable[[int], float | None] = lambda _at: 400.0,
    jobs: Iterable[JobUse] = (),
) -> str:
    """Write the ledger, with states of both nodes on the first day; return its URL."""
    url = f"sqlite:///{file}"
    ledger = Ledger(LedgerSettings(url=url))
    begin, end = unix_s(year, 1), unix_s(year + 1, 1)
    ledger.write_states([NodeStateRecord(node, begin + 60.0, "on", "on", "offpeak") for node in NODE_W])
    ledger.write_jobs(list(jobs))
    assert ledger.close() == 0
    slots = range(begin, end, QUARTER_S)
    with closing(sqlite3.connect(file)) as database, database:
        for number, (node, power_w) in enumerate(NODE_W.items(), 1):
            database.execute(
                "INSERT INTO series (number, meter, way, part, node) VALUES (?, 'pdu1', 'snmp', ?, ?)",
                (number, node, node),
            )
            rows = [(at, number, QUARTER_S, QUARTER_S * power_w, 0) for at in slots if is_measured(node, at)]
            database.executemany(
                'INSERT INTO quarters (at_unix_s, series, covered_s, energy_j, "without_value") VALUES (?, ?, ?, ?, ?)',
                rows,
            )
        hours = [(at, at + 3600, 50.0, "EUR", "published", intensity(at)) for at in range(begin, end, 3600)]
        columns = "from_unix_s, until_unix_s, price_per_mwh, currency, source, carbon_g_per_kwh"
        known = [row for row in hours if row[5] is not None]
        database.executemany(f"INSERT INTO prices ({columns}) VALUES (?, ?, ?, ?, ?, ?)", known)
    return url


def job(name: str, account: str, start: int, hours: float, kwh: float | None, **others: object) -> JobUse:
    """Return a job on one node."""
    known = {"energy_j": None if kwh is None else kwh * 3.6e6, "cost": None, "currency": "", "basis": "measured"}
    end = start + timedelta(hours=hours).total_seconds()
    values = known | {"partition": "batch", "nodes": "n1", "node_count": 1, "carbon_g": None} | others
    return JobUse(name, float(start), end, "ann", account, **values)  # type: ignore[arg-type]
