"""Does a week of shadow promise what active mode then saves? The same days are played twice with the real agent.

The scheduler is the simulated one and the nodes are virtual; both are stepped by one clock, so that a day takes less
than a minute. The nodes count their own energy: the difference of both runs is the truth that the promise of shadow
mode, and the account of active mode, are compared with.

python -m benchmarks.shadow [DAYS]
"""

import asyncio
import random
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.power_cycle import INVENTORY
from offpeak.door.door import Confirm
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.records import savings_in
from offpeak.ledger.rows import SavingRecord
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.model.clock import Clock
from offpeak.model.cluster import Cluster, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class_file import node_class_named
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import JobState
from offpeak.power.drivers.port import PowerDriver, PowerObservation, confirm_at_once
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.lifecycle.sweep import NodePoller
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.site_context import SiteContext, make_site_context
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.node import LiveNode, VirtualNode
from offpeak.sim_backend.virtual.room_plan import RoomPlan
from offpeak.ui.demo.live_cluster import LiveCluster
from offpeak.ui.demo.site import BATCH, BATCH_KINDS, BEGIN_S, THIN, DemoJob, price_at

DAYS, NODES, STEP_S = 14, 16, 60
LOAD, LONGEST_S = 0.45, 4 * HOUR_S
SIZES = (1, 1, 1, 2, 2, 4, 6)
CLASS = node_class_named("server")
ENDED_STAY_S, WATCH_S = 600, 900
NAMES = tuple(f"n{number:04}" for number in range(NODES))


@dataclass
class SteppedClock:
    """A clock that stands still until it is set."""

    unix_s: float = float(BEGIN_S)

    def now(self) -> float:
        """Return the time [Unix s]."""
        return self.unix_s

    def since_begin_s(self) -> float:
        """Return the seconds since the first step."""
        return self.unix_s - BEGIN_S


