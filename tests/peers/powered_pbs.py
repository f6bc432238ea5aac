"""The stand-in of Torque or OpenPBS over nodes that have power: what their BMCs are told goes down and comes up in it.

As powered_cluster, with the same BMCs and nodes; only the server, its jobs and the nodes' daemons are not there.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pbs_admin import PbsAdmin
from pbs_jobs import WATTS, PbsJobs
from pbs_standin import StandIn, standin

from benchmarks.local_slurm.cluster import LOOK_EVERY_S, PATIENCE_S
from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands, restarted
from benchmarks.local_slurm.node import PoweredNode, PowerLog, followed
from benchmarks.local_slurm.plan import REPOSITORY, PoweredPlan
from benchmarks.local_slurm.processes import OFFPEAK, wait_until
from offpeak.compiled import cache_base
from offpeak.machines.node_sets import expand
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, Pbs

SOCKET, DEBUG = "pbs.sock", "debug"
REGISTERS_AFTER_S = 5.0
"""A pbs_mom connects again so long after a restart of its server."""


@dataclass(frozen=True)
class StandInNode:
    """What is on a node of the stand-in: as node.OnNode, and its daemon as node.Daemon.

    The server notices after `notice_s` that the node is dead.
    """

    server: StandIn
    name: str
    notice_s: float = 0.0

    def jobs(self) -> tuple[str, ...]:
        return tuple(self.server.pbs.cluster.nodes[self.name].used)

    def draw_w(self, *, idle_w: float, busy_w: float) -> float:
        """Return what the node draws; of the nodes that a job has the first one draws what the job says."""
        for job in list(self.server.pbs.cluster.jobs.values()):
            if job.job_id in self.jobs() and self.name in job.placed:
                reported = dict(part.partition("=")[::2] for part in job.attributes["variables"].split("\x1f"))
                first = next(iter(job.placed)) == self.name
                return float(reported[WATTS]) if first and WATTS in reported else busy_w
        return idle_w

    def kill(self) -> None:
        if not self.notice_s:
            self.server.do(lambda pbs: pbs.cluster.goes_down(self.name, time.time()))
            return

        def notice(pbs: Pbs) -> None:
            if pbs.cluster.nodes[self.name].dead:
                pbs.cluster.goes_down(self.name, time.time())

        def die(pbs: Pbs) -> None:
            pbs.cluster.loses_power(self.name, time.time())
            self.server.loop.call_later(self.notice_s, notice, pbs)

        self.server.do(die)

    def wait(self) -> None:
        """It has gone."""

    def start(self) -> "StandInNode":
        """Register."""
        self.server.do(lambda pbs: pbs.cluster.comes_up(self.name, time.time()))
        return self


@dataclass
class PoweredPbs:
    """As powered_stage.PoweredStage."""

    kind: str
    plan: PoweredPlan
    folder: Path
    server: StandIn
    nodes: dict[str, PoweredNode]
    log: PowerLog
    silent: SchedulerState = SchedulerState.DOWN
    gives_sleepers: bool = False
    offpeak: tuple[str, ...] = OFFPEAK
    _bmcs: ExitStack = field(default_factory=ExitStack)

    @property
    def jobs(self) -> PbsJobs:
        return PbsJobs(self.server)

    @property
    def admin(self) -> PbsAdmin:
        return PbsAdmin(self.server, self._by_hand)

    @property
    def environment(self) -> dict[str, str]:
        kernels = {"NUMBA_CACHE_DIR": str(cache_base())}
        conf = {"PBS_CONF_FILE": f"{self.folder}/pbs.conf"} if self.kind == OPENPBS else {}
        return {"PATH": self.server.path, "LC_ALL": "C", "HOME": str(self.folder), **conf, **kernels}

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        pbs = {"timeout": "10s", "torque_order": "priority", "boot": f"{self.plan.resume_timeout_s}s"}
        return {"agent": {"scheduler": self.kind}, "pbs": pbs}

    def wait(self, condition: Callable[[], bool], *, what: str, seconds: float = PATIENCE_S) -> None:
        try:
            wait_until(condition, what=what, seconds=seconds, every_s=LOOK_EVERY_S)
        except RuntimeError as late:
            raise RuntimeError(f"{late}\n{self.describe_state()}") from None

    def describe_state(self) -> str:
        shown = self.server.do(lambda pbs: [*pbs.cluster.nodes.values(), *pbs.cluster.jobs.values()])
        changes = [f"{event.at_s:.1f} {event.node} {event.what}" for event in self.log.events()[-20:]]
        log = self.folder / "agent.log"
        output = log.read_text().splitlines()[-40:] if log.exists() else ["no agent was started"]
        return "\n".join([f"{time.time():.1f}", *map(str, shown), *changes, *output])

    def kill_bmc(self, node: str) -> None:
        self.nodes[node].bmc.kill()

    def restart_bmc(self, node: str) -> None:
        self.nodes[node].bmc = self._bmcs.enter_context(restarted(self.nodes[node].bmc))

    def start_server(self) -> None:
        """Start it again; the daemons of nodes register with it some seconds later."""

        def begin(pbs: Pbs) -> None:
            pbs.cluster.restarts()
            self.server.loop.call_later(REGISTERS_AFTER_S, register, pbs)

        def register(pbs: Pbs) -> None:
            for node in self.nodes.values():
                if node.state is NodeState.ON and not pbs.cluster.nodes[node.name].dead:
                    pbs.cluster.comes_up(node.name, time.time())

        self.server.do(begin)
        (self.folder / f"{SOCKET}.aside").rename(self.folder / SOCKET)

    def stop_server(self) -> None:
        (self.folder / SOCKET).rename(self.folder / f"{SOCKET}.aside")

    def kill9_server(self) -> None:
        self.stop_server()

    def without_agent(self) -> None:
        """Run what the site's timer runs every few minutes; it ends with 1 as long as nodes are off.

        The server's interval between two scheduling cycles passes meanwhile.
        """
        arguments = {
            "RUNTIME_DIRECTORY": str(self.folder / "wake-sleepers"),
            "OFFPEAK_SOCKET": str(self.folder / "agent.sock"),
            "OFFPEAK_STATE_FOLDER": str(self.folder / "agent"),
            "OFFPEAK_SLURM_LOG": str(self.folder / "programs.said"),
            "OFFPEAK_RESUME": str(REPOSITORY / "deploy" / "slurm" / "offpeak-resume"),
        }
        script = REPOSITORY / "deploy" / "pbs" / "offpeak-wake-sleepers"
        with (self.folder / "timer.log").open("a") as log:
            done = subprocess.run(
                (sys.executable, "-I", script), stdout=log, stderr=log, env=self.environment | arguments, check=False
            )
        assert done.returncode in (0, 1), (self.folder / "timer.log").read_text()

        def let_interval_pass(pbs: Pbs) -> None:
            pbs.cluster.cycle_is_due = True

        self.server.do(let_interval_pass)

    def end_bmcs(self) -> None:
        """End the BMCs that were started again."""
        self._bmcs.close()

    def _by_hand(self, node: str, order: str) -> None:
        with (self.nodes[node].bmc.folder / "orders").open("a") as file:
            file.write(f"{order}\n")


@contextmanager
def powered_pbs(kind: str, plan: PoweredPlan, commands: Path | None = None) -> Iterator[PoweredPbs]:
    """Run a stage until the block ends. All nodes are idle. `commands`: what ipmi_sim loads, made if not given."""
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-powered-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        server = servers.enter_context(standin(kind, folder, nodes=plan.nodes))
        (folder / "bmcs").mkdir()
        made = servers.enter_context(bmcs(folder / "bmcs", plan.nodes, commands or compiled_commands(folder)))
        log = PowerLog(folder / "power.log")
        nodes = {f"node{number}": _node(f"node{number}", bmc, server, log, plan) for number, bmc in enumerate(made, 1)}
        stage = PoweredPbs(kind, plan, folder, server, nodes, log)
        if plan.debug:
            _add_debug(server, plan.debug)
        try:
            for node in nodes.values():
                node.begin()
            with followed(nodes):
                yield stage
        finally:
            stage.end_bmcs()


def _node(name: str, bmc: SimulatedBmc, server: StandIn, log: PowerLog, plan: PoweredPlan) -> PoweredNode:
    here = StandInNode(server, name, plan.notice_s)
    return PoweredNode(name, bmc, here, log, here.start, plan.boot_s, plan.shutdown_s)


def _add_debug(server: StandIn, nodes: str) -> None:
    """Give these nodes a queue of their own; Torque's nodes are in all queues."""

    def add(pbs: Pbs) -> None:
        pbs.cluster.queues = (*pbs.cluster.queues, DEBUG)
        for name in expand(nodes) if pbs.kind == OPENPBS else ():
            pbs.cluster.nodes[name].partitions = frozenset({DEBUG})

    server.do(add)
