"""A little model of Slurm and of the BMCs of its nodes. It says itself when somebody takes power from a job."""

from dataclasses import dataclass, field

from scheduler_values import job_of, node_of

from offpeak.model.orders import NodeChange, NodeOrder, PowerState
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.plugin.scheduler.port import SchedulerView

BOOT_S, SHUTDOWN_S, SUSPEND_S, RESUME_TIMEOUT_S, SILENT_S = 200, 40, 50, 900, 300
COMING = (PowerState.ON_REQUESTED, PowerState.POWERING_ON)
RUNS = (PowerState.ON, PowerState.OFF_REQUESTED)


@dataclass
class ModelJob:
    """A job; `left_s` is what it has still to run."""

    job_id: str
    width: int
    left_s: int
    submit_s: int
    hosts: list[str] = field(default_factory=list)


@dataclass
class ModelMachine:
    """A node: what Slurm thinks of it, and how it really is."""

    name: str
    power: PowerState = PowerState.ON
    since_s: int = 0
    reason: str = ""
    failed: bool = False
    silent_since_s: int | None = None
    idle_since_s: int = 0
    machine: str = "on"
    until_s: int = 0
    boot_s: int = 0
    never_boots: bool = False
    ignores_shutdown: bool = False
    bmc_silent: bool = False
    requested_off_s: list[int] = field(default_factory=list)

    def advance(self, now_s: int) -> None:
        if self.machine == "shuts down" and now_s >= self.until_s:
            self.machine = "off"
        if self.machine == "boots" and now_s >= self.until_s and not self.never_boots:
            self.machine, self.boot_s = "on", self.until_s

    def follow(self, order: NodeOrder, now_s: int) -> None:
        if order is NodeOrder.SOFT_OFF and self.machine == "on":
            self.requested_off_s.append(now_s)
        self.switched(order, now_s)

    def switched(self, order: NodeOrder, now_s: int) -> None:
        """It follows, whoever it was: only what the agent asks for counts as asked."""
        if order is NodeOrder.ON and self.machine == "off":
            self.machine, self.until_s = "boots", now_s + BOOT_S
        if order is NodeOrder.SOFT_OFF and self.machine == "on" and not self.ignores_shutdown:
            self.machine, self.until_s = "shuts down", now_s + SHUTDOWN_S


