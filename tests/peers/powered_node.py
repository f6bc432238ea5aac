"""A node with power: what its BMC is told starts and ends its daemon, a slurmd; with the power go the jobs."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ipmi_sim import SimulatedBmc
from power_log import PowerLog

FOLLOWS_NOTHING = 1_000_000
"""The BMC changes no power by itself: the node does, in its own time."""

OFF_W, BOOT_W, IDLE_W, BUSY_W = 5.0, 120.0, 100.0, 200.0
LOOK_S = 0.05


class Daemon(Protocol):
    """A node's daemon, such as a slurmd: subprocess.Popen has all of this."""

    def kill(self) -> None: ...
    def wait(self) -> object: ...


class OnNode(Protocol):
    """What lives on a node, and goes with its power."""

    def jobs(self) -> tuple[str, ...]:
        """Return the jobs that are there."""

    def draw_w(self, *, idle_w: float, busy_w: float) -> float:
        """Return what the node draws: `busy_w` while a job is there, if the job says nothing else."""

    def kill(self) -> None:
        """End all of it at once."""


class NodeState(StrEnum):
    OFF = "off"
    BOOTS = "boots"
    UP = "up"
    SHUTS_DOWN = "shuts down"


@dataclass
class PoweredNode:
    """One node, and what is wrong with it: set `hangs_in_boot` and the like at any time; `boot_s` may be changed too.

    `bmc_lies_off`: its BMC says that the power is off, whatever is. An order to switch on that comes while it shuts
    down is forgotten, as by many real ones.
    """

    name: str
    bmc: SimulatedBmc
    processes: OnNode
    log: PowerLog
    start: Callable[[], Daemon]
    boot_s: float
    shutdown_s: float
    hangs_in_boot: bool = False
    ignores_shutdown: bool = False
    bmc_lies_off: bool = False
    state: NodeState = NodeState.OFF
    joules: float = 0.0
    asleep_s: float = 0.0
    watts: float = OFF_W
    slurmd: Daemon | None = None
    _due_s: float = 0.0
    _read: int = 0
    _metered_s: float = field(default_factory=time.monotonic)
    _shown: tuple[str, str] = ("", "")

    def begin(self) -> None:
        """Be up, without an order."""
        self.bmc.write("drops", str(FOLLOWS_NOTHING))
        self._arrive()

    def follow(self, now_s: float) -> None:
        """Do what the BMC was told since the last time, and what is due by now."""
        for order in self._new_orders():
            self._told(order, now_s)
        if self.state in (NodeState.BOOTS, NodeState.SHUTS_DOWN) and now_s >= self._due_s:
            self._arrive()
        self._meter(now_s)

    def crash_slurmd(self) -> None:
        """Kill its slurmd only; the node keeps its power, and the jobs go on."""
        self.log.add(self.name, "by hand: slurmd killed")
        self.end_slurmd()

    def start_slurmd(self) -> None:
        """Start a slurmd that was killed."""
        self.log.add(self.name, "by hand: slurmd started")
        self.slurmd = self.start()

    def pull_the_plug(self) -> None:
        """Take its power by hand, as nobody who is tested does."""
        self._lose_power("by hand: power cut")

    def _told(self, order: str, now_s: float) -> None:
        self.log.add(self.name, order, () if order == "on" else self.processes.jobs())
        if order == "hard_off" and self.state is not NodeState.OFF:
            self._lose_power()
        elif order == "soft_off" and self.state is NodeState.UP and not self.ignores_shutdown:
            self.state, self._due_s = NodeState.SHUTS_DOWN, now_s + self.shutdown_s
        elif order == "on" and self.state is NodeState.OFF:
            self.log.add(self.name, "booting")
            self.state, self._due_s = NodeState.BOOTS, now_s + self.boot_s

    def _arrive(self) -> None:
        if self.state is NodeState.SHUTS_DOWN:
            self._lose_power()
        elif not self.hangs_in_boot:
            self.slurmd, self.state = self.start(), NodeState.UP
            self.log.add(self.name, "up")

    def _lose_power(self, what: str = "off") -> None:
        jobs = self.processes.jobs()
        self.state = NodeState.OFF
        self.end_slurmd()
        self.processes.kill()
        self._show()
        self.log.add(self.name, what, jobs)

    def end_slurmd(self) -> None:
        """Kill its slurmd, without a word in the log."""
        if self.slurmd is not None:
            self.slurmd.kill()
            self.slurmd.wait()
            self.slurmd = None

    def _new_orders(self) -> list[str]:
        file = self.bmc.folder / "orders"
        with suppress(FileNotFoundError):
            if file.stat().st_size > self._read:
                with file.open() as orders:
                    orders.seek(self._read)
                    new = orders.read()
                self._read += len(new)
                return new.split()
        return []

    def _meter(self, now_s: float) -> None:
        passed_s = now_s - self._metered_s
        self.joules += self.watts * passed_s
        self.asleep_s += passed_s if self.state is NodeState.OFF else 0.0
        self._metered_s = now_s
        self._show()

    def _show(self) -> None:
        """Let BMC and meter show what is so."""
        up_w = self.processes.draw_w(idle_w=IDLE_W, busy_w=BUSY_W)
        self.watts = {NodeState.OFF: OFF_W, NodeState.BOOTS: BOOT_W}.get(self.state, up_w)
        off = self.bmc_lies_off or self.state is NodeState.OFF
        shown = ("off" if off else "on", f"{self.watts:.0f}")
        for name, old, new in zip(("power", "watts"), self._shown, shown, strict=True):
            if old != new:
                self.bmc.write(name, new)
        self._shown = shown


@contextmanager
def followed(nodes: Mapping[str, PoweredNode]) -> Iterator[None]:
    """Let every node follow its BMC until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_S):
            for node in nodes.values():
                node.follow(time.monotonic())

    watcher = threading.Thread(target=watch, name="power of nodes")
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
