"""Reads slurmctld's own timing of a run: cycles of its backfill, and the delays between its decisions and the jobs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple

_LINE = re.compile(r"^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)\] (.*)$", re.MULTILINE)
_JOB = re.compile(r"JobId=(\d+)(?:_(\d+))?")
SUBMITTED, ALLOCATED = "_slurm_rpc_submit_batch_job: JobId=", "sched: Allocate JobId="
STARTED = "_start_job: Started JobId="
"""By a backfill cycle."""
BACKFILL_BEGINS = "_attempt_backfill: beginning"

JobKey = tuple[int, int]
"""The place of a job's submission in the order of all, and its task in an array, 0 if it is none."""

NEXT_START_S = 2.0
"""A start that is later than this after the last end on its nodes has waited for something else."""


class Allocation(NamedTuple):
    """When slurmctld gave a job its nodes [Unix s], and whether it did so in a backfill cycle."""

    at_s: float
    by_backfill: bool


@dataclass(frozen=True)
class ControllerLog:
    """What slurmctld.log of a run says [Unix s]: submissions in their order, and the beginnings of backfill cycles."""

    submitted_s: Sequence[float]
    allocations: dict[JobKey, Allocation]
    backfill_s: Sequence[float]


def parse_controller_log(text: str) -> ControllerLog:
    """Return the allocations and backfill cycles of a log at level info with the debug flag Backfill."""
    submission: dict[int, int] = {}
    submitted_s, backfill_s = [], []
    starts = []
    for at, line in _LINE.findall(text):
        at_s = datetime.fromisoformat(at).timestamp()
        if BACKFILL_BEGINS in line:
            backfill_s.append(at_s)
        elif SUBMITTED in line and (match := _JOB.search(line)):
            submission[int(match[1])] = len(submission)
            submitted_s.append(at_s)
        elif (STARTED in line or ALLOCATED in line) and (match := _JOB.search(line)):
            starts.append((match, Allocation(at_s, STARTED in line)))
    # A job may have its nodes before the line of its submission is written.
    allocations = {(submission[int(match[1])], int(match[2] or 0)): start for match, start in starts}
    return ControllerLog(submitted_s, allocations, backfill_s)


class ScriptRun(NamedTuple):
    """When the script of a job began and ended [Unix s], and on which nodes."""

    start_s: float
    end_s: float
    nodes: Sequence[str]


@dataclass(frozen=True)
class ControllerTiming:
    """Figures of a run [s].

    `launch_s`: from an allocation to the start of the job's script. `release_s`: from the end of a script to the next
    allocation of its nodes by the main scheduler to a job that waits, where that follows soon. `starts_by_backfill`:
    the share of starts that were decided in a backfill cycle. `backfill_interval_s` is from the beginning of a cycle to
    that of the next.
    """

    backfill_cycles: int
    backfill_interval_s: float
    longest_interval_s: float
    launch_s: float
    longest_launch_s: float
    release_s: float
    starts_by_backfill: float


def controller_timing(log: ControllerLog, runs: dict[JobKey, ScriptRun]) -> ControllerTiming:
    """Return the timing of a run: medians of the delays, the mean of the intervals; 0 for what did not happen."""
    launch = [runs[key].start_s - each.at_s for key, each in log.allocations.items() if key in runs]
    gaps = [after - before for before, after in pairwise(log.backfill_s)]
    return ControllerTiming(
        backfill_cycles=len(log.backfill_s),
        backfill_interval_s=mean(gaps) if gaps else 0.0,
        longest_interval_s=max(gaps, default=0.0),
        launch_s=median(launch) if launch else 0.0,
        longest_launch_s=max(launch, default=0.0),
        release_s=_release_s(log, runs),
        starts_by_backfill=mean(each.by_backfill for each in log.allocations.values()) if log.allocations else 0.0,
    )


def _release_s(log: ControllerLog, runs: dict[JobKey, ScriptRun]) -> float:
    ends = [(run.end_s, node) for run in runs.values() for node in run.nodes]
    found = []
    for key, allocation in log.allocations.items():
        # A backfilled job has waited for the cycle too.
        if key not in runs or allocation.by_backfill:
            continue
        last_s = max((end for end, node in ends if node in runs[key].nodes and end < allocation.at_s), default=0.0)
        # A job that was submitted later has waited for nothing.
        if log.submitted_s[key[0]] < last_s and allocation.at_s - last_s < NEXT_START_S:
            found.append(allocation.at_s - last_s)
    return median(found) if found else 0.0
