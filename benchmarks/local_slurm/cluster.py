"""A real Slurm whose nodes have power: switching a node by its BMC starts or kills its slurmd and its jobs.

Users and admins of the cluster use Slurm's commands: sbatch, squeue, scancel and scontrol.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands, restarted
from benchmarks.local_slurm.node import NodeProcesses, PoweredNode, PowerLog, followed
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import OFFPEAK, end_processes_with, reserved_ports, start_server, wait_until
from benchmarks.local_slurm.servers import (
    ACCOUNTING,
    SlurmCluster,
    mariadb,
    munge,
    slurmctld,
    slurmdbd,
    wait_for_nodes,
)
from offpeak.plugin.scheduler.node import SchedulerState

SCRIPT = """\
#!/bin/bash
{draws}
echo "$EPOCHREALTIME $SLURM_JOB_ID start $SLURM_JOB_NODELIST" >>"{trace}"
sleep {seconds}
echo "$EPOCHREALTIME $SLURM_JOB_ID end $SLURM_JOB_NODELIST" >>"{trace}"
"""

PATIENCE_S = 300.0
"""How long a test waits for what is sure to come, on a machine with much else to do."""
LOOK_EVERY_S = 0.2
"""Each look runs a command of the scheduler's."""

GIVEN_UP = ("NODE_FAIL", "FAILED", "BOOT_FAIL")
_SHOWN = re.compile(r"JobId=(\d+) .*? JobState=(\S+) .*? Restarts=(\d+) ")


@dataclass(frozen=True)
class JobTraceEntry:
    """What a job wrote: `what` is start or end; Unix seconds."""

    at_s: float
    job: str
    what: str
    nodes: str


@dataclass(frozen=True)
class StageJob:
    """A job on whole nodes of a stage.

    `watts` is what the node draws on which it begins, if not as much as a busy one usually does. `on` are the nodes
    that it needs, if not any; `user_hint` is the hint of its owner, such as delay=20min.
    """

    seconds: float = 1.0
    nodes: int = 1
    watts: float | None = None
    on: str = ""
    name: str = ""
    limit_min: int = 10
    user_hint: str = ""


@dataclass(frozen=True)
class SlurmJobs:
    """The jobs of one cluster."""

    slurm: SlurmCluster

    @property
    def trace_file(self) -> Path:
        """The file that all jobs write to."""
        return self.slurm.folder / "jobs.log"

    def submit(self, *options: str, count: int = 1, **fields: Any) -> list[str]:
        """Submit so many jobs alike, of the fields of StageJob, with sbatch's `options`; return their ids."""
        job = StageJob(**fields)
        draws = "" if job.watts is None else f'echo {job.watts:g} >"{self.slurm.folder}/$SLURMD_NODENAME/watts"'
        script = SCRIPT.format(trace=self.trace_file, seconds=job.seconds, draws=draws)
        comment = f"offpeak:{job.user_hint}" if job.user_hint else ""
        shown_log = {"nodelist": job.on, "job-name": job.name, "comment": comment}
        arguments = [f"--{option}={value}" for option, value in shown_log.items() if value]
        usual = (f"--nodes={job.nodes}", "--output=/dev/null", f"--time={job.limit_min}")
        command = ("sbatch", "--parsable", *usual, *arguments, *options)
        return [self.slurm.run(*command, stdin=script).strip() for _ in range(count)]

    def states(self) -> dict[str, str]:
        """Return Slurm's state of every job, also of those that have ended."""
        return {job: state for job, state, *_ in self.ask("%T")}

    def ask(self, fields: str) -> list[list[str]]:
        """Return a job's id and squeue's fields, such as "%S|%N", of all jobs."""
        shown = self.slurm.run("squeue", "--noheader", "--array", "--states=all", f"--format=%i|{fields}")
        return [line.split("|") for line in shown.splitlines()]

    def order(self) -> list[str]:
        """Return the pending jobs, the first to start first."""
        return self.slurm.run("squeue", "--noheader", "--states=PD", "--sort=-p,i", "--format=%i").split()

    def begin_s(self, job: str) -> float:
        """Return when the job may start at the earliest [Unix s], 0 for at once."""
        (text,) = [term.partition("=")[2] for term in self._shown_of(job).split() if term.startswith("EligibleTime=")]
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) if text != "Unknown" else 0

    def note_to_owner(self, job: str) -> str:
        """Return what offpeak wrote for the owner of a job."""
        return self._shown_of(job).partition("AdminComment=")[2].partition(" Partition=")[0]

    def shown(self) -> str:
        """Return all that is shown of jobs, but the reasons and planned starts, which Slurm itself changes."""
        arguments = ("squeue", "--noheader", "--states=all", "--format=%i %Q %y %T %k %u %l", "--sort=i")
        return self.slurm.run(*arguments)

    def trace(self) -> tuple[JobTraceEntry, ...]:
        """Return what the jobs have written."""
        lines = (line.split() for line in self._lines())
        return tuple(JobTraceEntry(float(at), job, what, nodes) for at, job, what, nodes in lines)

    def started(self) -> list[str]:
        """Return the jobs in the order of their starts; one that was started twice stands there twice."""
        return [entry.job for entry in self.trace() if entry.what == "start"]

    def lost(self) -> list[str]:
        """Return the jobs that Slurm has given up, or put back into the queue when their nodes failed them."""
        shown = self.slurm.run("scontrol", "--oneliner", "show", "job")
        return [job for job, state, restarts in _SHOWN.findall(shown) if state in GIVEN_UP or int(restarts)]

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; those that have ended are left out."""
        subprocess.run(("scancel", *jobs), env=self.slurm.environment, check=False, capture_output=True)

    def _shown_of(self, job: str) -> str:
        return self.slurm.run("scontrol", "--oneliner", "show", "job", job)

    def _lines(self) -> list[str]:
        return self.trace_file.read_text().splitlines() if self.trace_file.exists() else []


NEEDED = ("slurmctld", "slurmd", "sinfo", "munged", "setpriv", "ipmi_sim", "gcc")


def node_state(slurm: SlurmCluster, node: str) -> str:
    """Return Slurm's state of a node, such as IDLE+POWERED_DOWN."""
    shown = slurm.run("scontrol", "--oneliner", "show", "node", node)
    return next(term.removeprefix("State=") for term in shown.split() if term.startswith("State="))


