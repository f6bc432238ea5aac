"""The demo's site as its files say it: a virtual room's inventory, prices, and the agent's settings.

Which jobs come when, and what electricity costs, is the same each time.
"""

import math
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import tomlkit

from offpeak.display import utc_minute_text
from offpeak.errors import BadInput
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.registry import SIMULATED
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.room_plan import INVENTORY, RoomPlan, write_inventory

BEGIN_S = int(datetime(2026, 11, 10, 5, tzinfo=UTC).timestamp())
"""A Tuesday, 06:00 in Berlin."""
GIB = 1024
CPUS = 16
GPUS = 4
THIN = NodeType(CPUS, 64 * GIB)
FAT = NodeType(CPUS, 256 * GIB)
GPU = NodeType(CPUS, 256 * GIB, (("a100", GPUS),))
BATCH, GPU_PARTITION = "batch", "gpu"
PARTITIONS = {name: Partition(name, shared=name == GPU_PARTITION) for name in (BATCH, GPU_PARTITION)}
"""Jobs of batch have their nodes alone, those of gpu share them."""
LOAD = 0.22
"""Of the machine, by the jobs that are drawn."""
SHORTEST_S, LONGEST_S = 600, 3 * HOUR_S
SIZES = (1, 1, 1, 2, 2, 4, 6)
MEMORY_GIB, LARGE_MEMORY_GIB = (8, 16, 60), 200
LARGE_MEMORY_SHARE = 0.2
ARRAY_TASKS, ARRAY_LIMIT, ARRAY_TASK_S = 6, 3, HOUR_S // 2
ARRAY_AT_SHARE = 0.15
"""Of the day, at which the array is submitted."""
PATIENT_AT_SHARE, PATIENT = 0.43, "offpeak:delay=8h"
"""When two jobs come that may wait, while all nodes are busy, and what their owners say."""
RUSH_AT_SHARE, RUSH_S = 0.39, HOUR_S
RUSH = (
    *(("render", 3), ("solve", 4), ("archive", 3), ("render", 4), ("archive", 4), ("solve", 3), ("render", 4)),
    *(("render", 3), ("archive", 3)),
)
"""Jobs that come together before electricity gets cheap, each with a part of the batch nodes: so many wait."""
USERS = ("ann", "bob", "chidi", "dora")
HOURLY_PRICES = (46, 44, 43, 45, 58, 88, 121, 134, 112, 84, 62, 48, 39, 37, 52, 84, 128, 152, 141, 109, 86, 70, 58, 50)
"""EUR/MWh by hour of UTC: two expensive times of the day, and a cheap noon."""
HOURLY_CARBON = (
    *(372, 365, 361, 366, 384, 421, 455, 448, 402, 344, 291, 262, 247, 251, 283, 356, 431, 478, 471, 452, 425, 407),
    *(392, 380),
)
"""g/kWh by hour of UTC, as of a grid with much sun."""


@dataclass(frozen=True)
class DemoJobKind:
    """Jobs of one name in a partition: how much of a node they use, 0..1, if they have all of it."""

    name: str
    utilisation: float
    partition: str = BATCH


KINDS = (
    *(DemoJobKind("render", 1.0), DemoJobKind("solve", 0.6), DemoJobKind("archive", 0.2)),
    DemoJobKind("train", 0.9, GPU_PARTITION),
)
BATCH_KINDS, ARRAY_KIND, GPU_KIND = KINDS[:3], KINDS[1], KINDS[3]


@dataclass(frozen=True)
class DemoJob:
    """A job: when it comes [s after the begin], on how many nodes, for how long, and the limit that its user gave.

    `memory_mib` and `gpus` are requested per node. The tasks of an array have one number and an `index` each; at most
    `task_limit` of them run at once.
    """

    number: int
    at_s: int
    nodes: int
    run_s: int
    limit_s: int
    user: str
    kind: DemoJobKind
    memory_mib: int = 0
    gpus: int = 0
    comment: str = ""
    index: int | None = None
    task_limit: int = 0

    @property
    def chunk(self) -> Chunk:
        """The parts of its request, one for each node."""
        cores = CPUS * self.gpus // GPUS if self.gpus else CPUS
        return Chunk(self.nodes, cores, self.memory_mib, self.gpus)

    @property
    def node_share(self) -> float:
        """The share of each of its nodes that it has."""
        return 1.0 if self.kind.partition == BATCH else GPU.share(self.chunk)


