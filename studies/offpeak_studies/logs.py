"""The job logs that studies replay, their jobs changed for an experiment, and the use of the machine by a replay."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.errors import BadInput, BadTrace
from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs, Trace
from offpeak.model.step_integrals import Usage
from offpeak.sim_backend.comparison.replications import LARGEST_SHIFT_S
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.workloads.generate import lublin_jobs

SUFFIXES = (".swf", ".swf.gz")
GENERATED = "generated"
GENERATED_JOBS, GENERATED_NODES, GENERATED_LOAD, GENERATED_SEED = 5_000, 256, 0.75, 1


@dataclass(frozen=True)
class LogSource:
    """Where a log comes from: a file, or None for the generated one."""

    name: str
    path: Path | None


@dataclass(frozen=True)
class StudyLog:
    """A log whose jobs all fit on its machine of `size` units. The digest covers everything that is replayed."""

    source: LogSource
    trace: Trace
    size: int
    digest: str

    @property
    def span_s(self) -> int:
        """The time from the first to the last submission."""
        submit_s = self.trace.jobs.submit_s
        return int(submit_s[-1] - submit_s[0])


def find_logs(folder: Path | None) -> tuple[tuple[StudyLog, ...], tuple[str, ...]]:
    """Return the logs of a folder by name, and notes on those left out; without a folder, the generated log.

    Raises BadInput if the folder cannot be read or none of its logs can be used.
    """
    if folder is None:
        return (read_log(LogSource(GENERATED, None)),), ()
    logs: list[StudyLog] = []
    left_out: list[str] = []
    for path in _files(folder):
        try:
            logs.append(read_log(LogSource(path.name.removesuffix(".gz").removesuffix(".swf"), path)))
        except BadTrace as problem:
            left_out.append(f"left out: {problem}")
    if not logs:
        raise BadInput(f"{folder}: no log in it can be used: {left_out[0]}", hint="offpeak simulate LOG prints more")
    return tuple(logs), tuple(left_out)


def generated_note(logs: Sequence[StudyLog]) -> tuple[str, ...]:
    """Return the note that the log is a generated one; none if logs were read."""
    if logs[0].source.path is None:
        return ("log: generated after Lublin and Feitelson, 5,000 jobs on 256 nodes; real ones come with --logs",)
    return ()


def read_log(source: LogSource) -> StudyLog:
    """Return the log. Raises BadTrace if it cannot be read or its machine's size is unknown."""
    if source.path is None:
        jobs = lublin_jobs(GENERATED_JOBS, machine_size=GENERATED_NODES, seed=GENERATED_SEED, load=GENERATED_LOAD)
        trace = Trace(GENERATED, jobs, GENERATED_NODES, GENERATED_NODES, None, None)
    else:
        trace = read_swf(source.path)
    size = trace.processors or trace.nodes
    if size is None:
        raise BadTrace(f"{source.name}: the log does not say how large the machine is", hint="add `; MaxProcs: N`")
    jobs, _ = runnable(trace, size)
    if len(jobs) < 2:
        raise BadTrace(f"{source.name}: has a single job", hint="a study needs logs with a queue")
    return StudyLog(source, replace(trace, jobs=jobs), size, _digest(trace, size))


def _files(folder: Path) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
    except OSError as problem:
        raise BadInput(f"{folder}: cannot be read: {problem.strerror}", hint="--logs takes a folder of logs") from None
    if not files:
        raise BadInput(f"{folder}: no logs in it", hint="logs end in .swf or .swf.gz; without --logs one is generated")
    return files


def _digest(trace: Trace, size: int) -> str:
    jobs = trace.jobs
    digest = hashlib.sha256(repr((size, trace.unix_start_s, trace.time_zone)).encode())
    for column in (jobs.submit_s, jobs.runtime_s, jobs.estimate_s, jobs.size, jobs.user):
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]


def offered_load(jobs: Jobs, size: int) -> float:
    """Return the share of the machine that the jobs request, from the first to the last submission."""
    span_s = max(int(jobs.submit_s[-1] - jobs.submit_s[0]), 1)
    return float(np.dot(jobs.size, jobs.runtime_s)) / (size * span_s)


def at_load(jobs: Jobs, size: int, load: float) -> Jobs:
    """Return the jobs with the gaps between submissions scaled to an offered load."""
    first_s = jobs.submit_s[0]
    scaled_s = (jobs.submit_s - first_s) * (offered_load(jobs, size) / load)
    return replace(jobs, submit_s=first_s + np.rint(scaled_s).astype(np.int64))


def shift_submissions(jobs: Jobs, rng: Generator) -> Jobs:
    """Return the jobs, each submitted 0 to 60 s later, in their new order."""
    submit_s = jobs.submit_s + rng.integers(0, LARGEST_SHIFT_S, len(jobs), endpoint=True)
    return replace(jobs, submit_s=submit_s).take(np.argsort(submit_s, kind="stable"))


def usage_of(jobs: Jobs, power_w: Float64, schedule: Schedule, machine: PoweredMachine) -> Usage:
    """Return the use of the machine by the jobs, from the first submission to the last end."""
    return Usage(
        size=jobs.size,
        node_power_w=power_w,
        start_s=schedule.start_s,
        end_s=schedule.end_s,
        machine_size=machine.size,
        idle_w=machine.node_class.idle_w / machine.units_per_node,
        begin_s=int(jobs.submit_s[0]),
        until_s=int(schedule.end_s.max()),
    )
