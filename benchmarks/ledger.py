"""The ledger: readings kept up with, while pruning too, and what a month cost."""

import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

from sqlalchemy import func, insert, select

from benchmarks.bars import Measured
from benchmarks.local_slurm.postgres import new_postgres
from benchmarks.peers import peer
from offpeak.door.effect import Mode
from offpeak.ledger.database import add_partitions, open_ledger, writing_engine
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.rows import JobUse, MeterReading, Price
from offpeak.ledger.tables import minutes, quarters, series
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.time_range import TimeRange
from offpeak.settings.ledger import LedgerSettings

NODES, EVERY_S = 1000, 10
MEANS = (minutes, quarters)
SWEEPS = 180
JOBS, MONTH_S = 300_000, 30 * 86_400
DELAYED, CYCLES = 500, 240
DATA = f"{NODES:,} nodes, SQLite"


def ledger_benchmarks() -> Iterator[Measured]:
    """Measure on a ledger in a file of its own."""
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{Path(name) / 'ledger.sqlite'}"
        ledger = Ledger(LedgerSettings(url=url, keep_readings_s=SWEEPS * EVERY_S // 2))
        yield _share(f"readings each {EVERY_S} s", _keep_up(ledger, 0))
        yield _share("the same, while as many are pruned", _keep_up(ledger, SWEEPS, prune=True))
        _fill(ledger, url)
        ledger.close()
        yield Measured("a month's cost by account", _ask_jobs(url), "s", 2.0, False, f"{JOBS:,} jobs, SQLite")
        yield _delayed(Path(name))
        yield Measured("a month's energy and cost by day and node", _ask_nodes(url), "s", float("inf"), False, DATA)


SLICE_NODES, SLICES = 1000, 10
"""A large site has ten times as many nodes as are written."""


def rows_benchmarks() -> Iterator[Measured]:
    """Write a quarter-hour of a tenth of a large site, without single readings, into PostgreSQL.

    Rows are in proportion to nodes, and a day has 96 times as many.
    """
    with new_postgres() as server, server.up():
        for name, meters, silent_s in (("one meter", 1, None), ("two meters", 2, None), ("two meters", 2, 420)):
            url = server.create(f"rows_{meters}_{silent_s or 0}")
            ledger = Ledger(LedgerSettings(url=url, keep_readings_s=0), patience_s=60.0)
            ledger.ready()
            began_s = time.process_time()
            for at_s in range(0, QUARTER_S, EVERY_S):
                ledger.write_readings(_large_sweep(at_s, meters, silent_s))
                if not ledger.settle(300):
                    raise RuntimeError(f"the ledger does not keep up: {ledger.problem()}")
            if ledger.close(300):
                raise RuntimeError("rows are lost")
            cpu = 100 * SLICES * (time.process_time() - began_s) / QUARTER_S
            with open_ledger(url) as connection:
                counts = [connection.execute(select(func.count()).select_from(each)).scalar_one() for each in MEANS]
            if counts[1] != meters * SLICE_NODES:
                raise RuntimeError("quarter-hours are missing")
            data = f"{SLICES * SLICE_NODES:,} nodes, {name} a node, PostgreSQL, no single readings"
            data += "" if silent_s is None else ", the outer one silent in one of 15 minutes"
            rows_m = SLICES * sum(counts) * DAY_S / QUARTER_S / 1e6
            yield Measured("ledger: millions of rows a day", rows_m, "M", 20.0, False, data)
            yield Measured("the same: share of a core, without the server", cpu, "%", float("inf"), False, data)


def _large_sweep(at_s: int, meters: int, silent_s: int | None) -> list[MeterReading]:
    """Return a reading of each outlet and, as second meter, of each BMC; the outlets are silent in that minute."""
    end_s, is_silent = float(at_s + EVERY_S), silent_s is not None and silent_s <= at_s < silent_s + 60
    power_w = None if is_silent else 300.0
    outlets = [
        MeterReading("pdu", "snmp", f"outlet {node}", float(at_s), end_s, power_w, node=f"n{node}")
        for node in range(SLICE_NODES)
    ]
    bmcs = [
        MeterReading(f"bmc{node}", "dcmi", "total", float(at_s), end_s, 280.0, node=f"n{node}")
        for node in range(SLICE_NODES if meters > 1 else 0)
    ]
    return outlets + bmcs


def _share(what: str, share: float) -> Measured:
    return Measured(f"ledger: {what}: share of a core", 100 * share, "%", 10.0, False, DATA)


def _delayed(folder: Path) -> Measured:
    """Return how much a day of a queue adds in which all jobs are delayed: two hours of it, after the first cycle."""
    quiet, sizes = peer("quiet_queue"), []
    for cycles in (1, 1 + CYCLES):
        file = folder / f"delayed{cycles}.sqlite"
        quiet.write_quiet_cycles(f"sqlite:///{file}", DELAYED, cycles, Mode.SHADOW)
        sizes.append(quiet.size_of(file))
    a_day_mb = (sizes[1] - sizes[0]) / 1e6 * 86_400 / (CYCLES * quiet.CYCLE_S)
    return Measured(
        "ledger: a day of delayed jobs", a_day_mb, "MB", 20.0, False, f"{DELAYED} jobs, mode shadow, SQLite"
    )


def _keep_up(ledger: Ledger, first: int, *, prune: bool = False) -> float:
    """Return the processor time of writing half an hour's sweeps, per second of that half hour."""
    chance = random.Random(first)
    sweeps = [_sweep((first + number) * EVERY_S, chance) for number in range(SWEEPS)]
    ledger.ready()
    began = time.process_time()
    for number, sweep in enumerate(sweeps):
        ledger.write_readings(sweep)
        if not ledger.settle(60):
            raise RuntimeError(f"the ledger does not keep up: {ledger.problem()}")
        if prune and number % 30 == 29:
            ledger.prune((first + number) * EVERY_S)
    return (time.process_time() - began) / (SWEEPS * EVERY_S)


def _sweep(at_s: int, chance: random.Random) -> list[MeterReading]:
    """Return a reading of every node; they do not come at the same instant."""
    return [
        MeterReading(
            "pdu",
            "snmp",
            f"outlet {node}",
            at_s + node / NODES,
            at_s + EVERY_S + node / NODES,
            power_w,
            node=f"n{node}",
        )
        for node in range(NODES)
        for power_w in [chance.uniform(80, 400)]
    ]


def _fill(ledger: Ledger, url: str) -> None:
    """Write a month of jobs and prices, and the quarter-hours that a month of readings leaves."""
    chance = random.Random(1)
    # Jobs are written as they end.
    jobs = sorted((_job(chance) for _ in range(JOBS)), key=lambda job: job.ended_unix_s)
    for first in range(0, JOBS, JOBS // 10):
        ledger.write_jobs(jobs[first : first + JOBS // 10])
        ledger.settle(60)
    ledger.write_prices(
        [Price(at, at + 900, chance.uniform(-5, 200), "EUR", "x", 400.0) for at in range(0, MONTH_S, 900)]
    )
    ledger.settle(60)
    engine = writing_engine(url)
    with engine.begin() as connection:
        numbers = connection.execute(series.select()).scalars().all()
        add_partitions(connection, quarters.name, range(0, MONTH_S, 86_400))
        for at_s in range(86_400, MONTH_S, 900):
            each = {"at_unix_s": at_s, "covered_s": 900.0, "energy_j": 2e5, "min_w": 80.0, "max_w": 400.0}
            connection.execute(insert(quarters), [each | {"series": number, "without_value": 0} for number in numbers])
    engine.dispose()


def _job(chance: random.Random) -> JobUse:
    start_s, energy_j = chance.uniform(0, MONTH_S - 7200), chance.uniform(1e5, 1e8)
    user = chance.randrange(400)
    of = (f"u{user}", f"a{user // 10}", "batch", f"n[{chance.randrange(1, 900)}-999]")
    return JobUse(
        str(chance.random()), start_s, start_s + 3600, *of, energy_j, energy_j / 3.6e9 * 80, "EUR", energy_j / 9e3
    )


def _ask_jobs(url: str) -> float:
    began = time.perf_counter()
    with open_ledger(url) as connection:
        found = job_costs(connection, TimeRange(0, MONTH_S), ["account"], UTC)
    if sum(used.jobs for used in found) != JOBS:
        raise RuntimeError("jobs are missing")
    return time.perf_counter() - began


def _ask_nodes(url: str) -> float:
    began = time.perf_counter()
    with open_ledger(url) as connection:
        found = node_energy(connection, TimeRange(0, MONTH_S), ["day", "node"], UTC)
    if len(found) < 29 * NODES:
        raise RuntimeError("nodes are missing")
    return time.perf_counter() - began
