"""A queue of delayed jobs in which nothing happens but that prices move, and what the queue loop writes of it."""

import asyncio
from pathlib import Path

from queue_site import NOW_S, RULES, a_job, plain_cluster, prices
from recording_scheduler import RecordingScheduler

from offpeak.door.effect import Mode
from offpeak.ledger.ledger import Ledger
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.scheduler.port import Ranking
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.prices.peak import Peak
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.queue_loop import QueueController
from offpeak.services.agent.site_context import PartitionModes
from offpeak.settings.ledger import LedgerSettings

CYCLE_S = 30
HOURLY = prices(*(40.0 + 25 * ((hour + 4) % 24 > 8) + 3 * (hour * 7 % 11) for hour in range(72)))


def write_quiet_cycles(url: str, jobs: int, cycles: int, mode: Mode) -> None:
    """Run so many cycles over jobs that may wait for 20 hours. In shadow and advise each decides anew."""
    ledger, scheduler = Ledger(LedgerSettings(url=url)), RecordingScheduler()
    door = make_scheduler_door(ledger, lambda _: mode, lambda: 1000.0, nodes=(), hold_of=lambda _: None)
    controller, orders = QueueController(ledger, ProblemLog()), SchedulerOrders(door, scheduler)
    queue = tuple(a_job(at, comment="offpeak:delay=20h", limit_s=3600 + 60 * (at % 97)) for at in range(1, jobs + 1))

    async def rounds() -> None:
        for cycle in range(cycles):
            facts = QueueFacts(
                NOW_S + CYCLE_S * cycle,
                queue,
                Ranking.VALUE,
                prices=HOURLY,
                peak=Peak.ON_PEAK,
                node_power_w={job.job_id: 300.0 for job in queue},
                cluster=plain_cluster(queue),
                marks=await controller.marks(),
                notices=controller.comments,
            )
            await controller.run_cycle(facts, RULES, orders, PartitionModes(mode, {}))

    asyncio.run(rounds())
    ledger.close()


def size_of(file: Path) -> int:
    """Return how large the ledger is, with its log of writes [bytes]."""
    return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*"))
