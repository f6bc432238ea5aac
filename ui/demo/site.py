"""The demo's site as its files say it: a virtual room's inventory, the job log, prices, and the agent's settings.

Which jobs come when, and what electricity costs, is the same each time.
"""

import math
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import tomlkit

from offpeak.errors import BadInput
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.model.arrays import Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from plugin.scheduler.registry import SIMULATED
from sim_backend.traces.swf.write import write_swf
from sim_backend.virtual.machine_room import MachineRoom
from sim_backend.virtual.room_plan import INVENTORY, RoomPlan, write_inventory

BEGIN_S = int(datetime(2026, 11, 10, 5, tzinfo=UTC).timestamp())
"""A Tuesday, 06:00 in Berlin."""
ZONE = "Europe/Berlin"
CPUS = 16
LOAD = 0.4
SHORTEST_S, LONGEST_S = 600, 3 * HOUR_S
SIZES = (1, 1, 1, 2, 2, 4, 6)
USERS = ("ann", "bob", "chidi", "dora")
HOURLY_PRICES = (46, 44, 43, 45, 58, 88, 121, 134, 112, 84, 62, 48, 39, 37, 52, 84, 128, 152, 141, 109, 86, 70, 58, 50)
"""EUR/MWh by hour of UTC: two expensive times of the day, and a cheap noon."""


@dataclass(frozen=True)
class DemoJobKind:
    """Jobs of one name: how much of a node they use, 0..1."""

    name: str
    utilisation: float


KINDS = (DemoJobKind("render", 1.0), DemoJobKind("solve", 0.6), DemoJobKind("archive", 0.2))


@dataclass(frozen=True)
class DemoJob:
    """A job: when it comes [s after the begin], on how many nodes, for how long, and the limit that its user gave."""

    number: int
    at_s: int
    nodes: int
    run_s: int
    limit_s: int
    user: str
    kind: DemoJobKind


