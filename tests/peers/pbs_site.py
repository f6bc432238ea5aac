"""A site of Torque or OpenPBS: virtual nodes with BMCs, a stand-in of the server over them, and an `offpeak agent`."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from local_server import wait_until
from pbs_standin import StandIn, installed
from powered_plan import REPOSITORY
from running_agent import STOP_S, Process, start_offpeak
from served_room import ServedRoom, planned, served_room

from offpeak.machines.inventory import Enrolled
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.inventory_text import write_enrolled
from offpeak.node_class_file import node_class_named
from power.drivers.registry import driver_of
from power.drivers.wire import Wire
from sim_backend.pbs_standin.pbs import OPENPBS
from sim_backend.pbs_standin.room_nodes import SOCKET, pbs_of_room
from sim_backend.virtual.room_folder import room_logins, write_inventory

NODE_CLASS = """\
idle = "200W"
running = [[0.0, "200W"], [1.0, "700W"]]

[off]
power = "15W"
enter = { duration = "1s", power = "200W", failure_probability = 0.0 }
leave = { duration = "2s", power = "300W", failure_probability = 0.0 }
"""
MANY = 100_000


@dataclass(frozen=True)
class PbsSite:
    """A running site; all its files are in `folder`."""

    folder: Path
    kind: str
    room: ServedRoom
    standin: StandIn

    @property
    def log(self) -> Path:
        """What the agents have said."""
        return self.folder / "agent.log"

    def wait(self, condition: Callable[[], bool], *, what: str, seconds: float = 60.0) -> None:
        """Return once the condition holds; RuntimeError with what the agent has said when it does not."""
        wait_until(condition, what=what, log=self.log, seconds=seconds)

    def submit(self, *, nodes: int, seconds: float, name: str = "job", variables: str = "A=1") -> str:
        """Return the number of a job that takes whole nodes for so long."""
        what = f"nodes={nodes}:ppn=8" if self.kind != OPENPBS else f"select={nodes}:ncpus=8"
        words = ["qsub", "-N", name, "-l", what, "-l", "walltime=01:00:00", "-v", variables]
        words += ["-l", "place=scatter"] if self.kind == OPENPBS else []
        return self.standin.run(*words, user="alice", stdin=f"sleep {seconds}\n")

    def started(self) -> list[str]:
        """Return the jobs in the order in which they have started."""
        return self.standin.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.started])

    def lost(self) -> list[str]:
        """Return the jobs that a node has taken with it."""
        return self.standin.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.jobs.values() if job.lost])

    def powered(self) -> list[str]:
        """Return the nodes that have power."""
        return self.room.do(lambda room: [name for name, node in room.nodes.items() if node.powered])

    def asleep(self) -> list[str]:
        """Return the nodes of which the server was told that they sleep by our order."""
        marks = self.standin.do(lambda pbs: {node.name: node.note + node.mark for node in pbs.cluster.nodes.values()})
        return [name for name, mark in marks.items() if "asleep" in mark]

    def close_by_hand(self, node: str) -> None:
        """Take a node from jobs as an admin does."""
        by_qmgr = ("qmgr", "-c", f'set node {node} comment = "broken fan", state += offline')
        self.standin.run(*(by_qmgr if self.kind == OPENPBS else ("pbsnodes", "-o", "-N", "broken fan", node)))

    def open_by_hand(self, node: str) -> None:
        """Undo that; RuntimeError if somebody has changed the node meanwhile."""
        known = self.standin.do(lambda pbs: pbs.cluster.nodes[node])
        if (known.note, known.shut) != ("broken fan", {"offline"}):
            raise RuntimeError(f"{node}: {known}")
        by_qmgr = ("qmgr", "-c", f"set node {node} state = free")
        self.standin.run(*(by_qmgr if self.kind == OPENPBS else ("pbsnodes", "-c", "-N", "", node)))

    @contextmanager
    def without_server(self) -> Iterator[None]:
        """Let nobody reach the server until the block ends."""
        socket, aside = self.folder / SOCKET, self.folder / "aside"
        socket.rename(aside)
        try:
            yield
        finally:
            aside.rename(socket)

    def write_settings(self, changes: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write the settings of an agent that is quick and may do everything, and return the file."""
        (self.folder / "agent").mkdir(exist_ok=True)
        agent = {
            "scheduler": self.kind,
            "mode": "active",
            "nodes": ",".join(self.room.plan.nodes),
            "cycle": "1s",
            "capacity": "timeout:2s",
            "socket": str(self.folder / "agent.sock"),
            "state_folder": str(self.folder / "agent"),
            "fresh": "20s",
            "nodes_per_sweep": MANY,
            "nodes_per_hour": MANY,
            "rack_nodes_per_min": MANY,
            "cycles_per_day": MANY,
            "min_on": 0,
            "breaker_pause": "2s",
            "hands_off": "2s",
        }
        settings: dict[str, Mapping[str, Any]] = {
            "agent": agent,
            "pbs": {"timeout": "20s", "torque_order": "priority", "boot": "1min"},
            "hardware": {"inventory": str(self.folder / "inventory.toml"), "timeout": "3s"},
            "ledger": {"url": f"sqlite:///{self.folder / 'ledger.sqlite'}"},
            "power": {"idle": "200W", "node_class": str(self.folder / "node_class.toml")},
        }
        for table, keys in changes.items():
            settings[table] = {**settings.get(table, {}), **keys}
        file = self.folder / "offpeak.toml"
        file.write_text(tomlkit.dumps(settings))
        return file

    @contextmanager
    def agent(self, settings: Path) -> Iterator[Process]:
        """Run an agent until the block ends, politely unless it was killed by then."""
        environment = {"PATH": self.standin.path, "PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)}
        process = start_offpeak(("agent", "--config", str(settings)), self.log, environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)


@contextmanager
def pbs_site(kind: str, folder: Path, *, nodes: str = "n[1-3]") -> Iterator[PbsSite]:
    """Run a site until the block ends."""
    node_class = folder / "node_class.toml"
    node_class.write_text(NODE_CLASS)
    plan = planned(nodes, node_class=node_class_named(str(node_class)))
    inventory = write_inventory(folder, plan, node_class=str(node_class), made_by="a test")
    with served_room(plan, room_logins(folder)) as room:
        server = pbs_of_room(kind, room.room, folder)
        pbs = asyncio.run_coroutine_threadsafe(server.__aenter__(), room.loop).result(30)
        try:
            running = StandIn(pbs, folder / "bin", room.loop)
            if kind == OPENPBS:
                installed(running, folder)
            write_enrolled(inventory, asyncio.run(_enrolled(inventory)))
            yield PbsSite(folder, kind, room, running)
        finally:
            asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), room.loop).result(30)


async def _enrolled(inventory: Path) -> dict[str, Enrolled]:
    wire = Wire()
    try:
        machines = read_inventory(inventory).machines
        known = await asyncio.gather(*(driver_of(machine, wire).identity() for machine in machines))
        return {machine.node: Enrolled(who, (), "2026-11-21") for machine, who in zip(machines, known, strict=True)}
    finally:
        await wire.close()
