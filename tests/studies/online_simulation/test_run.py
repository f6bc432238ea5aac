"""One experiment: the paper's measures fit each other, and its logs give about the paper's figures."""

from pathlib import Path

import numpy as np
import pytest

from studies.logs import LogSource, read_log
from studies.online_simulation.plan import OnlineSubject, subjects_of
from studies.online_simulation.run import (
    ALWAYS_ON,
    OLS,
    SERVER,
    SLA,
    OnlineExperiment,
    OnlineResult,
    OnlineSetup,
    run,
)


def result_of(subject: OnlineSubject, setup: OnlineSetup, replay: int = 0) -> OnlineResult:
    return run(OnlineExperiment(subject.name, 1, replay, setup), subject.log)


SETUPS = [
    OnlineSetup(100, ALWAYS_ON),
    OnlineSetup(100, "two-level:75"),
    OnlineSetup(100, OLS),
    OnlineSetup(100, "ols:1d", nodes=SERVER),
    OnlineSetup(100, OLS, estimates="user"),
    OnlineSetup(100, OLS, estimates="predicted"),
    OnlineSetup(90, OLS, first_day=8),
]


@pytest.mark.parametrize("setup", SETUPS)
def test_the_measures_fit_each_other(subject: OnlineSubject, setup: OnlineSetup) -> None:
    result = result_of(subject, setup)
    assert result.slowdown >= 1
    assert 0 <= result.violations <= 1
    assert 0 <= result.inactive < 1
    assert 0 < result.utilization <= 1
    assert 0 <= result.idle_saved < 1
    assert (result.cycles == 0) == (result.inactive == 0)


@pytest.mark.parametrize("setup", SETUPS)
def test_weeks_add_up_to_the_whole(subject: OnlineSubject, setup: OnlineSetup) -> None:
    weekly = result_of(subject, setup).weekly
    lengths = {len(series) for series in (weekly.slowdown, weekly.violations, weekly.utilization, weekly.active)}
    assert len(lengths) == 1
    assert all(0 <= active <= setup.size for active in weekly.active if active is not None)
    assert all(0 <= share <= 1 + 1e-5 for share in weekly.utilization if share is not None)


def test_active_weeks_are_the_active_share(subject: OnlineSubject) -> None:
    setup = OnlineSetup(100, OLS)
    result = result_of(subject, setup)
    active = np.array(result.weekly.active)
    mean = (1 - result.inactive) * setup.size
    # All weeks but the last are whole: it lies between the means with none and all of the last.
    ends = sorted([active[:-1].mean(), active.mean()])
    assert ends[0] - 1e-4 <= mean <= ends[1] + 1e-4


def test_all_processors_never_sleep(subject: OnlineSubject) -> None:
    result = result_of(subject, OnlineSetup(100, ALWAYS_ON))
    assert (result.inactive, result.cycles, result.idle_saved) == (0, 0, 0)
    assert set(result.weekly.active) == {100.0}


def test_transitions_cost_some_of_what_is_saved(subject: OnlineSubject) -> None:
    at_once, server = (
        result_of(subject, OnlineSetup(100, "two-level:75", nodes=nodes)) for nodes in ("instant", SERVER)
    )
    assert 0 < server.idle_saved < at_once.idle_saved


def test_the_seed_decides(subject: OnlineSubject) -> None:
    assert result_of(subject, OnlineSetup(100)) == result_of(subject, OnlineSetup(100))
    assert result_of(subject, OnlineSetup(100)) != result_of(subject, OnlineSetup(100), replay=1)


def test_kth_is_like_the_paper(shared: Path) -> None:
    """Section 3 of the paper: about 10 % of processors inactive or more, slowdown below the SLA, 80 % utilization."""
    log = read_log(LogSource("KTH-SP2", shared / "data" / "traces" / "KTH-SP2.swf.gz"))
    (subject,) = subjects_of([log])
    every, low, ols = (result_of(subject, subject.setup(each)) for each in (ALWAYS_ON, subject.two_level, OLS))
    assert every.utilization == pytest.approx(0.69, abs=0.01)
    assert low.inactive > 0.1
    assert low.utilization > 0.8
    assert ols.inactive > 0.08
    assert every.slowdown < ols.slowdown < SLA


def test_ctc_sleeps_as_the_paper_says(shared: Path) -> None:
    """Utilization 55 % before, near 90 % with two levels; just above 55 % of the processors active with OLS."""
    log = read_log(LogSource("CTC-SP2", shared / "data" / "traces" / "CTC-SP2.swf.gz"))
    (subject,) = subjects_of([log])
    every, low, ols = (result_of(subject, subject.setup(each)) for each in (ALWAYS_ON, subject.two_level, OLS))
    assert every.utilization == pytest.approx(0.55, abs=0.01)
    assert low.inactive == pytest.approx(1 - 0.55 / 0.9, abs=0.05)
    assert ols.inactive == pytest.approx(0.42, abs=0.06)
    assert ols.slowdown < SLA
