"""One experiment: the same log and draws under each policy."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.settings.replay import PriceSettings
from sim_backend.case import log_span
from sim_backend.electricity import ReplayPrices, prices_of
from sim_backend.sample import SAMPLE_PRICES
from studies.logs import StudyLog
from studies.price_capacity.run import (
    ALWAYS_ON,
    BLIND,
    TIMEOUT,
    CapacityExperiment,
    CapacitySetup,
    case_of,
    profile,
    run,
)


@pytest.fixture(scope="module")
def prices(log: StudyLog) -> ReplayPrices:
    """The bundled year, laid on the log."""
    return prices_of(log_span(log.trace, log.trace.jobs), PriceSettings(file=SAMPLE_PRICES), None)


def experiment(**setup: object) -> CapacityExperiment:
    return CapacityExperiment("small", 3, 0, CapacitySetup(**setup))  # type: ignore[arg-type]


def test_a_flat_price_moves_no_job_and_saves_only_what_nothing_else_would(log: StudyLog, prices: ReplayPrices) -> None:
    result = run(experiment(spread=0.0, policies=(ALWAYS_ON, profile(3.0))), log, prices)
    assert result.longer_h(profile(3.0)) == 0
    assert result.saved_pct(profile(3.0)) == pytest.approx(0)


def test_policies_are_compared_on_the_same_jobs(log: StudyLog, prices: ReplayPrices) -> None:
    policies = (ALWAYS_ON, TIMEOUT, BLIND, profile(200.0))
    result = run(experiment(policies=policies), log, prices)
    assert tuple(each.policy for each in result.policies) == policies
    assert len({each.jobs for each in result.policies}) == 1
    assert result.job_saved_pct(ALWAYS_ON) == 0
    assert result.saved_pct(TIMEOUT) > 0
    assert result == run(experiment(policies=policies), log, prices)


def test_a_job_draws_what_the_class_draws_from_half_to_full_use(log: StudyLog, prices: ReplayPrices) -> None:
    drawn_w = case_of(experiment(), log, prices).node_power_w
    assert 480 <= drawn_w.min() < 520 < 660 < drawn_w.max() <= 700
    other_w = case_of(replace(experiment(), replay=1), log, prices).node_power_w
    assert len(other_w) != len(drawn_w) or not np.array_equal(other_w, drawn_w)
