"""The queue as the site has made it, beside the queue as it stands after `offpeak agent --restore`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_WORD = re.compile(r"(\w+)=(\S+)")
_SUBMITTED = re.compile(r"submit_batch_job: JobId=(\d+) InitPrio=(\d+)")


class Waiting(NamedTuple):
    """A pending job: its number, its priority and its nice value; `late`: it may not start yet."""

    number: int
    priority: int
    nice: int
    late: bool


def pending(cluster: Any) -> list[Waiting]:
    """Return the pending jobs, the oldest first."""
    lines = cluster.run("scontrol", "--oneliner", "show", "jobs").splitlines()
    shown = [dict(_WORD.findall(line)) for line in lines]
    return sorted(_waiting(job) for job in shown if job.get("JobState") == "PENDING")


def not_the_sites(jobs: list[Waiting], given: Mapping[int, int] | None) -> Iterator[str]:
    """Yield in words what is not as the site has it: no nice value, no begin time, the priorities that were `given`."""
    for job in jobs:
        if job.nice:
            yield f"job {job.number} has a nice value of {job.nice}"
        if job.late:
            yield f"job {job.number} may not start yet"
        if given is not None and job.priority != given[job.number]:
            yield f"job {job.number} has priority {job.priority}, and had {given[job.number]}"


def given_priorities(cluster: Any) -> dict[int, int]:
    """Return the priority that each job was given when it was submitted."""
    log = (cluster.folder / "slurmctld.log").read_text(errors="replace")
    return {int(job): int(priority) for job, priority in _SUBMITTED.findall(log)}


def _waiting(job: dict[str, str]) -> Waiting:
    return Waiting(int(job["JobId"]), int(job["Priority"]), int(job["Nice"]), job["Reason"] == "BeginTime")