def demo_cluster(nodes: int) -> Cluster:
    """Return the cluster: a quarter of the nodes have GPUs, a quarter more memory than the others."""
    names = [f"n{number:02}" for number in range(1, nodes + 1)]
    quarter = max(1, nodes // 4)
    thin, fat, gpu = names[: -2 * quarter], names[-2 * quarter : -quarter], names[-quarter:]
    members = ((THIN, BATCH, thin), (FAT, BATCH, fat), (GPU, GPU_PARTITION, gpu))
    pools = tuple(Pool(kind, frozenset({name}), len(those), frozenset(those)) for kind, name, those in members)
    return Cluster(pools, PARTITIONS)


def jobs_to_come(nodes: int, length_s: int, *, seed: int = 3) -> tuple[DemoJob, ...]:
    """Return the jobs of this time in the order of their submission: many in the morning, fewer later."""
    chance = random.Random(seed)
    thin, fat, gpu = (pool.nodes for pool in demo_cluster(nodes).pools)
    drawn = [*_batch_jobs(chance, thin, fat, length_s), *_gpu_jobs(chance, gpu, length_s)]
    drawn += _story_jobs(thin + fat, length_s)
    drawn.sort(key=lambda job: job.at_s)
    jobs = [replace(job, number=number) for number, job in enumerate(drawn, 1)]
    array_at_s = round(ARRAY_AT_SHARE * length_s)
    first = DemoJob(
        number=len(jobs) + 1,
        at_s=array_at_s,
        nodes=1,
        run_s=ARRAY_TASK_S,
        limit_s=2 * ARRAY_TASK_S,
        user=chance.choice(USERS),
        kind=ARRAY_KIND,
        memory_mib=MEMORY_GIB[1] * GIB,
        task_limit=ARRAY_LIMIT,
    )
    tasks = [replace(first, index=index) for index in range(1, ARRAY_TASKS + 1)]
    return tuple(sorted([*jobs, *tasks], key=lambda job: job.at_s))


def _batch_jobs(chance: random.Random, thin: int, fat: int, length_s: int) -> Iterator[DemoJob]:
    """Give jobs of whole nodes until the load is reached; jobs with much memory have as many nodes at most."""
    work_s = float(ARRAY_TASKS * ARRAY_TASK_S)
    while work_s < LOAD * (thin + fat) * length_s:
        size = max(1, min((thin + fat) // 2, chance.choice(SIZES)))
        memory_gib = chance.choice(MEMORY_GIB)
        if size <= fat and chance.random() < LARGE_MEMORY_SHARE:
            memory_gib = LARGE_MEMORY_GIB
        job = _drawn_job(chance, length_s, chance.choice(BATCH_KINDS), size)
        yield replace(job, memory_mib=memory_gib * GIB)
        work_s += size * job.run_s


def _story_jobs(nodes: int, length_s: int) -> Iterator[DemoJob]:
    """Give the jobs that show what offpeak does: two that may wait, and a rush before electricity gets cheap."""
    kinds = {kind.name: kind for kind in KINDS}
    rush = partial(DemoJob, 0, run_s=RUSH_S, limit_s=2 * RUSH_S)
    for user in USERS[2:]:
        at_s = round(PATIENT_AT_SHARE * length_s)
        yield rush(at_s, max(1, nodes // 4), user=user, kind=kinds["render"], comment=PATIENT)
    for number, (kind, part) in enumerate(RUSH):
        at_s = round(RUSH_AT_SHARE * length_s) + 60 * number
        yield rush(at_s, max(1, nodes // part), user=USERS[number % len(USERS)], kind=kinds[kind])


def _gpu_jobs(chance: random.Random, nodes: int, length_s: int) -> Iterator[DemoJob]:
    """Give jobs with one, two or four GPUs of a node until the load is reached."""
    work_s = 0.0
    while work_s < LOAD * nodes * length_s:
        gpus = chance.choice((1, 2, GPUS))
        job = replace(_drawn_job(chance, length_s, GPU_KIND, 1), gpus=gpus, memory_mib=gpus * 48 * GIB)
        yield job
        work_s += job.node_share * job.run_s


def _drawn_job(chance: random.Random, length_s: int, kind: DemoJobKind, size: int) -> DemoJob:
    run_s = round(min(LONGEST_S, max(SHORTEST_S, chance.lognormvariate(math.log(HOUR_S), 0.8))))
    at_s = round(length_s * chance.betavariate(1.0, 1.6))
    return DemoJob(0, at_s, size, run_s, limit_s=2 * run_s, user=chance.choice(USERS), kind=kind)


def price_at(unix_s: float) -> float:
    """Return the price [EUR/MWh]."""
    return float(HOURLY_PRICES[int(unix_s // HOUR_S) % 24])


def write_days(file: Path, column: str, by_hour: Sequence[float]) -> None:
    """Write the same values for each of the days around the demo."""
    times_s = [BEGIN_S + hour * HOUR_S for hour in range(-2 * 24, 4 * 24)]
    rows = [f"{utc_minute_text(at_s)},{by_hour[at_s // HOUR_S % 24]}" for at_s in times_s]
    file.write_text("\n".join([f"utc,{column}", *rows, ""]))


CLASS = "server"
SETTINGS, REPORT = "offpeak.toml", "report.html"
PRICES, CARBON = "prices_eur_per_mwh.csv", "carbon_g_per_kwh.csv"
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
    def cluster(self) -> Cluster:
        """The cluster."""
        return demo_cluster(self.nodes)

    @property
    def node_class(self) -> NodeClass:
        """The class of its nodes."""
        return node_class_named(CLASS)

    @property
    def node_w(self) -> dict[str, float]:
        """Power of a node that is full of jobs of one kind, by the name of the kind."""
        return {kind.name: self.node_class.running_w(kind.utilisation) for kind in KINDS}

    @property
    def room(self) -> RoomPlan:
        """The machine room."""
        names = [name for pool in self.cluster.pools for name in sorted(pool.names)]
        port = self.hardware_port
        return RoomPlan(tuple(names), self.node_class, clock_factor=self.factor, bmc_port=port, pdu_port=port)


def write_site(plan: DemoPlan) -> Settings:
    """Write all but the accounting into the folder, which an earlier demo may have left, and return the settings."""
    # Delete the files of an earlier demo, and nothing else.
    mark = make_folder(plan)
    for each in plan.folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each != mark:
            each.unlink()
    inventory = write_inventory(plan.folder, plan.room, node_class=CLASS, made_by="offpeak demo")
    inventory.write_text(inventory.read_text().replace('wake = ["bmc"]', LONG_PATIENCE))
    write_days(plan.folder / PRICES, "price", HOURLY_PRICES)
    write_days(plan.folder / CARBON, "carbon", HOURLY_CARBON)
    plan.settings_file.write_text(tomlkit.dumps(_settings(plan)))
    return Settings.of(read_values(plan.settings_file, options={}))


def make_folder(plan: DemoPlan) -> Path:
    """Make the folder, and return its mark, which says that it is a demo's. Raises BadInput if it holds other files."""
    mark = plan.folder / MARK
    try:
        if plan.folder.exists() and any(plan.folder.iterdir()) and not mark.exists():
            raise BadInput(f"{plan.folder}: holds something else", hint="name another folder with --folder")
        plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()
    except OSError as problem:
        raise BadInput(f"{plan.folder}: {problem.strerror}", hint="name another folder with --folder") from None
    return mark


def enrol(plan: DemoPlan, room: MachineRoom) -> None:
    """Write the identity of each BMC, because orders to a BMC with another identity are refused."""
    known = {name: Enrolment(str(bmc.guid), (), "2026-11-10") for name, bmc in room.bmcs.items()}
    write_enrolments(plan.folder / INVENTORY, known)


def _settings(plan: DemoPlan) -> Mapping[str, Mapping[str, object]]:
    folder = plan.folder.resolve()
    many = 10 * plan.nodes
    return {
        "prices": {"file": str(folder / PRICES)},
        "carbon": {"source": str(folder / CARBON)},
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
