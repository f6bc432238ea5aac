"""What a PBS scheduler puts before priorities: the priority of the queue, and the entity of fair share.

sched_config in sched_priv says whether there is fair share, and by what. Only root may read it, unless the setup has
let the agent's group into that folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from offpeak.plugin.pbs.commands import AttributesByName, as_int
from offpeak.plugin.pbs.jobs import PbsJob
from offpeak.plugin.scheduler.job import Job

SCHED_CONFIG = Path("sched_priv", "sched_config")

USER = "euser"
"""The usual entity of fair share."""

EACH_JOB = "each job"
"""In the place of an entity: no job is moved."""


SchedConfig = Mapping[str, Sequence[str]]
"""The settings of sched_config, each with the values that it has in prime time and outside it."""


def is_ever_true(sched_config: SchedConfig, name: str) -> bool:
    """Whether a setting is true at any time."""
    return any(value.lower() == "true" for value in sched_config.get(name, ()))


def order_keys(sched_config: SchedConfig) -> tuple[str, ...]:
    """Return the settings of sched_config that order jobs at any time."""
    fair_share = ("fair_share",) if is_ever_true(sched_config, "fair_share") else ()
    return (*fair_share, "job_sort_key") if "job_sort_key" in sched_config else fair_share


def read_fair_share_entity(sched_config: SchedConfig | None) -> str:
    """Return by what the scheduler shares: euser, queue, Account_Name and so on; "" without fair share.

    It may share by users where its settings are not known.
    """
    if sched_config is None:
        return USER
    entity = sched_config.get("fairshare_entity", (USER,))[-1]
    return entity if is_ever_true(sched_config, "fair_share") else ""


def with_priority_classes(jobs: Iterable[PbsJob], queues: AttributesByName, entity: str) -> tuple[PbsJob, ...]:
    """Return the jobs with the classes within which a price may move them: of one queue priority and one entity."""
    priorities = {name: as_int(attributes.get("Priority")) for name, attributes in queues.items()}
    found = []
    for each in jobs:
        job = each.job
        queue = max((priorities.get(name, 0) for name in job.partitions), default=0)
        parts = (f"{queue}", job.priority_class, _entity_of(job, entity))
        found.append(each._replace(job=job._replace(priority_class="/".join(parts))))
    return tuple(found)


def _entity_of(job: Job, entity: str) -> str:
    match entity:
        case "":
            return ""
        case "Account_Name":
            return job.account
        case "queue":
            return ",".join(job.partitions)
        case str(each) if each == EACH_JOB:
            return job.array_id or job.job_id
        case _:
            # A group of users is not shown: the jobs of a user stay among themselves.
            return job.user
