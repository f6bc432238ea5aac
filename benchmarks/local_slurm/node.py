"""A node with simulated power: orders to its BMC start and end its daemon, and its jobs end with its power."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import wait_until
from offpeak.model.orders import NodeState

FOLLOWS_NOTHING = 1_000_000
"""The BMC changes no power by itself: the node does, in its own time."""

OFF_W, BOOT_W, IDLE_W, BUSY_W = 5.0, 120.0, 100.0, 200.0
LOOK_S = 0.05

TAKES_POWER = frozenset({"soft_off", "hard_off", "off"})

SIGN = "POWERED_NODE"
"""In the environment of a node's slurmd, and by that of the slurmstepd that it starts."""

_JOB = re.compile(rb"\[(\d+)\.")


@dataclass(frozen=True)
class PowerEvent:
    """One change; Unix seconds.

    soft_off, hard_off, on: the order to the BMC. off: the power went. booting: it came. up: its slurmd was started.
    by hand: what a test did to the node itself. `jobs` had processes there at that moment.
    """

    at_s: float
    node: str
    what: str
    jobs: tuple[str, ...] = ()


class PowerLog:
    """A file that grows, a line an event."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        file.touch()

    def add(self, node: str, what: str, jobs: tuple[str, ...] = ()) -> None:
        """Write what happens now."""
        with self._lock, self._file.open("a") as log:
            log.write(f"{time.time():.3f}\t{node}\t{what}\t{','.join(jobs)}\n")

    def events(self, *, node: str = "", since_s: float = 0.0) -> tuple[PowerEvent, ...]:
        """Return what has happened, of one node if it is named."""
        every = map(_event, self._file.read_text().splitlines())
        return tuple(event for event in every if event.at_s >= since_s and node in ("", event.node))

    @property
    def violations(self) -> tuple[PowerEvent, ...]:
        """Power that was cut, or ordered to be cut, while a job ran."""
        return tuple(event for event in self.events() if event.jobs and event.what in TAKES_POWER)


def _event(line: str) -> PowerEvent:
    at_s, node, what, jobs = line.split("\t")
    return PowerEvent(float(at_s), node, what, tuple(filter(None, jobs.split(","))))


class Daemon(Protocol):
    """A node's daemon, such as a slurmd: subprocess.Popen has all of this."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self) -> object:
        """Return when it has ended."""


class NodeWorkload(Protocol):
    """The processes on a node, which end with its power."""

    def jobs(self) -> tuple[str, ...]:
        """Return the jobs on the node."""

    def draw_w(self, *, idle_w: float, busy_w: float) -> float:
        """Return the power of the node: `busy_w` while a job runs there, unless the job sets another value."""

    def kill(self) -> None:
        """End all of it at once."""


@dataclass
class PoweredNode:
    """One node, and what is wrong with it: set `hangs_in_boot` and the like at any time; `boot_s` may be changed too.

    `bmc_lies_off`: its BMC says that the power is off, whatever is. An order to switch on that comes while it shuts
    down is forgotten, as by many real ones.
    """

    name: str
    bmc: SimulatedBmc
    processes: NodeWorkload
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
        """Execute the orders to the BMC since the last call, and what is due by now."""
        for order in self._new_orders():
            self._obey(order, now_s)
        if self.state in (NodeState.BOOTING, NodeState.GOING_DOWN) and now_s >= self._due_s:
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
        """Cut the power by hand, which no part under test does."""
        self._lose_power("by hand: power cut")

    def _obey(self, order: str, now_s: float) -> None:
        self.log.add(self.name, order, () if order == "on" else self.processes.jobs())
        if order == "hard_off" and self.state is not NodeState.OFF:
            self._lose_power()
        elif order == "soft_off" and self.state is NodeState.ON and not self.ignores_shutdown:
            self.state, self._due_s = NodeState.GOING_DOWN, now_s + self.shutdown_s
        elif order == "on" and self.state is NodeState.OFF:
            self.log.add(self.name, "booting")
            self.state, self._due_s = NodeState.BOOTING, now_s + self.boot_s

    def _arrive(self) -> None:
        if self.state is NodeState.GOING_DOWN:
            self._lose_power()
        elif not self.hangs_in_boot:
            self.slurmd, self.state = self.start(), NodeState.ON
            self.log.add(self.name, "up")

    def _lose_power(self, what: str = "off") -> None:
        jobs = self.processes.jobs()
        self.state = NodeState.OFF
        self.end_slurmd()
        self.processes.kill()
        self._show()
        self.log.add(self.name, what, jobs)

    def end_slurmd(self) -> None:
        """Kill its slurmd, without an entry in the log."""
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
        """Write state and power to the BMC and the meter."""
        up_w = self.processes.draw_w(idle_w=IDLE_W, busy_w=BUSY_W)
        if limit := "".join(self.bmc.lines("limit")):
            # No limit brings a node below its idle power.
            up_w = min(up_w, max(float(limit), IDLE_W))
        self.watts = {NodeState.OFF: OFF_W, NodeState.BOOTING: BOOT_W}.get(self.state, up_w)
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


@dataclass(frozen=True)
class NodeProcesses:
    """What distinguishes them from those of other nodes and clusters. `spool` is the node's SlurmdSpoolDir."""

    name: str
    conf: Path
    spool: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the node's slurmd."""
        return {"SLURM_CONF": str(self.conf), SIGN: str(self.spool)}

    def draw_w(self, *, idle_w: float, busy_w: float) -> float:
        """Return the power of the node: `busy_w` while a job runs there, unless the job sets another value."""
        if not self._steps():
            (self.spool / "watts").unlink(missing_ok=True)
            return idle_w
        with suppress(FileNotFoundError, ValueError):
            return float((self.spool / "watts").read_text())
        return busy_w

    def jobs(self) -> tuple[str, ...]:
        """Return the jobs that have a slurmstepd here."""
        titles = (_read(pid, "cmdline") for pid in self._all())
        found = {match[1].decode() for title in titles if b"slurmstepd" in title and (match := _JOB.search(title))}
        return tuple(sorted(found, key=int))

    def kill(self) -> None:
        """End all of them at once, as if their power went."""
        wait_until(lambda: not self._kill_all(), what=f"the processes of {self.name} to end")
        for step in self._steps():
            (self.spool / step).unlink(missing_ok=True)

    def _steps(self) -> list[str]:
        """Return the sockets at which every slurmstepd listens."""
        with suppress(FileNotFoundError):
            return [name for name in os.listdir(self.spool) if name.startswith(f"{self.name}_")]  # noqa: PTH208
        return []

    def _kill_all(self) -> list[int]:
        found = self._all()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def _all(self) -> list[int]:
        daemons = f"{SIGN}={self.spool}".encode()
        # What a job runs has its user's environment and Slurm's words.
        tasks = {f"SLURMD_NODENAME={self.name}".encode(), f"SLURM_CONF={self.conf}".encode()}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            variables = set(_read(int(folder.name), "environ").split(b"\0"))
            if daemons in variables or tasks <= variables:
                found.append(int(folder.name))
        return found


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


class LocalCluster(Protocol):
    """What an agent and meters need of a running cluster, whatever its scheduler: `nodes` by their names.

    `offpeak` is typed for that command. `kind` is slurm, torque or openpbs.
    """

    plan: PoweredPlan
    nodes: dict[str, PoweredNode]
    offpeak: tuple[str, ...]
    kind: str

    def run(self, *command: str) -> str:
        """Return what a command of the scheduler prints."""

    @property
    def folder(self) -> Path:
        """The folder of all its files."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of an agent."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """An agent's settings of this scheduler, by table and key."""
