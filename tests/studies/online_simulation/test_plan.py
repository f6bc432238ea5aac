"""What is run, and how often."""

from dataclasses import replace
from itertools import pairwise

import pytest

from studies.harness import Replays
from studies.online_simulation.plan import (
    KNOWLEDGE,
    OnlineSubject,
    estimated,
    planned,
    policies_of,
    readings_of,
    replays_of,
    setups_of,
)
from studies.online_simulation.run import DAILY, HOURLY, OnlineSetup


def test_every_experiment_is_planned_once(subject: OnlineSubject) -> None:
    plan = planned([subject], Replays(5, 9))
    assert len(plan) == len(set(plan))
    assert {experiment.seed for experiment in plan} == {9}
    assert {experiment.replay for experiment in plan} == set(range(5))


@pytest.mark.parametrize(
    ("setup", "count"),
    [
        (OnlineSetup(100), 20),
        (OnlineSetup(100, DAILY), 20),
        (OnlineSetup(100, DAILY, estimates="user"), 5),
        (OnlineSetup(100, HOURLY), 5),
        (OnlineSetup(100, first_day=8), 5),
    ],
)
def test_what_takes_long_is_replayed_less(setup: OnlineSetup, count: int) -> None:
    assert len(replays_of(setup, Replays(20, 1))) == count
    assert len(replays_of(setup, Replays(1, 1))) == 1


def test_only_ols_can_know_otherwise(subject: OnlineSubject) -> None:
    for known in KNOWLEDGE:
        made = {name: estimated(setup, known) for name, setup in policies_of(subject).items()}
        assert {setup.estimates for setup in made.values()} == {known.estimates}
        assert made["OLS"].what_if == known.what_if
        assert made["two-level"].what_if == made["all processors"].what_if == OnlineSetup(1).what_if


def test_each_reading_changes_something(subject: OnlineSubject) -> None:
    setups = [setup for _, setups in readings_of(subject) for setup in setups]
    assert len(setups) == len(set(setups)) == 9
    assert subject.setup("ols:7d") not in setups
    assert set(setups) <= set(setups_of(subject))


def test_weeks_of_a_short_log_begin_when_it_does(subject: OnlineSubject) -> None:
    trace = subject.log.trace
    short = replace(subject.log, trace=replace(trace, jobs=trace.jobs.take(trace.jobs.submit_s < 7 * 86_400)))
    names = [name for name, _ in readings_of(replace(subject, log=short))]
    assert "weeks begin 1 to 6 d later" not in names
    assert all(one != other for one, other in pairwise(names))
