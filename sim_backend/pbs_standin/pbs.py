"""A simulated PBS server: its jobs and nodes, what an admin has set, its replies and errors, and its start estimate.

Jobs start in scheduling cycles: after a submission, the release of a hold and the end of a job, when an admin sets
`scheduling`, and each `scheduler_iteration`. No cycle begins when a node comes up or when the time of a deferred job
comes.

With `strict_ordering` and the hook PBS_power OpenPBS estimates the start of the first waiting job. In each cycle it
assumes that a node in state sleep will be up ten minutes later.
"""

import math
import os
import pwd
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from offpeak.plugin.pbs.openpbs_server import PRIORITY_RESOURCE, parse_formula
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.scheduler.cluster import (
    NOTHING,
    ON_NODES,
    SLEEP,
    NodeResources,
    SimJob,
    SimNode,
    SimulatedCluster,
)

TORQUE, OPENPBS = "torque", "openpbs"
VERSIONS = {TORQUE: "6.1.3", OPENPBS: "23.06.06"}
QUEUES = {TORQUE: "batch", OPENPBS: "workq"}
RUNJOB = "offpeak_runjob"
ITERATION, ITERATION_S = "scheduler_iteration", 600
"""The server's attribute with the seconds between two cycles, and its default in both servers."""
POWER = "power_provisioning"
"""The server's attribute that is True while the hook PBS_power is enabled."""
WAKES_IN_S = 600
UNKNOWN_JOB, REFUSED, BAD_STATE, UNKNOWN_NODE, NO_ATTRIBUTE, HOOK_ERROR = 15001, 15007, 15018, 15062, 15002, 15136
_RUNS = {JobState.RUNNING: "R", JobState.STARTS: "R", JobState.SUSPENDED: "S"}


@dataclass(frozen=True)
class SimReservation:
    """A confirmed reservation of `user` from `start_s` to `end_s` [Unix s], with its share of each of its nodes."""

    name: str
    user: str
    start_s: int
    end_s: int
    placed: dict[str, NodeResources]
    wants: dict[str, str]

    def has_begun(self, now_s: float) -> bool:
        """Whether it runs."""
        return self.start_s <= now_s


@dataclass
class Pbs:
    """`kind` is TORQUE or OPENPBS. `attributes` are the server's attributes, `resources` and `hooks` those of the site.

    Whoever is in `managers` may change everything but hooks, which only `roots` may see and change. `sched_state` is
    that of pbs_sched, "down" while it does not run.
    """

    kind: str
    cluster: SimulatedCluster
    host: str = "head"
    managers: frozenset[str] = frozenset({"root"})
    roots: frozenset[str] = frozenset({"root"})
    attributes: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    hooks: dict[str, str] = field(default_factory=dict)
    reservations: dict[str, SimReservation] = field(default_factory=dict)
    sched_state: str = "idle"

    @property
    def queue(self) -> str:
        """The queue of jobs that name none."""
        return QUEUES[self.kind]

    def job_id(self, job: SimJob) -> str:
        """Return a job's number with the server's name."""
        return f"{job.job_id}.{self.host}"

    def named(self, wanted: str) -> list[SimJob]:
        """Return the jobs of a number such as 12, 12.head, 12[3] or, all of an array, 12[]; [] if there is none."""
        number = wanted.partition(".")[0]
        if number.endswith("[]"):
            return [job for job in self.cluster.jobs.values() if f"{job.number}[]" == number and job.index is not None]
        first, _, index = number.removesuffix("]").partition("[")
        if not (first.isdecimal() and (index.isdecimal() or "[" not in number)):
            return []
        found = self.cluster.jobs.get((int(first), int(index) if index else None))
        return [found] if found and found.job_id == number else []

    def shows(self, job: SimJob, user: str) -> bool:
        """Whether the server shows a job to a user."""
        everybody = self.attributes.get("query_other_jobs") == "True"
        return everybody or user in self.managers or user == job.user

    def value(self, job: SimJob) -> float:
        """Return what jobs are sorted by: in OpenPBS nothing but the site's formula counts."""
        if self.kind == TORQUE:
            return float(job.priority)
        formula = parse_formula(self.attributes.get("job_sort_formula", ""))
        wants = {name: _number(value) for name, value in job.wants.items()}
        site = formula.site_value({"Priority": job.priority, "Resource_List": wants}, {})
        return site + (_number(job.wants.get(PRIORITY_RESOURCE, "0")) if formula.ours else 0.0)

    def begin_of(self, job: SimJob) -> int:
        """Return the earliest start of a job, by the runjob hook if that is installed."""
        deferred = int(_number(job.wants.get("offpeak_begin", "0"))) if RUNJOB in self.hooks else 0
        return max(job.begin_s, deferred)

    def reserved(self, node: SimNode, job: SimJob) -> NodeResources:
        """Return what reservations take of the node before the job, if it starts now, has reached its limit."""
        found, now_s = NOTHING, self.cluster.stepped_s
        for each in self.reservations.values():
            if (
                node.name in each.placed
                and now_s < each.end_s
                and (not job.limit_s or each.start_s < now_s + job.limit_s)
            ):
                found = found.plus(each.placed[node.name])
        return found

    def step(self, now_s: float) -> None:
        """Let time go on."""
        self.reservations = {name: each for name, each in self.reservations.items() if now_s < each.end_s}
        is_on = self.attributes.get("scheduling", "True") == "True"
        self.cluster.scheduling = is_on and self.sched_state != "down"
        self.cluster.iteration_s = _number(self.attributes.get(ITERATION, str(ITERATION_S)))
        self.cluster.step(now_s)


