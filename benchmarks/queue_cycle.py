"""A whole cycle of the agent's queue loop on a real slurmctld: 10,000 records wait, 500 of them get another priority.

They have 500 different requests, and 200 are arrays.
"""

import asyncio
import gc
import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.bars import Measured
from benchmarks.peers import peer
from offpeak.ledger.ledger import Ledger
from offpeak.plugin.queue_hook.positions import RANK
from offpeak.predictors.site_sources import build_price_source
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.site_context import make_site_context
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import FeedSettings, PowerSettings, PriceSettings
from offpeak.settings.table import Settings

JOBS, PARTITIONS, ROUNDS = 10_000, 25, 6
EXPENSIVE, CHEAP = (f"on=90EUR/MWh,off=30EUR/MWh,hours={hours},zone=UTC" for hours in ("00:01-24:00", "00:00-00:01"))


@dataclass(frozen=True)
class Cycle:
    """What one round took: by the wall, and of our own process's processor time; and how many jobs it changed."""

    wall_s: float
    cpu_s: float
    changed: int


def queue_cycle_benchmarks() -> Iterator[Measured]:
    """Measure rounds in which the price turns, and those in which nothing does; nothing where Slurm is missing."""
    queue = peer("long_queue")
    if all(shutil.which(program) for program in queue.NEEDED):
        with queue.long_queue(JOBS, PARTITIONS) as cluster, queried_by_us(cluster.environment):
            yield from _figures(asyncio.run(cycles(cluster.folder)), JOBS)


def _figures(turned: list[Cycle], jobs: int) -> Iterator[Measured]:
    what = f"a cycle of the queue loop, {median(cycle.changed for cycle in turned):.0f} priorities changed"
    data = f"{jobs:,} pending records with 500 requests, {jobs // 50} of them arrays, slurmctld"
    yield Measured(what, median(cycle.wall_s for cycle in turned), "s", 2.0, False, data)
    yield Measured("the same, our own process", median(cycle.cpu_s for cycle in turned), "s of CPU", 0.4, False, data)


@contextmanager
def queried_by_us(environment: dict[str, str]) -> Iterator[None]:
    """Let Slurm's commands of this process find that cluster."""
    before = dict(os.environ)
    os.environ |= environment
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


async def cycles(folder: Path, rounds: int = ROUNDS) -> list[Cycle]:
    """Return what rounds took before each of which the price had turned, but for the first, which learns the site."""
    expensive = make_site_context(_settings(folder))
    both = expensive, replace(expensive, prices=build_price_source(FeedSettings(), PriceSettings(tariff=CHEAP))[0])
    ledger = Ledger(expensive.settings.ledger)
    ledger.ready()
    agent = SiteAgent(expensive, ledger, ProblemLog())
    taken = []
    # As `offpeak agent` does when it starts.
    gc.freeze()
    for number in range(rounds + 1):
        agent.site = both[number % 2]
        await agent.prices.round()
        ledger.settle()
        # Cycles that follow each other within a second would share one look at the scheduler.
        agent.observer.forget()
        taken.append(await _cycle(agent))
    await agent.close()
    return taken[1:]


async def _cycle(agent: SiteAgent) -> Cycle:
    begin_s, cpu_s = time.perf_counter(), _cpu_s()
    await agent.queue_loop.round()
    wall_s = time.perf_counter() - begin_s
    agent.ledger.settle()
    own_s, facts = _cpu_s() - cpu_s, agent.queue_loop.facts
    marks = await agent.queue.marks()
    changed = sum(mark.kind == RANK and facts is not None and mark.at_unix_s == facts.now_s for mark in marks)
    return Cycle(wall_s, own_s, changed)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _settings(folder: Path) -> Settings:
    state = folder / "agent"
    state.mkdir(exist_ok=True)
    return Settings(
        prices=PriceSettings(tariff=EXPENSIVE),
        power=PowerSettings(classes=("hot*=400W", "cool*=150W")),
        ledger=LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"),
        agent=AgentSettings(mode="active", state_folder=state, socket=folder / "agent.sock"),
    )
