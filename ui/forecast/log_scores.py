"""Scores of all predictors of run times, power and waits on job logs: the exams, and a table for each quantity.

A log contains which user requested what and when, and when each job ran.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadTrace
from offpeak.installation import install_hint
from offpeak.model.arrays import Int64
from offpeak.model.job_power import ASSUMED_POWER
from offpeak.model.jobs import Jobs, Trace
from offpeak.power.whatif import simulate_waits_s
from offpeak.predictors import scores
from offpeak.predictors.job_power import POWER_PREDICTORS, readings_w
from offpeak.predictors.port import Predictor
from offpeak.predictors.run_times import RUN_TIME_PREDICTORS, boosted_run_time
from offpeak.predictors.trees.boosted import SCHEDULE, BoostedTrees
from offpeak.predictors.trees.forest import GrowthSchedule, can_grow
from offpeak.predictors.waits.registry import ARBITER_WITHOUT_TREES, wait_predictors
from offpeak.report_tables import StudyTable, TableCell
from offpeak.settings.replay import MachineSettings, SchedulingSettings
from offpeak.sim_backend.case.machine_size import NODES, units_of
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.read import read_log
from offpeak.text import counted

Notes = tuple[str, ...]

LIMIT_PCT = 99
LEAST_STARTED = 0.5
"""If a smaller share of the jobs has a start, the log is treated as one without starts."""


@dataclass(frozen=True, eq=False)
class LogFile:
    """The jobs of a log on a machine of `units` with starts and ends [trace seconds]; `notes` have assumptions."""

    name: str
    jobs: Jobs
    start_s: Int64
    end_s: Int64
    units: int
    notes: tuple[str, ...]

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which jobs the log has as a whole, bool[n].

        A job in the first second may have been submitted earlier, and a job that ends in the last second may still run.
        """
        return np.asarray((self.jobs.submit_s > self.jobs.submit_s.min()) & (self.end_s < self.end_s.max()))


@lru_cache(maxsize=1)
def read_log_file(path: Path) -> LogFile:
    """Return the log; the last one read is cached.

    Raises BadTrace if it cannot be read, or does not describe its machine.
    """
    return log_file_of(read_log(str(path), lenient=True, zone=UTC), MachineSettings())


