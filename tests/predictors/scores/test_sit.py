"""The order in which a predictor is told and asked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_jobs import populations

from offpeak.predictors.port import certain
from offpeak.predictors.scores import compute_score, exam_steps, run_time_exam, take_exam

seconds = st.lists(st.integers(0, 20), max_size=30).map(lambda values: np.array(sorted(values), np.int64))


class Cheat:
    """Says what it finds in the question, or in whatever it was told."""

    name = "cheat"

    def __init__(self):
        self.reported = {}
        self.learned_at_s = 0

    def learn(self, outcome, at_s):
        assert at_s >= self.learned_at_s
        assert (outcome.logged_start_s + outcome.runtime_s == at_s).all()
        self.learned_at_s = at_s
        self.reported |= dict(zip(outcome.job_id.tolist(), outcome.runtime_s.tolist(), strict=True))

    def predict(self, question, at_s):
        assert at_s >= self.learned_at_s
        assert not set(question.job_id.tolist()) & set(self.reported) or (question.submit_s >= at_s).all()
        return certain(np.array([self.reported.get(job, 0) for job in question.job_id.tolist()]) + 0.0, "cheating")


@given(populations)
def test_a_cheat_gets_nothing_but_jobs_that_ended_as_they_came(jobs):
    shares = []
    given_ = take_exam(Cheat(), run_time_exam(jobs, jobs.logged_start_s), shares.append)
    at_once = jobs.logged_start_s + jobs.runtime_s == jobs.submit_s
    assert (given_.mean[~at_once] == 0).all()
    assert len(given_) == len(jobs)
    assert shares == sorted(set(shares))
    assert shares[-1:] == [1.0] * (len(jobs) > 0)


@given(populations)
def test_a_question_holds_no_answer(jobs):
    exam = run_time_exam(jobs, jobs.logged_start_s)
    assert (exam.questions.runtime_s == -1).all()
    score = compute_score(exam.actual, take_exam(Cheat(), exam), naive=certain(exam.actual, "all-knowing"))
    assert score.count == len(jobs)


@given(seconds, seconds)
def test_every_outcome_comes_in_its_second_and_before_the_questions_of_it(question_s, known_s):
    learned = requests = 0
    for verb, first, end in exam_steps(question_s, known_s):
        if verb == "learn":
            assert first == learned
            assert len(set(known_s[first:end].tolist())) == 1
            learned = end
        else:
            assert first == requests
            assert (known_s[:learned] <= question_s[first]).all()
            assert (known_s[learned:] > question_s[end - 1]).all()
            requests = end
    assert requests == len(question_s)


def test_questions_without_an_outcome_in_between_are_queried_together():
    found = list(exam_steps(np.array([1, 2, 5, 5, 6]), np.array([5, 5, 6, 9])))
    assert found == [("ask", 0, 2), ("learn", 0, 2), ("ask", 2, 4), ("learn", 2, 3), ("ask", 4, 5), ("learn", 3, 4)]