def new_pbs(kind: str, nodes: dict[str, SimNode]) -> Pbs:
    """Return a server in its state after installation; the user who runs it counts as root."""
    managers = frozenset({"root", pwd.getpwuid(os.geteuid()).pw_name})
    attributes = {
        "scheduling": "True",
        ITERATION: str(ITERATION_S),
        "managers": ",".join(f"{name}@*" for name in sorted(managers)),
    }
    if kind == OPENPBS:
        attributes["query_other_jobs"] = "True"
    cluster = SimulatedCluster(nodes, queues=(QUEUES[kind],))
    pbs = Pbs(kind, cluster, managers=managers, roots=managers, attributes=attributes)
    pbs.cluster.value, pbs.cluster.begin, pbs.cluster.reserved = pbs.value, pbs.begin_of, pbs.reserved
    return pbs


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def letter_of(pbs: Pbs, job: SimJob, now_s: float) -> str:
    """Return the letter; a job that the runjob hook keeps back stays queued."""
    if job.state is JobState.ENDED:
        return "C" if pbs.kind == TORQUE else "F"
    if job.state in _RUNS:
        return _RUNS[job.state]
    if job.holds or pbs.cluster.hangs(job):
        return "H"
    return "W" if job.begin_s > now_s else "Q"


def holds_of(pbs: Pbs, job: SimJob) -> str:
    """Return the type of the hold: n for none, s for a job that it waits for."""
    held = set(job.holds) | ({"s"} if job.state is JobState.PENDING and pbs.cluster.hangs(job) else set())
    return "".join(sorted(held, key="uos".index)) or "n"


class PbsReply(NamedTuple):
    """Standard output, standard error, and the exit code."""

    out: bytes = b""
    err: str = ""
    code: int = 0


def version_of(kind: str) -> PbsReply:
    """Return what the commands of Torque or OpenPBS print of their version."""
    if kind == TORQUE:
        return PbsReply(f"Version: {VERSIONS[kind]}\nCommit: 0000000000000000000000000000000000000000\n".encode())
    return PbsReply(f"pbs_version = {VERSIONS[kind]}\n".encode())


class PbsError(Exception):
    """One of PBS's errors; a command's exit code is its number modulo 256."""

    def __init__(self, error: int, message: str) -> None:
        super().__init__(message)
        self.code = error % 256


class StartEstimate(NamedTuple):
    """From when [Unix s] the first job that waits has which processors, by node."""

    job: SimJob
    start_s: float
    placed: dict[str, NodeResources]


def estimate_of(pbs: Pbs, now_s: float) -> StartEstimate | None:
    """Return the estimated start and nodes of the first waiting job; None if the server has no estimate."""
    waiting = pbs.cluster.pending(now_s) if pbs.attributes.get(POWER) == "True" else []
    if not waiting:
        return None
    ends_s = {
        job.job_id: (job.start_s or now_s) + job.longest_s for job in pbs.cluster.jobs.values() if job.state in ON_NODES
    }
    for at_s in sorted({now_s, now_s + WAKES_IN_S, *(max(end_s, now_s) for end_s in ends_s.values())}):
        nodes = {}
        for name, node in pbs.cluster.nodes.items():
            used = {job: share for job, share in node.used.items() if ends_s.get(job, now_s) > at_s}
            nodes[name] = replace(node, used=used)
            if SLEEP in node.shut and at_s >= now_s + WAKES_IN_S:
                nodes[name] = replace(nodes[name], shut=node.shut - {SLEEP}, alive=True)
        placed = replace(pbs.cluster, nodes=nodes).place(waiting[0])
        if placed:
            return StartEstimate(waiting[0], at_s, placed)
    return None
