"""Every predictor is scored on a log, in any process, by what was known at each submission."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from offpeak.predictors.scores import take_exam
from offpeak.ui.forecast.log_scores import (
    POWER,
    RUN_TIME,
    WAIT,
    LogTask,
    expected_run_s,
    fresh_predictors,
    log_exam,
    log_tasks,
    read_log_file,
    run_log_task,
    run_times_of,
    waits_of,
)

NAMES = {
    RUN_TIME: ["estimate", "last two", "similar jobs", "boosted"],
    POWER: ["constant", "history", "boosted"],
    WAIT: ["nobody waits", "similar jobs", "boosted", "what-if", "arbiter"],
}


def names(tasks, quantity):
    return [task.predictor for task in tasks if task.quantity == quantity]


def test_every_predictor_is_a_task_and_power_only_where_there_are_readings(ran, written):
    with_readings = log_tasks(written(ran))
    without = log_tasks(written(replace(ran, node_power_w=np.full(len(ran), np.nan)), "plain.swf"))
    assert {quantity: names(with_readings, quantity) for quantity in NAMES} == NAMES
    assert {quantity: names(without, quantity) for quantity in NAMES} == NAMES | {POWER: []}


@pytest.mark.nightly
def test_a_task_and_its_result_can_be_sent_to_another_process(ran, written):
    task = LogTask(written(ran), WAIT, "arbiter")
    result = run_log_task(pickle.loads(pickle.dumps(task)))
    again = run_log_task(task)
    scores = {str(each.score) for each in (result, again, pickle.loads(pickle.dumps(result)))}
    assert len(scores) == 1


def test_the_score_is_that_of_the_exam(ran, written):
    path = written(ran)
    end_s = ran.logged_start_s + ran.runtime_s
    # Of the first and the last job the log may not know all.
    whole = ran.take((ran.submit_s > ran.submit_s[0]) & (end_s < end_s.max()))
    score = run_log_task(LogTask(path, RUN_TIME, "estimate")).score
    assert score.count == len(whole) == len(ran) - 2
    assert score.mae == pytest.approx(np.abs(whole.estimate_s - whole.runtime_s).mean())
    waits = run_log_task(LogTask(path, WAIT, "nobody waits")).score
    wait_s = whole.logged_start_s - whole.submit_s
    assert (waits.mae, waits.close_share) == pytest.approx((wait_s.mean(), (wait_s <= 3600).mean()))
    assert run_log_task(LogTask(path, POWER, "constant")).score.mae == pytest.approx(
        np.abs(whole.node_power_w - 200).mean()
    )


@pytest.mark.parametrize("quantity", NAMES)
def test_later_events_change_no_prediction(ran, written, quantity):
    """The last third of the jobs may do as they like: answers about the first third, of before they came, stay."""
    first, third = int(ran.submit_s[50]), np.arange(len(ran)) >= 100
    later = replace(
        ran, runtime_s=np.where(third, 1 + ran.runtime_s // 7, ran.runtime_s), user=np.where(third, 9, ran.user)
    )
    assert first < ran.submit_s[100]
    for name in NAMES[quantity]:
        answers = [
            answer(written(jobs, file), quantity, name)[:50] for jobs, file in ((ran, "a.swf"), (later, "b.swf"))
        ]
        assert answers[0].tolist() == answers[1].tolist(), name


def answer(path, quantity, name):
    return take_exam(fresh_predictors(quantity)[name], log_exam(path, quantity, name)).quantiles


def test_the_what_if_plans_with_predicted_run_times(ran, written):
    path = written(ran)
    expected_s = expected_run_s(read_log_file(path))
    assert (expected_s >= 1).all()
    assert (expected_s <= ran.estimate_s).all()
    states = log_exam(path, WAIT, "what-if").questions.states
    assert states.expected_s.tolist() == expected_s.tolist()
    assert log_exam(path, WAIT, "boosted").questions.states.expected_s.tolist() == ran.estimate_s.tolist()


def test_on_a_log_the_arbiter_is_better_than_the_published_method(shared):
    path = shared / "data" / "traces" / "lublin99_tsafrir05_1000jobs.swf.gz"
    mae = {name: run_log_task(LogTask(path, WAIT, name)).score.mae for name in ("similar jobs", "arbiter")}
    assert mae["arbiter"] < 0.9 * mae["similar jobs"]


def test_unfinished_jobs_teach_nothing(ran, written):
    log = read_log_file(written(ran))
    cut_s = int(np.median(log.end_s))
    began = log.start_s < cut_s
    jobs = log.jobs.take(began)
    ran_s = np.minimum(log.end_s[began], cut_s) - log.start_s[began]
    end_s = log.start_s[began] + ran_s
    cut = replace(
        log, jobs=replace(jobs, runtime_s=ran_s, job_id=np.arange(len(jobs))), start_s=log.start_s[began], end_s=end_s
    )
    assert (end_s == cut_s).sum() > 1
    for exam in (run_times_of(cut), waits_of(cut, None)):
        assert np.isnan(exam.actual[(end_s == cut_s) | (jobs.submit_s == jobs.submit_s.min())]).all()
        assert len(exam.outcomes) == cut.whole.sum() == np.isfinite(exam.actual).sum()
    assert run_times_of(cut).known_s.max() < cut_s