def log_file_of(whole: Trace, machine: MachineSettings) -> LogFile:
    """Return the jobs of a log as they ran; without logged starts, as in a replay under EASY by users' estimates.

    Raises BadTrace if neither the log nor `machine` has the size of the machine.
    """
    trace, notes = _with_limits(whole)
    if not (trace.units_per_node or trace.processors or trace.nodes or machine.nodes):
        message = f"{trace.name}: the log does not say how large the machine is"
        raise BadTrace(message, hint="a log of one machine is needed, with a line `; MaxProcs: N`")
    units = units_of(trace, machine)
    jobs, rejected = runnable(replace(trace, jobs=units.jobs), units.size)
    left_out = (f"{counted(len(group.job_ids), 'job')} left out: {group.reason}" for group in rejected)
    most = counted(units.size // units.per_node, "node")
    assumed = (f"size of the machine: {most}, the most in use at once",) if NODES in units.assumed else units.notes
    jobs, start_s, start_notes = _started(jobs, units.size)
    # Predictors know a job by its number, which need not be the only one of its kind in a log.
    jobs = replace(jobs, job_id=np.arange(len(jobs)))
    notes = (*notes, *assumed, *left_out, *start_notes)
    return LogFile(trace.name, jobs, start_s, start_s + jobs.runtime_s, units.size, notes)


def _with_limits(trace: Trace) -> tuple[Trace, Notes]:
    """Give jobs without an estimate the 99th percentile of the other estimates, or of the run times if all have none.

    A scheduler assumes the limit of the site (Murali and Vadhiyar, 2018, section 1), and a single job may request 23
    years. The reader of the log uses the run time as estimate, which is unknown before the job ends.
    """
    if not len(trace.without_estimate):
        return trace, ()
    jobs = trace.jobs
    unestimated = np.isin(jobs.job_id, trace.without_estimate)
    usual_s = jobs.runtime_s if unestimated.all() else jobs.estimate_s[~unestimated]
    limit_s = int(np.percentile(usual_s, LIMIT_PCT, method="higher"))
    note = f"{counted(int(unestimated.sum()), 'job')} without an estimate: {limit_s:,} s is assumed"
    return replace(trace, jobs=replace(jobs, estimate_s=np.where(unestimated, limit_s, jobs.estimate_s))), (note,)


def _started(jobs: Jobs, units: int) -> tuple[Jobs, Int64, Notes]:
    """Return the jobs with a known start, their starts, and notes."""
    known = (jobs.logged_start_s >= 0) & (jobs.logged_start_s >= jobs.submit_s)
    if known.mean() < LEAST_STARTED:
        easy = parse_policy("easy", SchedulingSettings())
        start_s = replay(jobs, np.zeros(len(jobs)), machine_size=units, policy=easy).start_s
        return jobs, start_s, ("starts are not logged: those of a replay under EASY are used",)
    left_out = int((~known).sum())
    notes = (f"{counted(left_out, 'job')} left out: not known when it started",) if left_out else ()
    return jobs.take(known), jobs.logged_start_s[known], notes


RUN_TIME, POWER, WAIT = "run time", "power", "wait"
DECLARED_W = (ASSUMED_POWER.low_w + ASSUMED_POWER.high_w) / 2
"""What a site without readings would declare [W per allocated unit]."""

PLANNERS = ("what-if", "arbiter", ARBITER_WITHOUT_TREES)
"""Predictors that see the states of the machine, in which jobs run for their predicted run times."""

Made = tuple[Predictor[Any, Any], ...]
MAKERS: Mapping[str, Callable[[], Made]] = {
    RUN_TIME: lambda: tuple(make() for make in RUN_TIME_PREDICTORS),
    POWER: lambda: tuple(make(DECLARED_W) for make in POWER_PREDICTORS),
    WAIT: lambda: wait_predictors(simulate_waits_s),
}


def without_trees() -> tuple[str, ...]:
    """Return a note on the predictors that are left out without scikit-learn, if it is not installed."""
    if can_grow():
        return ()
    hint = install_hint("predictors")
    return (f"without scikit-learn: no boosted trees, and the what-if plans with the users' estimates; {hint}",)


def available_predictors(predictors: Made) -> Made:
    """Return the predictors, without boosted trees if scikit-learn is not installed."""
    return (
        predictors
        if can_grow()
        else tuple(predictor for predictor in predictors if not isinstance(predictor, BoostedTrees))
    )


def fresh_predictors(quantity: str) -> Mapping[str, Predictor[Any, Any]]:
    """Return the available predictors of a quantity by name; they have learned nothing yet."""
    return {predictor.name: predictor for predictor in available_predictors(MAKERS[quantity]())}


def log_exam(path: Path, quantity: str, predictor: str) -> scores.Exam[Any, Any]:
    """Return the exam in that quantity on a log, for the predictor of that name."""
    log = read_log_file(path)
    if quantity == RUN_TIME:
        return run_times_of(log)
    if quantity == POWER:
        return powers_of(log)
    return waits_of(log, _expected_run_s(path) if predictor in PLANNERS else None)


def run_times_of(log: LogFile) -> scores.JobExam:
    """Return the exam about the run times of the jobs that the log has as a whole."""
    exam = scores.run_time_exam(log.jobs, log.start_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.job_id])


def powers_of(log: LogFile) -> scores.JobExam:
    """Return the exam about the power of the jobs that the log has as a whole."""
    exam = scores.power_exam(log.jobs, log.start_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.job_id])


def waits_of(log: LogFile, expected_s: Int64 | None) -> scores.WaitExam:
    """Return the exam about the waits of the jobs that the log has as a whole.

    In the states of the machine jobs run for `expected_s`, by default their estimates.
    """
    exam = scores.wait_exam(log.jobs, log.start_s, log.end_s, units=log.units, expected_s=expected_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.questions.job_id])


@lru_cache(maxsize=1)
def _expected_run_s(path: Path) -> Int64:
    return expected_run_s(read_log_file(path))


def expected_run_s(log: LogFile, schedule: GrowthSchedule = SCHEDULE) -> Int64:
    """Return the expected run time of each job, int64[n]: the boosted trees' median at its submission.

    Without scikit-learn it is the user's estimate.
    """
    if not can_grow():
        return log.jobs.estimate_s.copy()
    answer = scores.take_exam(boosted_run_time(schedule), run_times_of(log))
    return np.rint(answer.point).astype(np.int64)


SECONDS_A_JOB, SLOW_SECONDS_A_JOB = 0.0002, {"boosted": 0.0008} | dict.fromkeys(PLANNERS, 0.003)
"""The processor time that a job takes, roughly: the time left follows from it."""


@dataclass(frozen=True)
class LogTask:
    """One predictor, by its name, of a quantity on a log of so many jobs."""

    path: Path
    quantity: str
    predictor: str
    jobs: int = 0

    @property
    def expected_s(self) -> float:
        """The processor time that the task takes, roughly."""
        return SLOW_SECONDS_A_JOB.get(self.predictor, SECONDS_A_JOB) * self.jobs

    @property
    def text(self) -> str:
        """The task in words."""
        return f"{self.path.name}, {self.quantity}, {self.predictor}"


