"""What was asked and said of jobs that have not ended."""

from predictors.asked import MOST, AskedJobs


def test_the_first_answer_counts_and_is_taken_out_once():
    asked = AskedJobs[str]()
    asked.remember([7], ["soon"])
    asked.remember([7, 8], ["later", "never"])
    assert [asked.take_out(7), asked.take_out(7), asked.take_out(8)] == ["soon", None, "never"]


def test_the_oldest_are_forgotten():
    asked = AskedJobs[int]()
    asked.remember(range(MOST + 2), range(MOST + 2))
    assert len(asked) == MOST
    assert [asked.take_out(1), asked.take_out(2)] == [None, 2]
