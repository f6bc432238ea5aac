"""The demo's site as its files say it: a virtual room's inventory, the log, prices, and the agent's settings."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from offpeak.errors import BadInput
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from plugin.scheduler.registry import SIMULATED
from sim_backend.virtual.machine_room import MachineRoom
from sim_backend.virtual.room_plan import INVENTORY, RoomPlan, write_inventory
from ui.demo.scenario import KINDS, Coming, write_log, write_prices

CLASS = "server"
SETTINGS, LOG, PRICES, REPORT = "offpeak.toml", "demo.swf", "prices_eur_per_mwh.csv", "report.html"
MARK = "made-by-offpeak-demo"
PATIENT = 'wake = ["bmc"]\nenter_patience = "3h"\nwake_patience = "3h"'
"""Time runs so fast that one question to a BMC takes minutes of it."""


@dataclass(frozen=True)
class DemoPlan:
    """So many nodes for so many real seconds, in each of which `factor` seconds pass there; the page at `listen`.

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
        return self.length_s / 3600

    @property
    def settings_file(self) -> Path:
        """Where the settings of agent and page are."""
        return self.folder / SETTINGS

    @property
    def node_class(self) -> NodeClass:
        """What its nodes are."""
        return node_class_named(CLASS)

    @property
    def node_w(self) -> dict[str, float]:
        """What a job draws on a node, by the name of its kind."""
        return {kind.name: self.node_class.running_w(kind.utilisation) for kind in KINDS}

    @property
    def room(self) -> RoomPlan:
        """The machine room."""
        names = tuple(f"n{number:02}" for number in range(1, self.nodes + 1))
        port = self.hardware_port
        return RoomPlan(names, self.node_class, clock_factor=self.factor, bmc_port=port, pdu_port=port)


def write_site(plan: DemoPlan, jobs: tuple[Coming, ...]) -> Settings:
    """Write everything into the folder, which an earlier demo may have left, and return the settings."""
    _empty(plan)
    inventory = write_inventory(plan.folder, plan.room, node_class=CLASS, made_by="offpeak demo")
    inventory.write_text(inventory.read_text().replace('wake = ["bmc"]', PATIENT))
    write_prices(plan.folder / PRICES)
    write_log(jobs, plan.node_w, plan.folder / LOG, plan.nodes)
    plan.settings_file.write_text(tomlkit.dumps(_settings(plan)))
    return Settings.of(read_values(plan.settings_file, options={}))


def _empty(plan: DemoPlan) -> None:
    """Take away what an earlier demo has left, and nothing else."""
    if plan.folder.exists() and any(plan.folder.iterdir()):
        if not (plan.folder / MARK).exists():
            raise BadInput(f"{plan.folder}: holds something else", hint="name another folder with --folder")
        shutil.rmtree(plan.folder)
    plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (plan.folder / MARK).write_text("`offpeak demo` empties this folder when it is run again.\n")


def enrol(plan: DemoPlan, room: MachineRoom) -> None:
    """Write who answers at each BMC: an order to a node that is not who it was is refused."""
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
            # Limits that are right for a room of real nodes would let this day pass before anything sleeps.
            "fresh": "1h",
            "nodes_per_sweep": many,
            "nodes_per_hour": many,
            "wakes_per_min": many,
            "rack_nodes_per_min": many,
            "cycles_per_day": 24,
            "hands_off": "0s",
        },
    }