@dataclass
class NodeDriver:
    """A driver of a virtual node, without a network between."""

    node: LiveNode
    clock: SteppedClock
    name: str = "ipmi"
    orders: frozenset[NodeOrder] = frozenset(NodeOrder)

    async def query(self) -> PowerObservation:
        """Return whether it has power."""
        return PowerObservation(PowerState.ON if self.node.powered else PowerState.OFF, self.clock.unix_s)

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send an order once the door lets it through."""
        (await confirm())()
        acts = {
            NodeOrder.ON: self.node.on,
            NodeOrder.SOFT_OFF: self.node.soft_off,
            NodeOrder.HARD_OFF: self.node.hard_off,
        }
        acts[order]()

    async def identity(self) -> str | None:
        """Return the name of the node, which is enrolled."""
        return self.node.name

    async def close(self) -> None:
        """Do nothing."""


class VirtualDrivers(DriverPool):
    """The drivers of all nodes in the place of those that need a network."""

    def __init__(self, pool: DriverPool, by_node: Mapping[str, PowerDriver]) -> None:
        self.__dict__.update(vars(pool))
        self._by_node = by_node

    def _driver(self, node: str, way: str) -> PowerDriver:  # noqa: ARG002
        return self._by_node[node]


@dataclass(frozen=True)
class Played:
    """What a run of the days used [EUR and J], by the nodes themselves, and what the agent has booked."""

    mode: str
    cost: float
    energy_j: float
    started: int
    rows: tuple[SavingRecord, ...] = field(default=())

    def booked(self, *, lever: str, is_shadow: bool) -> tuple[float, float, float]:
        """Return the saving of a lever by the rows with cost, and its bounds."""
        rows = [row for row in self.rows if row.lever == lever and row.is_shadow == is_shadow and row.cost is not None]
        saved = [(row.baseline_cost or 0.0) - (row.cost or 0.0) for row in rows]
        low = sum(each if row.low_cost is None else row.low_cost for row, each in zip(rows, saved, strict=True))
        high = sum(each if row.high_cost is None else row.high_cost for row, each in zip(rows, saved, strict=True))
        return sum(saved), low, high


def jobs_to_come(days: int, seed: int = 11) -> list[DemoJob]:
    """Return the jobs, most of them submitted by day."""
    chance, found, work_s = random.Random(seed), [], 0.0
    while work_s < LOAD * NODES * days * DAY_S:
        hour = chance.uniform(7, 16) if chance.random() < 0.6 else chance.uniform(0, 24)
        at_s = chance.randrange(days) * DAY_S + round(hour * HOUR_S)
        run_s = round(min(LONGEST_S, max(600, chance.lognormvariate(8.2, 0.8))))
        kind, size = chance.choice(BATCH_KINDS), chance.choice(SIZES)
        found.append(DemoJob(0, at_s, size, run_s, limit_s=2 * run_s, user="ann", kind=kind))
        work_s += size * run_s
    found.sort(key=lambda job: job.at_s)
    return [replace(job, number=number) for number, job in enumerate(found, 1)]


def _context(folder: Path, mode: str, days: int, clock: SteppedClock) -> tuple[SiteContext, LiveCluster]:
    (folder / "bmc.password").touch(mode=0o600)
    (folder / "bmc.password").write_text("secret\n")
    bmcs = ",".join(f"127.1.0.{number + 1}" for number in range(NODES))
    inventory = folder / "inventory.toml"
    inventory.write_text(INVENTORY.format(nodes=f"n[0000-{NODES - 1:04}]", bmcs=bmcs))
    write_enrolments(inventory, {name: Enrolment(name, (), "2026-11-10") for name in NAMES})
    hours = (BEGIN_S // HOUR_S * HOUR_S + HOUR_S * hour for hour in range(-48, 24 * (days + 4)))
    lines = (f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%MZ},{price_at(at_s):g}" for at_s in hours)
    (folder / "prices_eur_per_mwh.csv").write_text("\n".join(["utc,price", *lines, ""]))
    many = 1000 * NODES
    settings = Settings(
        prices=PriceSettings(file=folder / "prices_eur_per_mwh.csv"),
        power=PowerSettings(
            classes=tuple(f"{kind.name}={CLASS.running_w(kind.utilisation):g}W" for kind in BATCH_KINDS)
        ),
        # The simulated scheduler starts each job that fits.
        scheduling=SchedulingSettings(policies=("first-fit",)),
        hardware=HardwareSettings(inventory=inventory),
        ledger=LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"),
        agent=AgentSettings(
            mode=mode,
            nodes=f"n[0000-{NODES - 1:04}]",
            state_folder=folder,
            capacity="timeout:20min",
            cycle_s=STEP_S,
            nodes_per_sweep=many,
            nodes_per_hour=many,
            wakes_per_min=many,
            rack_nodes_per_min=many,
            cycles_per_day=24,
            hands_off_s=0,
        ),
    )
    cluster = Cluster((Pool(THIN, frozenset({BATCH}), NODES, frozenset(NAMES)),), {BATCH: Partition(BATCH)})
    chance = random.Random(7)
    nodes = {name: LiveNode(name, clock.since_begin_s, chance, VirtualNode(CLASS)) for name in NAMES}
    room = MachineRoom(RoomPlan(NAMES, CLASS), nodes, {}, {})
    live = LiveCluster(room, cluster, deque(jobs_to_come(days)), clock.now)
    drivers: dict[str, PowerDriver] = {name: NodeDriver(node, clock) for name, node in nodes.items()}
    context = make_site_context(settings, Clock(clock.now, clock.since_begin_s))
    return replace(
        context,
        scheduler=live.scheduler,
        drivers=VirtualDrivers(context.drivers, drivers),
        poller=NodePoller(context.machines, drivers),
    ), live


async def _play(folder: Path, mode: str, days: int) -> Played:
    clock = SteppedClock()
    context, live = _context(folder, mode, days, clock)
    ledger = Ledger(context.settings.ledger)
    ledger.ready()
    agent = SiteAgent(context, ledger, ProblemLog(clock.now))
    runners = {runner.name: runner for runner in agent.runners}
    started = 0
    for step in range(days * DAY_S // STEP_S + 1):
        clock.unix_s = float(BEGIN_S + step * STEP_S)
        live.follow()
        if step % (6 * HOUR_S // STEP_S) == 0:
            await runners[agent.prices.name].once()
        await runners[agent.queue_loop.name].once()
        await runners[agent.power_loop.name].once()
        if step % (WATCH_S // STEP_S) == 0:
            await agent.levers.watch(clock.unix_s)
        if step == days * DAY_S // STEP_S or (clock.unix_s - HOUR_S) % DAY_S == 0:
            ledger.settle()
            await runners[agent.levers.name].once()
            await runners[agent.savings.name].once()
        jobs = live.cluster.jobs
        ended = [
            key
            for key, job in jobs.items()
            if job.state is JobState.ENDED and (job.end_s or 0) < clock.unix_s - ENDED_STAY_S
        ]
        started += len(ended)
        for key in ended:
            del jobs[key]
    ledger.settle()
    await agent.close()
    span = TimeRange(0.0, clock.unix_s)
    with open_ledger(context.settings.ledger.url) as connection:
        rows = tuple(
            SavingRecord(**{**row, "is_shadow": bool(row["is_shadow"])}) for row in savings_in(connection, span)
        )
    return Played(mode, live.cost, live.energy_j, started, rows)


def play(mode: str, days: int) -> Played:
    """Play the days in a mode."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_play(Path(folder), mode, days))


def report(shadow: Played, active: Played) -> Sequence[str]:
    """Return the comparison in lines."""
    truth = shadow.cost - active.cost
    promised = [shadow.booked(lever=lever, is_shadow=True) for lever in ("order", "sleep")]
    booked = [active.booked(lever=lever, is_shadow=False) for lever in ("order", "sleep")]
    (middle, low, high), (did, did_low, did_high) = (
        [sum(each) for each in zip(*some, strict=True)] for some in (promised, booked)
    )
    inside = "inside" if low <= truth <= high else "outside"
    return (
        f"without offpeak {shadow.cost:.2f} EUR, with it {active.cost:.2f} EUR by the nodes: saved {truth:.2f} EUR",
        f"shadow promised {middle:.2f} EUR ({low:.2f} to {high:.2f}): "
        f"order {promised[0][0]:.2f}, sleep {promised[1][0]:.2f}",
        f"active booked {did:.2f} EUR ({did_low:.2f} to {did_high:.2f}): "
        f"order {booked[0][0]:.2f}, sleep {booked[1][0]:.2f}",
        f"promise against the nodes {middle / truth - 1:+.1%}, {inside} its interval",
        f"account against the nodes {did / truth - 1:+.1%}",
        f"jobs ended: {shadow.started} and {active.started}",
    )


def main(arguments: Sequence[str]) -> None:
    """Play both runs side by side and print the comparison."""
    days = int(arguments[0]) if arguments else DAYS
    with ProcessPoolExecutor(2) as pool:
        print(*report(*pool.map(play, ("shadow", "active"), (days, days))), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
