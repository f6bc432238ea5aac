"""A real Slurm whose nodes have power: switching a node by its BMC starts or kills its slurmd and its jobs."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim_backend.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands, restarted
from sim_backend.local_slurm.node import NodeProcesses, PoweredNode, PowerLog, followed
from sim_backend.local_slurm.plan import PoweredPlan
from sim_backend.local_slurm.processes import end_processes_with, reserved_ports, start_server, wait_until
from sim_backend.local_slurm.servers import ACCOUNTING, Cluster, mariadb, munge, slurmctld, slurmdbd, wait_for_nodes
from sim_backend.local_slurm.slurm_commands import SlurmAdmin, SlurmJobs
from sim_backend.local_slurm.stage import LOOK_EVERY_S, OFFPEAK, PATIENCE_S, Standing

NEEDED = ("slurmctld", "slurmd", "sinfo", "munged", "setpriv", "ipmi_sim", "gcc")


@dataclass
class PoweredCluster:
    """As powered_stage.PoweredStage. A slurmctld notices a node's silence after its SlurmdTimeout."""

    plan: PoweredPlan
    slurm: Cluster
    nodes: dict[str, PoweredNode]
    log: PowerLog
    jobs: SlurmJobs
    kind: str = "slurm"
    silent: Standing = Standing.IDLE
    gives_sleepers: bool = True
    offpeak: tuple[str, ...] = OFFPEAK
    _controller: ExitStack = field(default_factory=ExitStack)
    _bmcs: ExitStack = field(default_factory=ExitStack)

    @property
    def folder(self) -> Path:
        """Where all its files are."""
        return self.slurm.folder

    @property
    def admin(self) -> SlurmAdmin:
        """What an admin does and sees."""
        return SlurmAdmin(self.slurm)

    @property
    def environment(self) -> dict[str, str]:
        """What an agent is started with."""
        return self.slurm.environment

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """What an agent is told of it."""
        return {"slurm": {"timeout": "10s"}}

    def without_agent(self) -> None:
        """Slurm itself calls a program for each job that needs a sleeping node."""

    def run(self, *command: str, stdin: str = "") -> str:
        """Return what a command of Slurm prints; CalledProcessError if it fails."""
        return self.slurm.run(*command, stdin=stdin)

    def start_server(self) -> None:
        """Start the controller."""
        self._process = self._controller.enter_context(slurmctld(self.slurm))

    def stop_server(self) -> None:
        """End the controller politely: it saves its state."""
        self._controller.close()

    def kill9_server(self) -> None:
        """End the controller as it stands."""
        self._process.kill()
        self._controller.close()

    def kill_bmc(self, node: str) -> None:
        """Let a BMC be dead until it is started again. (`nodes[...].bmc.freeze()` lets it hang.)"""
        self.nodes[node].bmc.kill()

    def restart_bmc(self, node: str) -> None:
        """Start a BMC again that was killed."""
        self.nodes[node].bmc = self._bmcs.enter_context(restarted(self.nodes[node].bmc))

    def end_servers(self) -> None:
        """End the controller, and the BMCs that were started again."""
        self._controller.close()
        self._bmcs.close()

    def calls(self, program: str) -> list[tuple[float, str]]:
        """Return when Slurm called Suspend, Resume or ResumeFail, and for which nodes."""
        file = self.folder / "programs.log"
        lines = [line.split(" ", 3) for line in file.read_text().splitlines()] if file.exists() else []
        return [(float(at), nodes) for at, called, nodes, *_ in lines if called == program]

    def state(self, node: str) -> str:
        """Return Slurm's word for a node, such as IDLE+POWERED_DOWN."""
        return self.admin.state(node)

    def wait(self, condition: Callable[[], bool], *, what: str, seconds: float = PATIENCE_S) -> None:
        """Return once it holds; RuntimeError that shows nodes and jobs when it has not for so long."""
        try:
            wait_until(condition, what=what, seconds=seconds, every_s=LOOK_EVERY_S)
        except RuntimeError as late:
            raise RuntimeError(f"{late}\n{self.picture()}") from None

    def picture(self) -> str:
        """Return what Slurm shows, the last changes of power, and the agent's last words."""
        nodes, jobs = self.run("sinfo", "-N", "-o", "%N %T %E"), self.run("squeue", "-o", "%i %T %r %S %N")
        changes = "\n".join(f"{each.at_s:.1f} {each.node} {each.what}" for each in self.log.events()[-20:])
        log = self.folder / "agent.log"
        said = "\n".join(log.read_text().splitlines()[-40:]) if log.exists() else "no agent was started"
        return f"{nodes}\n{jobs}\n{changes}\n{said}"


@contextmanager
def powered_cluster(plan: PoweredPlan, commands: Path | None = None) -> Iterator[PoweredCluster]:
    """Run a cluster until the block ends. All nodes are idle. `commands`: what ipmi_sim loads, made if not given."""
    # Not below pytest's folder, which is closed to the other users that some tests run Slurm's commands as.
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-powered-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        slurm = servers.enter_context(_configured_slurm(plan, folder))
        (folder / "bmcs").mkdir()
        made = servers.enter_context(bmcs(folder / "bmcs", plan.nodes, commands or compiled_commands(folder)))
        log = PowerLog(folder / "power.log")
        nodes = {f"node{number}": _node(number, bmc, slurm, log, plan) for number, bmc in enumerate(made, 1)}
        cluster = PoweredCluster(plan, slurm, nodes, log, SlurmJobs(slurm))
        with _running(cluster):
            wait_for_nodes(slurm)
            yield cluster


@contextmanager
def _running(cluster: PoweredCluster) -> Iterator[None]:
    cluster.start_server()
    try:
        for node in cluster.nodes.values():
            node.begin()
        with followed(cluster.nodes):
            yield
    finally:
        for node in cluster.nodes.values():
            node.end_slurmd()
        # All at once: a controller that ends politely waits for its nodes.
        end_processes_with("SLURM_CONF", cluster.slurm.conf)
        cluster.end_servers()


def _node(number: int, bmc: SimulatedBmc, slurm: Cluster, log: PowerLog, plan: PoweredPlan) -> PoweredNode:
    name = f"node{number}"
    processes = NodeProcesses(name, slurm.conf, slurm.folder / name)

    def start() -> subprocess.Popen[bytes]:
        # -b: to Slurm it has booted just now, though this machine has not.
        command = ("slurmd", "-D", "-b", "-f", slurm.conf, "-N", name)
        return start_server(command, slurm.folder / f"{name}.log", processes.environment)

    return PoweredNode(name, bmc, processes, log, start, plan.boot_s, plan.shutdown_s)


@contextmanager
def _configured_slurm(plan: PoweredPlan, folder: Path) -> Iterator[Cluster]:
    """Give a cluster of which nothing runs but what its daemons need; all is written into the folder."""
    with ExitStack() as servers:
        port, book_port, *node_ports = servers.enter_context(reserved_ports(2 + plan.nodes))
        socket = servers.enter_context(munge(folder))
        settings = plan.conf(folder)
        if plan.accounting:
            settings += ACCOUNTING.format(port=book_port, munge=socket)
        slurm = Cluster(folder, socket, port, tuple(node_ports), settings, "powered")
        slurm.write_conf()
        plan.write_files(folder)
        if plan.accounting:
            database = servers.enter_context(mariadb(folder))
            servers.enter_context(slurmdbd(folder, book_port, munge=socket, database=database))
            slurm.run("sacctmgr", "--immediate", "add", "cluster", slurm.name)
        yield slurm
