"""The query of a metascheduler: the wait of each of 1,000 jobs if it were submitted to this machine now."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.bars import Measured
from benchmarks.logs import rebuilt_logs
from offpeak.model.jobs import Jobs
from offpeak.power.whatif import simulate_waits_s
from offpeak.predictors.scores import WaitExam, wait_exam
from offpeak.predictors.waits.questions import NO_JOB, WaitQuestions
from offpeak.predictors.waits.registry import WaitPredictor, wait_predictors
from offpeak.predictors.waits.states import snapshot_features
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy

HISTORY, ASKED = 50_000, 1000
ROUNDS = 5
BAR_MS = 200.0


def wait_prediction_benchmarks() -> Iterator[Measured]:
    """Measure all questions in one call, after so many jobs have started; for the default also one after the other."""
    logs, data = rebuilt_logs()
    name, (jobs, units) = list(logs.items())[3]
    exam = exam_of(jobs.take(np.arange(min(len(jobs), HISTORY + ASKED))), units)
    questions = questions_about(exam, jobs.take(np.arange(len(jobs) - ASKED, len(jobs))))
    each = [questions.take(np.array([row])) for row in range(ASKED)]
    for predictor in wait_predictors(simulate_waits_s):
        taught(predictor, exam)
        took_ms = best_cpu_ms(lambda of=predictor: of.predict(questions, 0))  # type: ignore[misc]
        what = f"{ASKED:,} waits after {HISTORY:,} jobs, {predictor.name}, in one call"
        yield Measured(what, took_ms, "ms CPU", BAR_MS, False, f"{name} of {data}")
    took_ms = best_cpu_ms(lambda: [predictor.predict(one, 0) for one in each])
    yield Measured(
        f"the same, {predictor.name}, one by one", took_ms, "ms CPU", float("inf"), False, f"{name} of {data}"
    )


def exam_of(jobs: Jobs, units: int) -> WaitExam:
    """Return the waits of a replay under EASY."""
    easy = parse_policy("easy", SchedulingSettings())
    schedule = replay(jobs, np.zeros(len(jobs)), machine_size=units, policy=easy)
    return wait_exam(jobs, schedule.start_s, schedule.end_s, units=units)


def questions_about(exam: WaitExam, jobs: Jobs) -> WaitQuestions:
    """Return how long each job would wait in the longest queue that one of the last submissions found."""
    last = range(len(exam.questions) - ASKED, len(exam.questions))
    state = max((exam.questions.states[number] for number in last), key=lambda each: len(each.queued.size))
    rows = snapshot_features(state, jobs.size, jobs.estimate_s)
    nobody = np.full(len(jobs), NO_JOB)
    return WaitQuestions(nobody, jobs.user, jobs.queue, rows, np.zeros(len(jobs), np.int64), (state,))


def taught(predictor: WaitPredictor, exam: WaitExam) -> None:
    """Teach all waits that are known, as from a site's accounting."""
    predictor.learn(exam.outcomes.take(np.arange(HISTORY)), int(exam.known_s[HISTORY - 1]))


def best_cpu_ms(run: Callable[[], object]) -> float:
    """Return the least processor time [ms] of several runs, after one that is not counted."""
    run()
    times = []
    for _ in range(ROUNDS):
        begin_s = time.process_time()
        run()
        times.append(time.process_time() - begin_s)
    return 1000 * min(times)
