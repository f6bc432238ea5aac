"""The open questions about jobs that have not ended."""

import pytest

from offpeak.predictors.recent_errors import MOST_OPEN, OpenQuestions

pytestmark = pytest.mark.quick


def test_the_first_answer_counts_and_is_taken_out_once():
    requests = OpenQuestions[str]()
    requests.remember([7], ["soon"])
    requests.remember([7, 8], ["later", "never"])
    assert [requests.take_out(7), requests.take_out(7), requests.take_out(8)] == ["soon", None, "never"]


def test_the_oldest_are_forgotten():
    requests = OpenQuestions[int]()
    requests.remember(range(MOST_OPEN + 2), range(MOST_OPEN + 2))
    assert len(requests) == MOST_OPEN
    assert [requests.take_out(1), requests.take_out(2)] == [None, 2]
