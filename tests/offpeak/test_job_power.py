"""Job power: parsing a rule, and the properties of every rule."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.job_power import (
    PARSERS,
    ConstantPower,
    MeasuredPower,
    PowerClasses,
    PowerModel,
    TabulatedPower,
    UniformPower,
    default_power_model,
    node_power_w,
    parse_power_model,
    power_class,
    power_notes,
)
from offpeak.model.jobs import Jobs

pytestmark = pytest.mark.quick

NAN = float("nan")


def jobs_with(power_w: list[float], user: list[int] | None = None) -> Jobs:
    one = np.ones(len(power_w), np.int64)
    users = one if user is None else np.array(user, np.int64)
    ids = np.arange(1, len(power_w) + 1)
    return Jobs(ids, one, one, one, one, users, one, one, one, one, np.array(power_w, np.float64))


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("measured", MeasuredPower()),
        ("constant:250W", ConstantPower(250)),
        (" constant:0.25kW ", ConstantPower(250)),
        ("uniform:100W-300W", UniformPower(100, 300)),
        ("uniform:100 W - 100 W", UniformPower(100, 100)),
        ("classes:100W,200W,0.3kW", PowerClasses((100, 200, 300))),
        ("file:a:b.csv", TabulatedPower(Path("a:b.csv"))),
    ],
)
def test_texts_become_rules(text: str, model: PowerModel) -> None:
    assert parse_power_model(text) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown job power ''"),
        ("konstant:250W", "unknown job power 'konstant'"),
        ("constant", "'' is not a number with a unit"),
        ("constant:250", "'250' has no unit"),
        ("constant:-5W", "'-5W' is negative"),
        ("constant:0W", "a running job cannot draw 0W"),
        ("uniform:100W", "'100W' is not a range of power"),
        ("uniform:300W-100W", "the range '300W-100W' is upside down"),
        ("classes:100W,", "'' is not a number with a unit"),
        ("measured:5W", "`measured` does not accept a value, but '5W' is given"),
        ("file:", "`file:` names no file"),
    ],
)
def test_texts_that_make_no_sense_are_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_power_model(text)
    assert str(caught.value) == message
    assert caught.value.hint


def test_every_rule_has_a_parser() -> None:
    assert set(PARSERS) == {"measured", "constant", "uniform", "classes", "file"}


def test_readings_are_used_where_the_log_has_any() -> None:
    assert default_power_model(jobs_with([NAN, 200])) == MeasuredPower()
    assert default_power_model(jobs_with([NAN, NAN])) == UniformPower(100, 300)
    assert default_power_model(jobs_with([])) == UniformPower(100, 300)


@given(st.integers(0, 300), st.integers(0, 99), st.floats(1, 1e4), st.floats(1, 1e4))
def test_draws_are_seeded_and_within_what_the_rule_says(count: int, seed: int, one_w: float, other_w: float) -> None:
    jobs = jobs_with([NAN] * count)
    low_w, high_w = sorted((one_w, other_w))
    for model in (UniformPower(low_w, high_w), PowerClasses((low_w, high_w)), ConstantPower(low_w)):
        drawn = node_power_w(model, jobs, seed)
        assert drawn.shape == (count,)
        assert ((drawn >= low_w) & (drawn <= high_w)).all()
        np.testing.assert_array_equal(drawn, node_power_w(model, jobs, seed))


def test_another_seed_draws_something_else_and_classes_are_equally_likely() -> None:
    jobs = jobs_with([NAN] * 3000)
    assert (node_power_w(UniformPower(1, 2), jobs, 1) != node_power_w(UniformPower(1, 2), jobs, 2)).any()
    _, count = np.unique(node_power_w(PowerClasses((100, 200, 300)), jobs, 1), return_counts=True)
    assert count == pytest.approx(1000, abs=100)


@pytest.mark.parametrize("power_w", [0.0, -1.0, NAN, float("inf")])
def test_a_power_that_cannot_be_is_refused(power_w: float) -> None:
    with pytest.raises(BadInput, match="finite number of watts above zero"):
        node_power_w(ConstantPower(power_w), jobs_with([NAN]), 1)


def test_jobs_without_a_reading_are_counted() -> None:
    jobs = jobs_with([100, NAN, NAN])
    assert power_notes(MeasuredPower(), jobs)[0].startswith("2 jobs without measured power")
    assert power_notes(MeasuredPower(), jobs_with([100])) == ()
    assert power_notes(ConstantPower(5), jobs) == ()


@given(st.lists(st.floats(1, 1e4), min_size=1))
def test_classes_are_thirds_of_the_range_and_rise_with_the_power(power_w: list[float]) -> None:
    power = np.sort(np.array(power_w))
    classes = power_class(power)
    assert classes.dtype == np.int8
    assert (np.diff(classes) >= 0).all()
    if power[0] < power[-1]:
        assert (classes[0], classes[-1]) == (0, 2)


def test_the_papers_three_powers_are_the_three_classes() -> None:
    assert power_class(np.array([100.0, 200, 300, 166, 167, 233, 234])).tolist() == [0, 1, 2, 0, 1, 1, 2]
    assert power_class(np.array([5.0, 5])).tolist() == [1, 1]
    assert power_class(np.array([])).tolist() == []