@dataclass(frozen=True)
class LogResult:
    """The score of a predictor on the log named `log`; `notes` have the assumptions about the log.

    `cpu_s` is the time of its predictions and its learning, without the run times predicted for the states of a
    what-if, which are a task of their own.
    """

    task: LogTask
    log: str
    score: scores.Score
    cpu_s: float
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The first figure of the result, in words."""
        task = self.task
        return f"{self.log}, {task.quantity}, {task.predictor}: MAE {self.score.mae:,.0f} {KINDS[task.quantity].unit}"


def log_tasks(path: Path) -> tuple[LogTask, ...]:
    """Return the tasks of a log; power only if the log has readings. Raises BadTrace if the log cannot be used."""
    jobs = read_log_file(path).jobs
    has_readings = bool(np.isfinite(readings_w(jobs)).any())
    quantities = (RUN_TIME, POWER, WAIT) if has_readings else (RUN_TIME, WAIT)
    return tuple(
        LogTask(path, quantity, name, len(jobs)) for quantity in quantities for name in fresh_predictors(quantity)
    )


def run_log_task(task: LogTask, progress: Callable[[float], None] = lambda _: None) -> LogResult:
    """Return the score of a predictor; the same task gives the same score, in any process."""
    log = read_log_file(task.path)
    predictor = fresh_predictors(task.quantity)[task.predictor]
    exam = log_exam(task.path, task.quantity, task.predictor)
    begin_s = time.process_time()
    answer = scores.take_exam(predictor, exam, progress)
    cpu_s = time.process_time() - begin_s
    return LogResult(task, log.name, scores.compute_score(exam.actual, answer), cpu_s, log.notes)


LEGEND = (
    "MAE: mean absolute error of the median. RMSE: root of the mean squared error of the mean. Pinball: its mean over "
    "the quantiles 10, 50 and 90 %. Within 80 %: the share of jobs between the outer two, 80 % is right. "
    "Each prediction is made at the submission of the job, from what has happened until then."
)
PERCENTAGE = "error [%]"
WITHIN_HOUR = "within 1 h [%]"


@dataclass(frozen=True)
class ScoreKind:
    """How the results of a quantity are shown: relative to the predictor `naive`, and with one more measure."""

    name: str
    title: str
    unit: str
    naive: str
    measure: str
    note: str


KINDS = {
    RUN_TIME: ScoreKind("run-times", "Run times", "s", "estimate", PERCENTAGE, "Relative to the user's estimate."),
    POWER: ScoreKind(
        "power", "Power per unit", "W", "constant", PERCENTAGE, "Relative to one draw declared for all jobs."
    ),
    WAIT: ScoreKind("waits", "Queue waits", "s", "similar jobs", WITHIN_HOUR, "Relative to the published method."),
}
MEASURES: dict[str, Callable[[LogResult], float]] = {
    PERCENTAGE: lambda result: result.score.percentage_error,
    WITHIN_HOUR: lambda result: 100 * result.score.close_share,
}


def log_tables(results: Sequence[LogResult]) -> tuple[StudyTable, ...]:
    """Return a table for each quantity that has results."""
    by_quantity = {quantity: [result for result in results if result.task.quantity == quantity] for quantity in KINDS}
    return tuple(_score_table(KINDS[quantity], found) for quantity, found in by_quantity.items() if found)


def _score_table(kind: ScoreKind, results: Sequence[LogResult]) -> StudyTable:
    mae = f"MAE [{kind.unit}]", f"RMSE [{kind.unit}]", "rel. MAE"
    headers = ("log", "predictor", "jobs", *mae, f"pinball [{kind.unit}]", "within 80 % [%]", kind.measure, "CPU [s]")
    naive_mae = {result.task.path: result.score.mae for result in results if result.task.predictor == kind.naive}
    rows = tuple(_score_row(kind, result, naive_mae.get(result.task.path)) for result in results)
    notes = {result.log: result.notes for result in results if result.notes}
    return StudyTable(
        kind.name,
        kind.title,
        " ".join([kind.note, LEGEND, *[f"{log}: {'; '.join(noted)}." for log, noted in notes.items()]]),
        headers,
        rows,
    )


def _score_row(kind: ScoreKind, result: LogResult, naive_mae: float | None) -> tuple[TableCell, ...]:
    score = result.score
    relative = score.mae / naive_mae if naive_mae else None
    errors = score.mae, score.rmse, relative, fmean(score.pinball), 100 * score.coverage
    return (
        result.log,
        result.task.predictor,
        f"{score.count:,}",
        *map(_known, errors),
        _known(MEASURES[kind.measure](result)),
        result.cpu_s,
    )


def _known(value: float | None) -> float | None:
    """Return the value, None if it is NaN."""
    return None if value is None or value != value else value
