"""The agent's accounts: a look at 2,000 running jobs, some that have ended, a round of 1,000 meters, 10,000 draws."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.bars import Measured
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading, Price
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.booking import AccountRound, Accounts, account_round
from offpeak.services.accounts.job_draws import find_node_kinds
from offpeak.services.accounts.job_forecasts import JobPowers, RunTimes
from offpeak.services.accounts.metering import Metering, Pace, after_round
from offpeak.settings.ledger import LedgerSettings

NODES, RUNNING, ENDED, PENDING = 1000, 2000, 100, 10_000
CYCLE_S, METERS_S, HOURS = 30, 10, 3
ROUNDS = 10
NODE = Node(
    name="n0",
    native_state="mixed",
    use=NodeUse.USED,
    power=PowerState.ON,
    closed=False,
    failed=False,
    responds=True,
    reserved=False,
    planned=False,
    reason="",
    reason_by="",
    reason_s=None,
    partitions=("batch",),
    features=(),
    cpus=64,
    cpus_used=16,
    memory_mib=1,
    boot_s=None,
    idle_since_s=None,
)
JOBS = f"{PENDING:,} jobs"
DATA = f"{NODES:,} nodes, {RUNNING:,} running jobs, SQLite"


def accounts_benchmarks() -> Iterator[Measured]:
    """Measure on a ledger in a file of its own, with the readings of some hours."""
    with tempfile.TemporaryDirectory() as name:
        ledger = _ledger(Path(name))
        accounts = Accounts(ledger, JobPowers(), RunTimes(), settle_s=0)
        quiet_s, ended_s = asyncio.run(_looks(accounts))
        yield Measured("accounts: a look at which nothing has ended", 1000 * quiet_s, "ms", 50.0, False, DATA)
        yield Measured(f"accounts: {ENDED} jobs that have ended", 1000 * ended_s, "ms", float("inf"), False, DATA)
        ledger.close()
    each_s = (("a round of meters into rows", _meters(), f"{NODES:,} nodes"), ("draws of pending jobs", _draws(), JOBS))
    for what, seconds, data in each_s:
        yield Measured(f"accounts: {what}", 1000 * seconds, "ms", float("inf"), False, data)


def _ledger(folder: Path) -> Ledger:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"))
    ledger.ready()
    for at_s in range(0, HOURS * 3600, METERS_S):
        until_s = at_s + METERS_S
        ledger.write_readings(
            [MeterReading(f"n{node}", "dcmi", "total", at_s, until_s, 300.0, node=f"n{node}") for node in range(NODES)]
        )
        ledger.settle(60)
    ledger.write_prices([Price(at, at + 900, 80.0, "EUR", "x", 400.0) for at in range(0, HOURS * 3600, 900)])
    ledger.settle(60)
    return ledger


async def _looks(accounts: Accounts) -> tuple[float, float]:
    """Return the processor time of a look without news, and of one at which jobs have ended."""
    done: AccountRound | None = None
    quiet, ended = list[float](), list[float]()
    for number in range(ROUNDS):
        at_s = HOURS * 3600 + 2 * number * CYCLE_S
        running = [_job(index, JobState.RUNNING) for index in range(number * ENDED, number * ENDED + RUNNING)]
        over = [_job(index, JobState.ENDED, at_s) for index in range((number - 1) * ENDED, number * ENDED) if number]
        for times, jobs in ((ended, [*running, *over]), (quiet, [*running, *over])):
            view = SchedulerView(at_s, tuple(jobs), _nodes(), ())
            began = time.process_time()
            done = await account_round(accounts, done, view, {})
            times.append(time.process_time() - began)
            at_s += CYCLE_S
    return median(quiet), median(ended[1:])


def _job(number: int, state: JobState, end_s: int | None = None) -> Job:
    start_s = HOURS * 3600 - 3600 - 7 * (number % 900)
    hosts = f"n[{number % (NODES - 4)}-{number % (NODES - 4) + 3}]"
    of = (f"u{number % 300}", f"a{number % 40}", f"sim_{number}", "", ("batch",))
    submit_s = start_s - 60
    return Job(
        str(number), state, str(state), "", *of, None, "", "normal", 1, 0, 4, 32, False, 86_400, submit_s, None,
        start_s, end_s, hosts, True,
    )  # fmt: skip


def _nodes() -> tuple[Node, ...]:
    return tuple(NODE._replace(name=f"n{number}") for number in range(NODES))


def _meters() -> float:
    """Return the processor time for the readings of a round."""
    state = Metering()
    pace = Pace(10, 5)

    def round_(number: int) -> None:
        nonlocal state
        at_s = 10.0 * number
        taken = [
            MeterResult(f"n{node}", "dcmi", (Reading(f"n{node}", "dcmi", "total", 200.0, at_s, node=f"n{node}"),))
            for node in range(NODES)
        ]
        state = after_round(state, taken, pace=pace, now=Instant(at_s, at_s)).after

    return _median_s(round_)


def _draws() -> float:
    """Return the processor time of asking what pending jobs will draw."""
    server = bundled_node_class("server")
    kinds, powers = find_node_kinds(_nodes(), lambda _: server), JobPowers()
    jobs = [_job(number, JobState.PENDING) for number in range(PENDING)]
    return _median_s(lambda number: powers.of(jobs, kinds, at_s=number))


def _median_s(work: Callable[[int], object]) -> float:
    times = []
    for number in range(ROUNDS):
        began = time.process_time()
        work(number)
        times.append(time.process_time() - began)
    return median(times[1:])