class ModelCluster:
    """Slurm's side: jobs get free nodes, those that are powered down are woken for them."""

    def __init__(self, names, now_s: int) -> None:
        self.now_s, self.submitted = now_s, 0
        self.nodes = {name: ModelMachine(name, idle_since_s=now_s) for name in names}
        self.jobs: list[ModelJob] = []
        self.ended = 0

    def submit(self, width: int, run_s: int) -> None:
        self.submitted += 1
        self.jobs.append(ModelJob(str(self.submitted), width, run_s, self.now_s))

    def has_job(self, name: str) -> bool:
        return any(name in job.hosts for job in self.jobs)

    def advance(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.now_s += 10
            for node in self.nodes.values():
                node.advance(self.now_s)
                self.power_moves(node)
                self.answers_or_fails(node)
            self.jobs_move()

    def power_moves(self, node: ModelMachine) -> None:
        for_s = self.now_s - node.since_s
        if node.power is PowerState.OFF_REQUESTED and not self.has_job(node.name):
            self.enter(node, PowerState.POWERING_OFF)
        elif node.power is PowerState.POWERING_OFF and for_s >= SUSPEND_S:
            self.enter(node, PowerState.OFF)
        elif node.power is PowerState.ON_REQUESTED:
            self.enter(node, PowerState.POWERING_ON)
        elif node.power is PowerState.POWERING_ON and node.machine == "on" and node.boot_s > node.since_s - 20:
            self.enter(node, PowerState.ON)
            node.failed = False
        elif node.power is PowerState.POWERING_ON and for_s >= RESUME_TIMEOUT_S:
            self.enter(node, PowerState.OFF)
            self.fails(node)

    def enter(self, node: ModelMachine, power: PowerState) -> None:
        node.power, node.since_s = power, self.now_s

    def fails(self, node: ModelMachine) -> None:
        node.failed = True
        for job in self.jobs:
            if node.name in job.hosts:
                job.hosts = []

    def answers_or_fails(self, node: ModelMachine) -> None:
        if node.power is not PowerState.ON or node.machine == "on":
            node.failed = node.failed and node.power is not PowerState.ON
            node.silent_since_s = None
            return
        node.silent_since_s = node.silent_since_s or self.now_s
        if self.now_s - node.silent_since_s >= SILENT_S and not node.failed:
            self.fails(node)

    def jobs_move(self) -> None:
        for job in list(self.jobs):
            if not job.hosts:
                self.start(job)
            elif all(self.nodes[name].power in RUNS for name in job.hosts):
                job.left_s -= 10
                if job.left_s <= 0:
                    self.end(job)

    def start(self, job: ModelJob) -> None:
        free = [node for node in self.nodes.values() if self.can_take(node)]
        free.sort(key=lambda node: node.power is PowerState.OFF)
        if len(free) < job.width:
            return
        for node in free[: job.width]:
            job.hosts.append(node.name)
            if node.power is PowerState.OFF:
                self.enter(node, PowerState.ON_REQUESTED)

    def can_take(self, node: ModelMachine) -> bool:
        if node.reason or node.failed or self.has_job(node.name):
            return False
        return node.power is PowerState.OFF or (node.power is PowerState.ON and node.machine == "on")

    def end(self, job: ModelJob) -> None:
        for name in job.hosts:
            self.nodes[name].idle_since_s = self.now_s
        self.jobs.remove(job)
        self.ended += 1

    def in_use(self, name: str) -> str:
        if self.has_job(name):
            return "runs a job"
        return "" if self.nodes[name].reason else "is not drained"

    def change(self, name: str, change: NodeChange, reason: str) -> None:
        """Do what the agent asks for; AssertionError for what it must not."""
        node = self.nodes[name]
        assert not node.reason or node.reason.startswith("offpeak"), "an admin's drain was touched"
        if change in (NodeChange.CLOSE, NodeChange.WITHDRAW):
            assert not node.reason
            node.reason = reason
        elif change in (NodeChange.OPEN, NodeChange.RESUME):
            node.reason = ""
            node.failed = node.failed and change is not NodeChange.RESUME
        else:
            self.power_requested(node, change)

    def power_requested(self, node: ModelMachine, change: NodeChange) -> None:
        if change is NodeChange.POWER_DOWN and node.power not in COMING:
            self.enter(node, PowerState.OFF_REQUESTED)
        elif change is NodeChange.POWER_UP and node.power is PowerState.OFF:
            self.enter(node, PowerState.ON_REQUESTED)

    def order(self, name: str, order: NodeOrder) -> None:
        """Do what reaches a BMC; AssertionError where that takes power from a job."""
        assert order is NodeOrder.ON or not self.has_job(name), f"{order} reached {name}, which has a job"
        self.nodes[name].follow(order, self.now_s)

    def resume_program(self) -> None:
        """Wake what Slurm has come up, as is done where no agent is."""
        for node in self.nodes.values():
            if node.power in COMING:
                node.follow(NodeOrder.ON, self.now_s)

    def view(self) -> SchedulerView:
        return SchedulerView(
            self.now_s, tuple(map(self._job, self.jobs)), tuple(map(self._node, self.nodes.values())), ()
        )

    def _node(self, node: ModelMachine):
        used = self.has_job(node.name)
        return node_of(
            node.name, use=NodeUse.USED if used else NodeUse.FREE, power=node.power, closed=bool(node.reason),
            reason=node.reason, failed=node.failed, cpus_used=4 * used, boot_s=node.boot_s or None,
            responds=node.power is PowerState.ON and node.machine == "on", idle_since_s=node.idle_since_s,
        )  # fmt: skip

    def _job(self, job: ModelJob):
        starts = any(self.nodes[name].power not in RUNS for name in job.hosts)
        state = JobState.STARTS if starts else JobState.RUNNING
        return job_of(
            job.job_id, state=state if job.hosts else JobState.PENDING, nodes=job.width, submit_s=job.submit_s,
            hosts=",".join(job.hosts), start_s=self.now_s if job.hosts else None, limit_s=job.left_s,
        )  # fmt: skip
