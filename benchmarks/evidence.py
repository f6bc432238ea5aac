"""A month of 1,000 nodes and 300,000 jobs: its seals, its bundle, and `offpeak verify` of it."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import insert

from benchmarks.bars import Measured
from offpeak.ledger.database import add_partitions, open_ledger, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, NodeStateRecord, Price, SavingRecord
from offpeak.ledger.seals import KEY_NAME, make_next_seal, read_seals
from offpeak.ledger.tables import decisions, jobs, prices, quarters, savings, series, states
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.zones import zone_text
from offpeak.settings.ledger import LedgerSettings

NODES, JOBS = 1000, 300_000
BEGIN = datetime(2026, 7, 1, tzinfo=UTC)
DAYS = 31
MONTH = f"{BEGIN:%Y-%m}"
INSERTED_AT_ONCE = 50_000
KEY = "0f" * 32


def write_month(url: str, nodes: int = NODES, count: int = JOBS, days: int = DAYS) -> None:
    """Write a month of that many nodes and jobs into a new ledger, with prices, states, decisions and savings."""
    Ledger(LedgerSettings(url=url)).ready()
    begin_s, chance = BEGIN.timestamp(), random.Random(1)
    names = [f"n{number:04}" for number in range(1, nodes + 1)]
    engine = writing_engine(url)

    def hours() -> Iterator[dict[str, object]]:
        for hour in range(24 * days):
            at_s = begin_s + 3600 * hour
            price = Price(at_s, at_s + 3600, chance.uniform(-10, 150), "EUR", "published", 400.0, at_s - 40_000)
            yield vars(price)

    def means() -> Iterator[dict[str, object]]:
        for at_s in range(int(begin_s), int(begin_s) + days * DAY_S, QUARTER_S):
            for number in range(1, nodes + 1):
                watts = chance.uniform(90, 400)
                yield {
                    "at_unix_s": at_s,
                    "series": number,
                    "covered_s": 900.0,
                    "energy_j": 900 * watts,
                    "min_w": watts - 5,
                    "max_w": watts + 5,
                    "without_value": 0,
                }

    def uses() -> Iterator[dict[str, object]]:
        for job in range(count):
            end_s = begin_s + chance.uniform(0, days * DAY_S - 1)
            account, node = f"account{job % 40:02}", names[job % nodes]
            times = (end_s - chance.uniform(60, 7200), end_s)
            where = (f"user{job % 300}", account, "batch", node)
            energy_j, cost = chance.uniform(1e5, 1e8), chance.uniform(0, 5)
            yield vars(JobUse(f"{1_000_000 + job}", *times, *where, energy_j, cost, "EUR", 900.0, "measured"))

    def changes() -> Iterator[dict[str, object]]:
        for number in range(nodes * days):
            at_s = begin_s + number % days * DAY_S + chance.uniform(0, DAY_S - 1)
            state = {"observed": "off", "desired": "off", "by": "offpeak", "why": "idle for 20 min"}
            yield {"node": names[number // days], "at_unix_s": at_s, **state}

    def decided() -> Iterator[dict[str, object]]:
        for state in changes():
            inputs = [["idle_s", chance.uniform(0, 1e4)], ["price", chance.uniform(0, 100)]]
            what = {"decided": "sleep", "reason": "idle for 20 min", "inputs": inputs}
            yield {"at_unix_s": state["at_unix_s"], "subject": state["node"], **what}

    def saved() -> Iterator[dict[str, object]]:
        for day in range(days):
            start_s = begin_s + day * DAY_S
            saved = SavingRecord(start_s, start_s + DAY_S, "all nodes on", 9e8, 20.5, 3e8, 6.6, "EUR", "2 nodes")
            yield vars(replace(saved, saved_carbon_g=66_000.0, low_cost=10.5, high_cost=16.5))

    with engine.begin() as connection:
        meters = [{"number": n, "meter": "pdu1", "way": "snmp", "part": f"outlet {n}"} for n in range(1, nodes + 1)]
        connection.execute(insert(series), [meter | {"node": name} for meter, name in zip(meters, names, strict=True)])
        add_partitions(connection, quarters.name, (begin_s + day * DAY_S for day in range(days)))
        every = ((prices, hours()), (quarters, means()), (jobs, uses()), (states, changes()))
        for table, rows in (*every, (decisions, decided()), (savings, saved())):
            while some := list(islice(rows, INSERTED_AT_ONCE)):
                connection.execute(insert(table), some)
    engine.dispose()


def seal_days(url: str, zone: tzinfo = UTC, settings: Mapping[str, str] = MappingProxyType({})) -> list[float]:
    """Seal all days of a ledger as the agent does, and return the seconds that each took."""
    ledger, took_s = Ledger(LedgerSettings(url=url)), list[float]()
    now_s = BEGIN.timestamp() + (DAYS + 2) * DAY_S
    # A day is sealed only when a newer row is there.
    ledger.write_states([NodeStateRecord("n0001", now_s - 1, "on", "on", "offpeak", "")])
    ledger.remember(KEY_NAME, KEY)
    ledger.settle()
    in_force = {"zone": zone_text(zone) or "UTC", "tariff": "null", "offpeak": "0.1.0", **settings}
    while True:
        began = time.perf_counter()
        with open_ledger(url) as connection:
            seal = make_next_seal(connection, zone, now_s, now_s, key=KEY, settings=in_force)
        if seal is None or (seal.rows == len(in_force) and took_s):
            break
        ledger.write_seal(seal, in_force)
        took_s.append(time.perf_counter() - began)
    ledger.close()
    return took_s


def evidence_benchmarks() -> Iterator[Measured]:
    """Measure on a ledger in a file of its own."""
    data = f"{NODES:,} nodes, {JOBS:,} jobs, {DAYS} days, SQLite"
    free = (float("inf"), False, data)
    with tempfile.TemporaryDirectory() as name:
        url, bundle = f"sqlite:///{Path(name) / 'ledger.sqlite'}", Path(name) / "month.zip"
        write_month(url)
        yield Measured("seal of a day", max(seal_days(url)), "s", 5.0, False, data)
        yield Measured(
            "bundle of a month", _run("ledger", "bundle", bundle, "--month", MONTH, "--ledger", url), "s", *free
        )
        yield Measured("size of it", bundle.stat().st_size / 1e6, "MB", *free)
        with open_ledger(url) as connection:
            digest = read_seals(connection)[-1].digest
        yield Measured("offpeak verify of it", _run("verify", bundle, "--digest", digest), "s", 60.0, False, data)
        used_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        yield Measured("memory of the larger of both", used_mb, "MB", *free)


def _run(*arguments: object) -> float:
    """Run the command, which must succeed, and return how long it took."""
    command = [sys.executable, "-c", "from offpeak.ui.command import main; main()", *map(str, arguments)]
    began = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ | {"TZ": "UTC"})
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps([[each.what, round(each.value, 2), each.unit] for each in evidence_benchmarks()], indent=1))
