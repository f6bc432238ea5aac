"""Many replays of one case: seeded, in parallel, and each lawful."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import OffpeakError
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.step_series import Series
from offpeak.plugin.window_policy import EXTERNAL, WindowPolicy, WindowView
from offpeak.prices.alignment import LogSpan, align_log
from offpeak.prices.peak import parse_peak_rule
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices, prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.replications import LARGEST_SHIFT_S, replay_each, replay_often, shifted, spreads_of
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

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
    assert first + rest == replay_each(CASE, POLICIES, range(5), seed=7)
    assert reported == [1, 2, 3, 4, 5]


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


def undated_case(carbon_from: str) -> ReplayCase:
    """The case on three years of prices, with hours that cost more in each week, and as much carbon intensity."""
    hour_s = np.arange(3 * 52 * 168) * HOUR_S + int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())
    value = 50.0 + np.arange(len(hour_s)) // 168 + 40.0 * (hour_s // HOUR_S % 24 > 11)
    series = Series(hour_s, int(hour_s[-1]) + HOUR_S, value, "EUR/MWh", "rising")
    moved_s = int(datetime.fromisoformat(carbon_from).timestamp()) - int(hour_s[0])
    carbon = replace(series, start_s=hour_s + moved_s, end_s=series.end_s + moved_s, unit="g/kWh")
    last_s = int((CASE.jobs.submit_s + CASE.jobs.runtime_s).max())
    aligned = align_log(LogSpan(int(CASE.jobs.submit_s[0]), last_s), series)
    prices = AlignedSeries(series, aligned.offset_s, UTC, (aligned.note,), weeks=aligned.weeks)
    return replace(
        CASE,
        prices=ReplayPrices(prices, parse_peak_rule("day-mean", zone=UTC)),
        carbon=AlignedSeries(carbon, aligned.offset_s, UTC, ()),
    )


def test_replays_of_a_log_without_dates_lie_on_other_weeks_the_same_for_all_policies() -> None:
    case = undated_case("2020-01-01T00:00+00:00")
    seen: list[tuple[float, ...]] = []

    def policies_at(at: ReplayCase) -> tuple[Policy, ...]:
        seen.append((at.prices.aligned.offset_s,))
        return POLICIES

    easy, greedy = replay_often(case, POLICIES, replays=12, seed=3, policies_at=policies_at)
    weeks = case.prices.aligned.weeks
    assert weeks is not None
    assert sorted(seen) == sorted((weeks.draw(number, 3),) for number in range(12))
    assert easy.alignments == greedy.alignments == len(set(seen)) == 12
    outcomes = replay_each(case, POLICIES, range(12), seed=3)
    for number, pair in enumerate(outcomes):
        moved = shifted(case.aligned(weeks.draw(number, 3)), np.random.default_rng([3, number]))
        assert pair == compare(moved, POLICIES).outcomes
    costs = [pair[0].cost for pair in outcomes]
    assert easy.figures["cost"].middle == pytest.approx(np.median(costs))
    assert easy.figures["cost"].low < np.percentile(costs, 10) < np.percentile(costs, 90) < easy.figures["cost"].high
    assert (easy, greedy) == replay_often(case, POLICIES, replays=12, seed=3)


def test_the_carbon_intensity_goes_to_the_dates_of_the_prices() -> None:
    case = undated_case("2020-01-01T00:00+00:00")
    weeks = case.prices.aligned.weeks
    assert weeks is not None
    moved = case.aligned(weeks.offsets_s[-1])
    assert isinstance(moved.carbon, AlignedSeries)
    assert moved.carbon.offset_s == moved.prices.aligned.offset_s == weeks.offsets_s[-1] != case.prices.aligned.offset_s
    other_years = undated_case("2014-01-01T00:00+00:00").aligned(weeks.offsets_s[-1])
    assert isinstance(other_years.carbon, AlignedSeries)
    behind_d = (weeks.offsets_s[-1] - other_years.carbon.offset_s) / DAY_S
    assert abs((behind_d + 182) % 365.2425 - 182) < 5, "the same season of a year that it knows"


def test_an_error_in_one_replay_comes_out_and_no_thread_is_left() -> None:
    def fails(_view: WindowView) -> list[int]:
        raise ValueError("own policy is broken")

    own = WindowPolicy("own", EXTERNAL, "", order=fails)
    broken = replace(POLICIES[1], window_policy=own, rules=POLICIES[1].rules._replace(policy=EXTERNAL))
    before = threading.active_count()
    with pytest.raises(OffpeakError, match="ValueError: own policy is broken"):
        replay_often(CASE, (broken,), replays=50, seed=1)
    assert threading.active_count() == before
