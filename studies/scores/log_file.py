"""A job log as predictors are examined on it: who asked for what and when, and when each job ran."""

from dataclasses import dataclass, replace
from datetime import UTC
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadTrace
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs, Trace
from offpeak.settings.replay import MachineSettings, SchedulingSettings
from offpeak.text import counted
from sim_backend.machine_size import NODES, units_of
from sim_backend.policy import parse_policy
from sim_backend.replay import replay
from sim_backend.traces.filters import runnable
from sim_backend.traces.read import read_log

Notes = tuple[str, ...]

LIMIT_PCT = 99
LEAST_STARTED = 0.5
"""A log of which a smaller share of the jobs has a start is taken to know no starts."""


@dataclass(frozen=True, eq=False)
class LogFile:
    """The jobs of a log on a machine of so many `units`, each with its start and its end [trace seconds].

    `whole` bool[n] tells of which jobs the log knows all: what is there in its first second may have been submitted
    earlier, what ends in its last second may still run. `notes` say what was assumed.
    """

    name: str
    jobs: Jobs
    start_s: Int64
    end_s: Int64
    units: int
    notes: tuple[str, ...]

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which jobs are neither there in the first nor in the last second."""
        return np.asarray((self.jobs.submit_s > self.jobs.submit_s.min()) & (self.end_s < self.end_s.max()))


@lru_cache(maxsize=1)
def read_log_file(path: Path) -> LogFile:
    """Return the log; the last one that was read is kept. BadTrace if it cannot be read, or names no machine."""
    return log_file_of(read_log(str(path), lenient=True, zone=UTC), MachineSettings())


def log_file_of(whole: Trace, machine: MachineSettings) -> LogFile:
    """Return the jobs of a log as they ran; BadTrace if neither it nor `machine` says how large the machine is.

    Where starts are not logged they are of a replay: EASY with the users' estimates.
    """
    trace, limit_notes = _with_limits(whole)
    jobs, units, machine_notes = _on_machine(trace, machine)
    jobs, start_s, start_notes = _started(jobs, units)
    # Predictors know a job by its number, which need not be the only one of its kind in a log.
    jobs = replace(jobs, job_id=np.arange(len(jobs)))
    notes = (*limit_notes, *machine_notes, *start_notes)
    return LogFile(trace.name, jobs, start_s, start_s + jobs.runtime_s, units, notes)


def _with_limits(trace: Trace) -> tuple[Trace, Notes]:
    """Give each job that asked for no time what 99 of 100 that did ask kept within; where none did, what 99 of 100 ran.

    The site's limit is what a scheduler assumes (Murali and Vadhiyar, 2018, section 1), and a single job may ask for 23
    years. A reader puts the run time there, from which a predictor would learn what nobody knows before the end.
    """
    if not len(trace.without_estimate):
        return trace, ()
    jobs = trace.jobs
    unasked = np.isin(jobs.job_id, trace.without_estimate)
    usual_s = jobs.runtime_s if unasked.all() else jobs.estimate_s[~unasked]
    limit_s = int(np.percentile(usual_s, LIMIT_PCT, method="higher"))
    note = f"{counted(int(unasked.sum()), 'job')} without an estimate: {limit_s:,} s is assumed"
    return replace(trace, jobs=replace(jobs, estimate_s=np.where(unasked, limit_s, jobs.estimate_s))), (note,)


def _on_machine(trace: Trace, machine: MachineSettings) -> tuple[Jobs, int, Notes]:
    """Return the jobs that fit the machine, and its units."""
    if not (trace.units_per_node or trace.processors or trace.nodes or machine.nodes):
        message = f"{trace.name}: the log does not say how large the machine is"
        raise BadTrace(message, hint="a log of one machine is needed, with a line `; MaxProcs: N`")
    units = units_of(trace, machine)
    jobs, rejected = runnable(replace(trace, jobs=units.jobs), units.size)
    left_out = (f"{counted(len(each.job_ids), 'job')} left out: {each.reason}" for each in rejected)
    most = counted(units.size // units.per_node, "node")
    assumed = (f"size of the machine: {most}, the most in use at once",) if NODES in units.assumed else units.notes
    return jobs, units.size, (*assumed, *left_out)


def _started(jobs: Jobs, units: int) -> tuple[Jobs, Int64, Notes]:
    """Return the jobs of which a start is known, and these."""
    known = (jobs.logged_start_s >= 0) & (jobs.logged_start_s >= jobs.submit_s)
    if known.mean() < LEAST_STARTED:
        easy = parse_policy("easy", SchedulingSettings())
        start_s = replay(jobs, np.zeros(len(jobs)), machine_size=units, policy=easy).start_s
        return jobs, start_s, ("starts are not logged: those of a replay under EASY are used",)
    left_out = int((~known).sum())
    notes = (f"{counted(left_out, 'job')} left out: not known when it started",) if left_out else ()
    return jobs.take(known), jobs.logged_start_s[known], notes
