"""Many replays of one case: seeded, in parallel, and each lawful."""

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import OffpeakError
from offpeak.model.jobs import Jobs
from offpeak.prices.alignment import LogSpan
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from plugin.window_policy import EXTERNAL, WindowPolicy, WindowView
from sim_backend.case.electricity import prices_of
from sim_backend.case.replay_case import ReplayCase, ReplayMachine
from sim_backend.comparison.outcome import PolicyOutcome
from sim_backend.comparison.replications import LARGEST_SHIFT_S, replay_each, replay_often, shifted, spreads_of
from sim_backend.replay.policy import parse_policy
from sim_backend.workloads.generate import lublin_jobs

NODES = 32
POLICIES = tuple(parse_policy(name, SchedulingSettings()) for name in ("easy", "greedy"))


def case_of(jobs: Jobs) -> ReplayCase:
    span = LogSpan(int(jobs.submit_s[0]), int((jobs.submit_s + jobs.runtime_s).max()))
    prices = prices_of(span, PriceSettings(), None)
    return ReplayCase(jobs, jobs.node_power_w, ReplayMachine(NODES, 75.0), prices, carbon=None)


CASE = case_of(lublin_jobs(400, machine_size=NODES, seed=5, load=0.8))


@given(st.integers(0, 2**31), st.integers(1, 60))
def test_a_shift_delays_each_job_by_at_most_a_minute_and_loses_nothing(seed: int, count: int) -> None:
    case = case_of(lublin_jobs(count, machine_size=NODES, seed=seed))
    moved = shifted(case, np.random.default_rng(seed))
    by_id = np.argsort(moved.jobs.job_id)
    delay_s = moved.jobs.submit_s[by_id] - case.jobs.submit_s
    assert (np.diff(moved.jobs.submit_s) >= 0).all()
    assert delay_s.min() >= 0
    assert delay_s.max() <= LARGEST_SHIFT_S
    assert (moved.jobs.runtime_s[by_id] == case.jobs.runtime_s).all()
    assert (moved.node_power_w[by_id] == case.node_power_w).all()


def test_the_same_seed_gives_the_same_spread_and_another_seed_another() -> None:
    first, again, other = (replay_often(CASE, POLICIES, replays=6, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [spread.policy for spread in first] == ["easy", "greedy"]
    assert {spread.replays for spread in first} == {6}


def test_more_replays_go_on_where_fewer_stopped() -> None:
    reported: list[int] = []
    first, rest = (
        replay_each(CASE, POLICIES, some, seed=7, progress=reported.append) for some in (range(2), range(2, 5))
    )
    assert [replay_figures(each) for each in first + rest] == [
        replay_figures(each) for each in replay_each(CASE, POLICIES, range(5), seed=7)
    ]
    assert reported == [1, 2, 3, 4, 5]


def replay_figures(outcomes: tuple[PolicyOutcome, ...]) -> list[PolicyOutcome]:
    """The outcomes without the time that it took to find them."""
    return [replace(outcome, simulate_s=0.0) for outcome in outcomes]


def test_progress_tells_of_each_replay() -> None:
    reported: list[int] = []
    replay_often(CASE, POLICIES, replays=3, seed=7, progress=reported.append)
    assert reported == [1, 2, 3]


def test_drawing_the_power_anew_widens_what_the_energy_may_be() -> None:
    flat = replace(CASE, node_power_w=np.full(len(CASE.jobs), 200.0))
    _, fixed = replay_often(flat, POLICIES, replays=5, seed=1)
    draw = partial(np.random.Generator.uniform, low=100, high=300, size=len(flat.jobs))
    _, drawn = spreads_of(replay_each(flat, POLICIES, range(5), seed=1, draw_power=draw))
    assert drawn.figures["energy_kwh"].high - drawn.figures["energy_kwh"].low > 5 * (
        fixed.figures["energy_kwh"].high - fixed.figures["energy_kwh"].low
    )


def test_an_error_in_one_replay_comes_out_and_no_thread_is_left() -> None:
    def fails(_view: WindowView) -> list[int]:
        raise ValueError("own policy is broken")

    own = WindowPolicy("own", EXTERNAL, "", order=fails)
    broken = replace(POLICIES[1], window_policy=own, rules=POLICIES[1].rules._replace(policy=EXTERNAL))
    before = threading.active_count()
    with pytest.raises(OffpeakError, match="ValueError: own policy is broken"):
        replay_often(CASE, (broken,), replays=50, seed=1)
    assert threading.active_count() == before