def jobs_to_come(nodes: int, length_s: int, *, seed: int = 3) -> tuple[DemoJob, ...]:
    """Return the jobs of this time in the order of their submission: many in the morning, fewer later."""
    chance, work_s = random.Random(seed), 0.0
    drawn: list[tuple[int, int, int]] = []
    while work_s < LOAD * nodes * length_s:
        size = min(nodes // 2, chance.choice(SIZES))
        run_s = round(min(LONGEST_S, max(SHORTEST_S, chance.lognormvariate(math.log(HOUR_S), 0.8))))
        drawn.append((round(length_s * chance.betavariate(1.0, 1.6)), size, run_s))
        work_s += size * run_s
    return tuple(
        DemoJob(
            number=number,
            at_s=at_s,
            nodes=size,
            run_s=run_s,
            limit_s=2 * run_s,
            user=chance.choice(USERS),
            kind=chance.choice(KINDS),
        )
        for number, (at_s, size, run_s) in enumerate(sorted(drawn), 1)
    )


def write_log(jobs: Sequence[DemoJob], node_w: Mapping[str, float], file: Path, nodes: int) -> None:
    """Write the jobs in the Standard Workload Format; `node_w` is what a node draws by the name of the kind."""
    write_swf(_columns(jobs, node_w), file, processors=nodes, unix_start_s=BEGIN_S, zone=ZONE)


def _columns(jobs: Sequence[DemoJob], node_w: Mapping[str, float]) -> Jobs:
    def column(value: Callable[[DemoJob], int]) -> Int64:
        return np.array([value(job) for job in jobs], np.int64)

    kinds = [kind.name for kind in KINDS]
    return Jobs(
        job_id=column(lambda job: job.number),
        submit_s=column(lambda job: job.at_s),
        runtime_s=column(lambda job: job.run_s),
        estimate_s=column(lambda job: job.limit_s),
        size=column(lambda job: job.nodes),
        user=column(lambda job: USERS.index(job.user)),
        group=column(lambda _: 0),
        queue=column(lambda _: 0),
        application=column(lambda job: kinds.index(job.kind.name)),
        logged_start_s=column(lambda _: -1),
        node_power_w=np.array([node_w[job.kind.name] for job in jobs]),
    )


def price_at(unix_s: float) -> float:
    """Return the price [EUR/MWh]."""
    return float(HOURLY_PRICES[int(unix_s // HOUR_S) % 24])


def write_hourly_prices(file: Path) -> None:
    """Write the prices of the days around the demo."""
    file.write_text("\n".join(["utc,price", *_rows(), ""]))


def _rows() -> Iterator[str]:
    for hour in range(-2 * 24, 4 * 24):
        at_s = BEGIN_S + hour * HOUR_S
        yield f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%MZ},{price_at(at_s):g}"


CLASS = "server"
SETTINGS, LOG, PRICES, REPORT = "offpeak.toml", "demo.swf", "prices_eur_per_mwh.csv", "report.html"
MARK = "made-by-offpeak-demo"
LONG_PATIENCE = 'wake = ["bmc"]\nenter_patience = "3h"\nwake_patience = "3h"'
"""Time runs so fast that one question to a BMC takes minutes of it."""


@dataclass(frozen=True)
class DemoPlan:
    """The nodes and the real duration of the demo, with `factor` simulated seconds per real second; the page is at
    `listen`.

    Its BMCs and PDUs have addresses of their own, on loopback, and the same port.
    """

    folder: Path
    nodes: int = 16
    seconds: float = 60.0
    factor: float = 600.0
    listen: str = "127.0.0.1:8017"
    hardware_port: int = 6230

    @property
    def length_s(self) -> int:
        """How long it lasts there."""
        return int(self.seconds * self.factor)

    @property
    def hours(self) -> float:
        """The same in hours."""
        return self.length_s / HOUR_S

    @property
    def settings_file(self) -> Path:
        """Where the settings of agent and page are."""
        return self.folder / SETTINGS

    @property
    def node_class(self) -> NodeClass:
        """The class of its nodes."""
        return node_class_named(CLASS)

    @property
    def node_w(self) -> dict[str, float]:
        """Power of a job on a node, by the name of its kind."""
        return {kind.name: self.node_class.running_w(kind.utilisation) for kind in KINDS}

    @property
    def room(self) -> RoomPlan:
        """The machine room."""
        names = tuple(f"n{number:02}" for number in range(1, self.nodes + 1))
        port = self.hardware_port
        return RoomPlan(names, self.node_class, clock_factor=self.factor, bmc_port=port, pdu_port=port)


def write_site(plan: DemoPlan, jobs: tuple[DemoJob, ...]) -> Settings:
    """Write everything into the folder, which an earlier demo may have left, and return the settings."""
    _empty(plan)
    inventory = write_inventory(plan.folder, plan.room, node_class=CLASS, made_by="offpeak demo")
    inventory.write_text(inventory.read_text().replace('wake = ["bmc"]', LONG_PATIENCE))
    write_hourly_prices(plan.folder / PRICES)
    write_log(jobs, plan.node_w, plan.folder / LOG, plan.nodes)
    plan.settings_file.write_text(tomlkit.dumps(_settings(plan)))
    return Settings.of(read_values(plan.settings_file, options={}))


def _empty(plan: DemoPlan) -> None:
    """Delete the files of an earlier demo, and nothing else."""
    if plan.folder.exists() and any(plan.folder.iterdir()):
        if not (plan.folder / MARK).exists():
            raise BadInput(f"{plan.folder}: holds something else", hint="name another folder with --folder")
        shutil.rmtree(plan.folder)
    plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (plan.folder / MARK).write_text("`offpeak demo` empties this folder when it is run again.\n")


def enrol(plan: DemoPlan, room: MachineRoom) -> None:
    """Write the identity of each BMC, because orders to a BMC with another identity are refused."""
    known = {name: Enrolment(str(bmc.guid), (), "2026-11-10") for name, bmc in room.bmcs.items()}
    write_enrolments(plan.folder / INVENTORY, known)


def _settings(plan: DemoPlan) -> Mapping[str, Mapping[str, object]]:
    folder = plan.folder.resolve()
    many = 10 * plan.nodes
    return {
        "prices": {"file": str(folder / PRICES)},
        "power": {"classes": [f"{name}={watts:g}W" for name, watts in plan.node_w.items()]},
        "hardware": {"inventory": str(folder / INVENTORY)},
        "ledger": {"url": f"sqlite:///{folder}/ledger.sqlite"},
        "page": {"listen": plan.listen},
        "agent": {
            "mode": "active",
            "scheduler": SIMULATED,
            "nodes": ",".join(plan.room.nodes),
            "socket": str(folder / "run" / "agent.sock"),
            "state_folder": str(folder),
            "capacity": "timeout:20min",
            "cycle": f"{max(1, round(plan.factor / 2))}s",
            # With the limits for real nodes, this day would end before any node sleeps.
            "fresh": "1h",
            "nodes_per_sweep": many,
            "nodes_per_hour": many,
            "wakes_per_min": many,
            "rack_nodes_per_min": many,
            "cycles_per_day": 24,
            "hands_off": "0s",
        },
    }
