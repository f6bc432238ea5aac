"""What is asked on a log: run times and power of its jobs, and their waits."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from offpeak.installation import install_hint
from offpeak.model.arrays import Int64
from offpeak.model.job_power import ASSUMED_POWER
from power.whatif.simulation import simulate_waits_s
from predictors.job_power import POWER_PREDICTORS
from predictors.port import Predictor
from predictors.run_times.registry import RUN_TIME_PREDICTORS, boosted_run_time
from predictors.scores.evaluation import Exam, take_exam
from predictors.scores.exams import JobExam, WaitExam, power_exam, run_time_exam, wait_exam
from predictors.trees.boosted import SCHEDULE, BoostedTrees
from predictors.trees.grow import GrowthSchedule, can_grow
from predictors.waits.registry import ARBITER_WITHOUT_TREES, wait_predictors
from studies.scores.log_file import LogFile, read_log_file

RUN_TIME, POWER, WAIT = "run time", "power", "wait"
DECLARED_W = (ASSUMED_POWER.low_w + ASSUMED_POWER.high_w) / 2
"""What a site without readings would declare [W per allocated unit]."""

PLANNERS = ("what-if", "arbiter", ARBITER_WITHOUT_TREES)
"""They look at the states of the machine, in which jobs run as long as was predicted."""

Made = tuple[Predictor[Any, Any], ...]
MAKERS: Mapping[str, Callable[[], Made]] = {
    RUN_TIME: lambda: tuple(make() for make in RUN_TIME_PREDICTORS),
    POWER: lambda: tuple(make(DECLARED_W) for make in POWER_PREDICTORS),
    WAIT: lambda: wait_predictors(simulate_waits_s),
}


def without_trees() -> tuple[str, ...]:
    """Return what is left out because scikit-learn is not installed, in a note; no note where it is."""
    if can_grow():
        return ()
    hint = install_hint("predictors")
    return (f"without scikit-learn: no boosted trees, and the what-if plans with the users' estimates; {hint}",)


def that_can_be_asked(predictors: Made) -> Made:
    """Return the predictors without the boosted trees where they cannot be grown."""
    return predictors if can_grow() else tuple(each for each in predictors if not isinstance(each, BoostedTrees))


def fresh_predictors(quantity: str) -> Mapping[str, Predictor[Any, Any]]:
    """Return by name the predictors of a quantity that can be asked, which have learned nothing."""
    return {predictor.name: predictor for predictor in that_can_be_asked(MAKERS[quantity]())}


def log_exam(path: Path, quantity: str, predictor: str) -> Exam[Any, Any]:
    """Return the exam in that quantity on a log, for the predictor of that name."""
    log = read_log_file(path)
    if quantity == RUN_TIME:
        return run_times_of(log)
    if quantity == POWER:
        return powers_of(log)
    return waits_of(log, _expected_run_s(path) if predictor in PLANNERS else None)


def run_times_of(log: LogFile) -> JobExam:
    """Return the exam about the run times of a log's jobs, told only of those that the log knows whole."""
    exam = run_time_exam(log.jobs, log.start_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.job_id])


def powers_of(log: LogFile) -> JobExam:
    """Return the same about their power."""
    exam = power_exam(log.jobs, log.start_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.job_id])


def waits_of(log: LogFile, expected_s: Int64 | None) -> WaitExam:
    """Return the same about their waits; in the states jobs run for `expected_s`, their estimates by default."""
    exam = wait_exam(log.jobs, log.start_s, log.end_s, units=log.units, expected_s=expected_s)
    return exam.without(~log.whole, ~log.whole[exam.outcomes.asked.job_id])


@lru_cache(maxsize=1)
def _expected_run_s(path: Path) -> Int64:
    return expected_run_s(read_log_file(path))


def expected_run_s(log: LogFile, schedule: GrowthSchedule = SCHEDULE) -> Int64:
    """Return how long each job was expected to run, int64[n]: the boosted trees' median at its submission.

    Without scikit-learn it is the user's estimate.
    """
    if not can_grow():
        return log.jobs.estimate_s.copy()
    answer = take_exam(boosted_run_time(schedule), run_times_of(log))
    return np.rint(answer.point).astype(np.int64)
