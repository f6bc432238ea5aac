"""Changes to jobs: their rank, and when they may start."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from plugin.scheduler.port import Ranking
from plugin.slurm.ask import ask
from plugin.slurm.told import complaints_by_job

# A larger one is one of Slurm's signs for "none".
HIGHEST = 4_294_967_293
LOWEST_NICE, HIGHEST_NICE = -2_147_483_645, 2_147_483_645
FIRST_S = 1_000_000
HELD = "Job is in held state, pending scheduler release"

# Slurm's words for jobs that have gone meanwhile: nothing is left to be changed.
GONE = frozenset({"Invalid job id specified", "Job has already finished"})

_JOB = re.compile(r"[0-9]+")
_HELD_REASONS = frozenset({"JobHeldAdmin", "JobHeldUser"})


class Telling(NamedTuple):
    """How scontrol is told: what stands before it, how long it may take, and how long one order of many has to wait."""

    command: tuple[str, ...]
    timeout_s: float
    order_s: float = 0.0


def rank_jobs(values: Mapping[str, int], ranking: Ranking, telling: Telling) -> dict[str, str]:
    """Set priorities, or offsets as nice values with their sign turned; return why not, by job.

    Priority 0 would hold a job, and a nice value would end its hold in Slurm 22.05: neither is sent.
    """
    if ranking is Ranking.VALUE:
        refused = {job: f"priority {value} is none" for job, value in values.items() if not 0 < value <= HIGHEST}
        return refused | _update({job: f"priority={value}" for job, value in values.items()}, refused, telling)
    nices = {job: -value for job, value in values.items()}
    refused = {job: f"nice {nice} is none" for job, nice in nices.items() if not LOWEST_NICE <= nice <= HIGHEST_NICE}
    refused |= dict.fromkeys(_held(telling.timeout_s) & values.keys(), HELD)
    return refused | _update({job: f"nice={nice}" for job, nice in nices.items()}, refused, telling)


def defer_jobs(begin_s: Mapping[str, int], telling: Telling) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    return _update({job: f"starttime={_start(at_s)}" for job, at_s in begin_s.items()}, {}, telling)


def _start(at_s: int) -> str:
    # "uts" and Unix seconds: no zone, no clock change and no wait makes it another. Slurm takes none of January 1970.
    return f"uts{at_s}" if at_s > FIRST_S else "now"


def _update(changes: Mapping[str, str], refused: Mapping[str, str], telling: Telling) -> dict[str, str]:
    strange = {job: "is no job number" for job in changes if not _JOB.fullmatch(job)}
    # An array's number changes all its tasks: those that were split off have larger numbers and get their own after it.
    jobs = sorted(changes.keys() - refused.keys() - strange.keys(), key=int)
    orders = (f"update jobid={job} {changes[job]}" for job in jobs)
    complaints = complaints_by_job(
        orders, command=telling.command, timeout_s=telling.timeout_s, order_s=telling.order_s
    )
    return strange | {job: why for job, why in complaints.items() if why not in GONE}


def _held(timeout_s: float) -> set[str]:
    arguments = ("--all", "--local", "--noheader", "--array", "--states=PENDING")
    rows = ask("squeue", *arguments, "--Format=JobID:|,PriorityLong:|,Reason:", timeout_s=timeout_s).decode()
    fields = (row.split("|", 2) for row in rows.splitlines())
    return {job for job, priority, reason in fields if priority == "0" or reason.strip() in _HELD_REASONS}
