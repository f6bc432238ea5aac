"""Families at equal energy: straight lines between their policies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.harness import Replays
from offpeak_studies.sleeping.run import (
    ALWAYS_ON,
    FAMILIES,
    OLS,
    POLICIES,
    TIMEOUT,
    SleepingResult,
)
from offpeak_studies.sleeping.study import SleepingResults, between, cycles, delay_s, experiments

POINTS = st.lists(st.tuples(st.integers(0, 100), st.integers(-9, 9)), min_size=1, unique_by=lambda point: point[0])


@given(POINTS)
def test_a_line_goes_through_its_points(points: list[tuple[int, int]]) -> None:
    assert [between(points, at) for at, _ in points] == [height for _, height in points]
    assert between(points, min(points)[0] - 0.1) is None
    assert between(points, max(points)[0] + 0.1) is None


@given(POINTS, st.randoms(), st.floats(0, 100))
def test_it_is_between_its_neighbours_in_any_order(points: list[tuple[int, int]], random, x: float) -> None:
    found = between(points, x)
    mixed = points.copy()
    random.shuffle(mixed)
    assert between(mixed, x) == found
    if found is not None:
        left = max(point for point in points if point[0] <= x)
        right = min(point for point in points if point[0] >= x)
        assert min(left[1], right[1]) - 1e-9 <= found <= max(left[1], right[1]) + 1e-9


def result(saved: float, delay: float = 0.0, wear: float = 0.0, wait: float = 0.0) -> SleepingResult:
    return SleepingResult(saved, delay, 0.0, wear, wait, 1.0, (0.0, 1.0, *[None] * 98))


def test_each_replay_has_lines_of_its_own() -> None:
    replays = Replays(2, 1)
    results = {
        experiment: result(90 - 10 * number - experiment.replay, 100 - 20 * number, 2 - 0.2 * number)
        for number, policy in enumerate(FAMILIES[TIMEOUT])
        for experiment in experiments("log", policy, replays)
    }
    answers = SleepingResults(results, replays)
    assert answers.at_energy("log", TIMEOUT, 75, delay_s) == pytest.approx([70, 72])
    assert answers.at_energy("log", TIMEOUT, 75, cycles) == pytest.approx([1.7, 1.72])
    assert answers.at_energy("log", TIMEOUT, 90, delay_s) == [100, None]
    assert answers.equal_energy_pct("log") == 64
    assert answers.equal_energy_pct("KTH-SP2-1996-2.1-cln") == 80


def test_waits_are_compared_within_a_replay() -> None:
    replays = Replays(8, 1)
    results = {
        experiment: result(0.0, wait=100 * experiment.replay + 10 * (policy != ALWAYS_ON))
        for policy in POLICIES
        for experiment in experiments("log", policy, replays)
    }
    answers = SleepingResults(results, replays)
    longer = answers.longer_s("log", FAMILIES[OLS][0])
    assert (longer.low, longer.high) == (10, 10)
    assert len(answers.each("log", FAMILIES[OLS][0])) == 2
    assert (answers.bound("log", 1), answers.bound("log", 2)) == (1.0, None)
