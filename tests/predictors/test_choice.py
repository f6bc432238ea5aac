"""The choice among predictors: never much worse than the naive one, steady, and the same after a restart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.choice import NAIVE, ChoiceRule, ChosenErrors, PredictorChoice

NAMES = ("naive", "one", "two")
RULE = ChoiceRule(window=20, least=5, margin=0.1)
ERROR = st.floats(-1e6, 1e6)
ROWS = st.lists(st.tuples(ERROR, ERROR, ERROR), max_size=200)
QUIET, LOUD = st.tuples(*[st.floats(0, 1)] * 3), st.tuples(*[st.floats(0, 1e6)] * 3)
STREAMS = st.one_of(ROWS, st.lists(st.one_of(QUIET, LOUD), max_size=200))


def follow(rows, choice=None) -> tuple[PredictorChoice, list[int]]:
    """Let a choice learn the rows, each answered by what it used then; return it and what it used."""
    choice = choice or PredictorChoice(NAMES, RULE)
    used = []
    for row in rows:
        used.append(choice.used)
        choice.learn(row, choice.used)
    return choice, used


@given(STREAMS)
def test_on_any_stream_the_answers_err_little_more_than_the_naive_ones(rows) -> None:
    _, used = follow(rows)
    errors = np.abs(np.array(rows).reshape(-1, 3))
    given_errors = np.cumsum(errors[np.arange(len(rows)), used])
    naive = np.cumsum(errors[:, NAIVE])
    worst = np.maximum.accumulate(errors.max(axis=1)) if rows else np.empty(0)
    windows = np.convolve(errors[:, NAIVE], np.ones(RULE.window)) if rows else np.empty(0)
    constant = worst + RULE.margin * np.maximum.accumulate(windows)[: len(rows)]
    times = 1 + np.cumsum(np.diff([NAIVE, *used]) * (np.array(used) == NAIVE) != 0)
    assert (given_errors <= (1 + RULE.margin) * naive + times * constant + 1e-6 * (1 + given_errors)).all()


@given(st.integers(1, 20), st.floats(1000, 1e6))
def test_after_errors_of_any_size_a_better_candidate_is_used_again(count, error) -> None:
    _, used = follow([(10, 5, 50)] * 30 + [(10, error, 50)] * count + [(10, 5, 50)] * 3 * RULE.window)
    assert used[29] == used[-1] == 1
    assert NAIVE in used[30:]


@given(STREAMS, st.integers(0, 200))
def test_it_is_the_same_twice_and_after_a_restart(rows, stop_at) -> None:
    _, used = follow(rows)
    first, before = follow(rows[:stop_at])
    restored = PredictorChoice(NAMES, RULE)
    restored.restore(first.state())
    again, after = follow(rows[stop_at:], restored)
    assert before + after == used
    assert again.errors == follow(rows)[0].errors


def test_the_naive_one_answers_before_enough_outcomes_and_where_nothing_is_better() -> None:
    assert follow([(10, 1, 1)] * 4)[0].used == NAIVE
    assert follow([(10, 1, 1)] * 5)[0].used == 1
    assert follow([(10, 10, 10)] * 50)[0].used == NAIVE
    assert follow([(10, 9.5, 12)] * 50)[0].used == NAIVE


def test_it_follows_the_best_and_says_the_errors_of_the_window() -> None:
    choice, _ = follow([(-10, 8, 100)] * 30 + [(20, 16, 4)] * 30)
    assert choice.used == 2
    assert choice.errors == ChosenErrors("two", 4.0, "naive", 20.0, RULE.window)
    assert PredictorChoice(NAMES).errors == ChosenErrors("naive", None, "naive", None, 0)


def test_a_candidate_that_becomes_worse_than_naive_is_left() -> None:
    _, used = follow([(10, 1, 50)] * 30 + [(10, 30, 50)] * 60)
    assert used[29] == 1
    assert used[-1] == NAIVE


def test_errors_within_the_margin_do_not_change_the_choice_at_each_job() -> None:
    random = np.random.default_rng(3)
    rows = np.column_stack([np.full(3000, 100.0), random.exponential(50, 3000), random.exponential(50, 3000)])
    _, used = follow(rows.tolist(), PredictorChoice(NAMES))
    assert used[-1] != NAIVE
    assert np.count_nonzero(np.diff(used)) <= 10


def test_errors_of_other_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match="other candidates"):
        PredictorChoice(("naive", "one")).restore(PredictorChoice(NAMES).state())
    damaged = {**follow([(1, 1, 1)])[0].state(), "overdrawn": np.array(np.nan)}
    with pytest.raises(ValueError, match="other candidates"):
        PredictorChoice(NAMES).restore(damaged)


def test_answers_that_were_open_count_as_what_gave_them() -> None:
    choice, _ = follow([(10, 1, 9)] * 30)
    assert choice.used == 1
    for _ in range(RULE.window):
        choice.learn((10, 1, 200), 2)
    assert choice.used == NAIVE
