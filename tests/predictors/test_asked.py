"""What was asked and said of jobs that have not ended."""

from predictors.recent_errors import MOST_OPEN, OpenQuestions


def test_the_first_answer_counts_and_is_taken_out_once():
    asked = OpenQuestions[str]()
    asked.remember([7], ["soon"])
    asked.remember([7, 8], ["later", "never"])
    assert [asked.take_out(7), asked.take_out(7), asked.take_out(8)] == ["soon", None, "never"]


def test_the_oldest_are_forgotten():
    asked = OpenQuestions[int]()
    asked.remember(range(MOST_OPEN + 2), range(MOST_OPEN + 2))
    assert len(asked) == MOST_OPEN
    assert [asked.take_out(1), asked.take_out(2)] == [None, 2]
