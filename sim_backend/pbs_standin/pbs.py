"""A PBS server that is not there: its jobs and nodes, and what an admin has set."""

import math
import os
import pwd
from dataclasses import dataclass, field

from plugin.pbs.openpbs_server import PRIORITY_RESOURCE, parse_formula
from sim_backend.scheduler.cluster import Cluster
from sim_backend.scheduler.sim_job import SimJob
from sim_backend.scheduler.sim_node import SimNode

TORQUE, OPENPBS = "torque", "openpbs"
VERSIONS = {TORQUE: "6.1.3", OPENPBS: "23.06.06"}
QUEUES = {TORQUE: "batch", OPENPBS: "workq"}
RUNJOB = "offpeak_runjob"


@dataclass
class Pbs:
    """`kind` is TORQUE or OPENPBS. `attributes` are the server's attributes, `resources` and `hooks` those of the site.

    Whoever is in `managers` may change everything but hooks, which only `roots` may see and change.
    """

    kind: str
    cluster: Cluster
    host: str = "head"
    managers: frozenset[str] = frozenset({"root"})
    roots: frozenset[str] = frozenset({"root"})
    attributes: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    hooks: dict[str, str] = field(default_factory=dict)

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
        """Whether somebody is shown a job."""
        everybody = self.attributes.get("query_other_jobs") == "True"
        return everybody or user in self.managers or user == job.user

    def value(self, job: SimJob) -> float:
        """Return what jobs are sorted by: in OpenPBS nothing but the site's formula counts."""
        if self.kind == TORQUE:
            return float(job.priority)
        formula = parse_formula(self.attributes.get("job_sort_formula", ""))
        wants = {name: _number(value) for name, value in job.wants.items()}
        site = formula.site_value({"Priority": job.priority, "Resource_List": wants}, {})
        return site + (offset_of(job) if formula.ours else 0.0)

    def begin_of(self, job: SimJob) -> int:
        """Return before when a job does not start: what the runjob hook goes by counts where that is installed."""
        deferred = int(_number(job.wants.get("offpeak_begin", "0"))) if RUNJOB in self.hooks else 0
        return max(job.begin_s, deferred)

    def step(self, now_s: float) -> None:
        """Let time go on."""
        self.cluster.scheduling = self.attributes.get("scheduling", "True") == "True"
        self.cluster.step(now_s)


def new_pbs(kind: str, nodes: dict[str, SimNode]) -> Pbs:
    """Return a server as it is after its installation; whoever runs it counts as root."""
    managers = frozenset({"root", pwd.getpwuid(os.geteuid()).pw_name})
    attributes = {"scheduling": "True", "managers": ",".join(f"{name}@*" for name in sorted(managers))}
    if kind == OPENPBS:
        attributes["query_other_jobs"] = "True"
    cluster = Cluster(nodes, queues=(QUEUES[kind],))
    pbs = Pbs(kind, cluster, managers=managers, roots=managers, attributes=attributes)
    pbs.cluster.value, pbs.cluster.begin = pbs.value, pbs.begin_of
    return pbs


def offset_of(job: SimJob) -> float:
    """Return what our resource adds to a job's place."""
    return _number(job.wants.get(PRIORITY_RESOURCE, "0"))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0