@dataclass
class PoweredCluster:
    """A running cluster. A slurmctld notices a node's silence after its SlurmdTimeout."""

    plan: PoweredPlan
    slurm: SlurmCluster
    nodes: dict[str, PoweredNode]
    log: PowerLog
    jobs: SlurmJobs
    kind: str = "slurm"
    silent: SchedulerState = SchedulerState.UP
    gives_sleepers: bool = True
    offpeak: tuple[str, ...] = OFFPEAK
    _controller: ExitStack = field(default_factory=ExitStack)
    _bmcs: ExitStack = field(default_factory=ExitStack)

    @property
    def folder(self) -> Path:
        """The folder of all its files."""
        return self.slurm.folder

    @property
    def environment(self) -> dict[str, str]:
        """The environment of an agent."""
        return self.slurm.environment

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings that an agent needs for this scheduler."""
        return {"slurm": {"timeout": "10s"}}

    def without_agent(self) -> None:
        """Slurm itself calls a program for each job that needs a sleeping node."""

    def run(self, *command: str, stdin: str = "") -> str:
        """Return what a command of Slurm prints; CalledProcessError if it fails."""
        return self.slurm.run(*command, stdin=stdin)

    def start_server(self, *options: str) -> None:
        """Start the controller, with further options such as -c."""
        self._process = self._controller.enter_context(slurmctld(self.slurm, *options))

    def stop_server(self) -> None:
        """End the controller politely: it saves its state."""
        self._controller.close()

    def kill9_server(self) -> None:
        """Kill the controller: it saves nothing."""
        self._process.kill()
        self._controller.close()

    def kill_bmc(self, node: str) -> None:
        """Kill a BMC until it is started again. (`nodes[...].bmc.freeze()` makes it hang.)"""
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
        """Return Slurm's state of a node, such as IDLE+POWERED_DOWN."""
        return node_state(self.slurm, node)

    def wait(self, condition: Callable[[], bool], *, what: str, seconds: float = PATIENCE_S) -> None:
        """Return once it holds; RuntimeError that shows nodes and jobs when it has not for so long."""
        try:
            wait_until(condition, what=what, seconds=seconds, every_s=LOOK_EVERY_S)
        except RuntimeError as late:
            raise RuntimeError(f"{late}\n{self.describe_state()}") from None

    def describe_state(self) -> str:
        """Return what Slurm shows, the last changes of power, and the end of the agent's log."""
        nodes, jobs = self.run("sinfo", "-N", "-o", "%N %T %E"), self.run("squeue", "-o", "%i %T %r %S %N")
        changes = "\n".join(f"{event.at_s:.1f} {event.node} {event.what}" for event in self.log.events()[-20:])
        log = self.folder / "agent.log"
        shown_log = "\n".join(log.read_text().splitlines()[-40:]) if log.exists() else "no agent was started"
        return f"{nodes}\n{jobs}\n{changes}\n{shown_log}"


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


def _node(number: int, bmc: SimulatedBmc, slurm: SlurmCluster, log: PowerLog, plan: PoweredPlan) -> PoweredNode:
    name = f"node{number}"
    processes = NodeProcesses(name, slurm.conf, slurm.folder / name)

    def start() -> subprocess.Popen[bytes]:
        # -b: to Slurm it has booted just now, though this machine has not.
        command = ("slurmd", "-D", "-b", "-f", slurm.conf, "-N", name)
        return start_server(command, slurm.folder / f"{name}.log", processes.environment)

    return PoweredNode(
        name=name, bmc=bmc, processes=processes, log=log, start=start, boot_s=plan.boot_s, shutdown_s=plan.shutdown_s
    )


@contextmanager
def _configured_slurm(plan: PoweredPlan, folder: Path) -> Iterator[SlurmCluster]:
    """Give a cluster of which nothing runs but what its daemons need; all is written into the folder."""
    with ExitStack() as servers:
        port, book_port, *node_ports = servers.enter_context(reserved_ports(2 + plan.nodes))
        socket = servers.enter_context(munge(folder))
        settings = plan.conf(folder)
        if plan.accounting:
            settings += ACCOUNTING.format(port=book_port, munge=socket)
        slurm = SlurmCluster(folder, socket, port, tuple(node_ports), settings, "powered", node_types=plan.node_types)
        slurm.write_conf()
        plan.write_files(folder)
        if plan.accounting:
            database = servers.enter_context(mariadb(folder))
            servers.enter_context(slurmdbd(folder, book_port, munge=socket, database=database))
            slurm.run("sacctmgr", "--immediate", "add", "cluster", slurm.name)
        yield slurm
