"""When a feed is asked next."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series
from predictors.feeds.markets import (
    FIRST_RETRY_S,
    JITTER_S,
    LONGEST_RETRY_S,
    PollResult,
    Publication,
    day_ahead_window,
    next_poll_s,
    poll_result,
)
from predictors.feeds.port import FeedCondition, FeedProblem, KnownSeries, Window

BRUSSELS = ZoneInfo("Europe/Brussels")
AUCTION = Publication((12 * 3600 + 45 * 60,), BRUSSELS)
HOURLY = Publication(tuple(range(0, DAY_S, 3600)), BRUSSELS)
seconds = st.integers(1_600_000_000, 1_900_000_000)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BRUSSELS).timestamp())


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2024-11-04T09:00", "2024-11-04T12:45"),
        ("2024-11-04T12:45", "2024-11-05T12:45"),
        ("2024-03-31T01:00", "2024-03-31T12:45"),
        ("2024-10-26T23:00", "2024-10-27T12:45"),
    ],
)
def test_the_next_publication(now, due):
    assert AUCTION.next_after(at(now)) == at(due)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2024-11-04T12:44:59", "2024-11-05"),
        ("2024-11-04T12:45", "2024-11-06"),
        ("2024-03-31T04:00", "2024-04-01"),
        ("2024-10-27T12:45", "2024-10-29"),
    ],
)
def test_what_an_auction_has_published(now, until):
    assert day_ahead_window(at(now), AUCTION) == Window(at(now[:10]), at(until))


@given(seconds)
def test_the_window_holds_now_and_ends_at_a_midnight(now_s):
    window = day_ahead_window(now_s, AUCTION)
    assert window.from_s <= now_s < window.until_s
    assert window.until_s - window.from_s in {h * 3600 for h in (23, 24, 25, 47, 48, 49)}


def test_all_that_was_wanted_came_so_the_next_publication_is_waited_for():
    now_s = at("2024-11-04T13:00")
    due_s = [next_poll_s(PollResult(now_s, complete=True), AUCTION, seed=seed) for seed in range(50)]
    assert min(due_s) >= at("2024-11-05T12:45")
    assert max(due_s) < at("2024-11-05T12:45") + JITTER_S
    assert len(set(due_s)) > 30


def test_failures_are_queried_ever_rarer():
    now_s = at("2024-11-04T13:00")
    waits = [next_poll_s(PollResult(now_s, False, n), AUCTION, seed=1) - now_s for n in range(1, 30)]
    assert FIRST_RETRY_S <= waits[0] < 1.25 * FIRST_RETRY_S
    assert waits[1] > 1.5 * waits[0]
    assert all(LONGEST_RETRY_S <= wait < 1.25 * LONGEST_RETRY_S for wait in waits[4:])


def test_a_failure_does_not_sleep_through_the_publication():
    now_s = at("2024-11-04T12:40")
    assert next_poll_s(PollResult(now_s, False, 9), AUCTION, seed=1) < at("2024-11-04T12:45") + JITTER_S


@given(seconds, st.booleans(), st.integers(1, 10**6), st.integers(0, 10**5), st.integers(), st.booleans())
def test_always_later_and_never_sooner_than_the_service_allows(now_s, complete, failures, retry_s, seed, hourly):
    last = PollResult(now_s, complete, failures, retry_s)
    due_s = next_poll_s(last, HOURLY if hourly else AUCTION, seed=seed)
    assert due_s > now_s
    assert due_s >= now_s + retry_s
    assert due_s <= now_s + max(retry_s, 25 * 3600 + JITTER_S)
    assert due_s == next_poll_s(last, HOURLY if hourly else AUCTION, seed=seed)


def test_how_a_poll_went():
    window = Window(0, 7200)
    series = Series(np.array([0, 3600]), 7200, np.array([1.0, 2.0]), "EUR/MWh", "test")
    failed = KnownSeries(
        problems=(FeedProblem(FeedCondition.TOO_MANY, "test", "", 600), FeedProblem(FeedCondition.REFUSED, "test", ""))
    )
    first = poll_result(failed, window, 10)
    assert first == PollResult(10, complete=False, failures=1, retry_after_s=600)
    assert poll_result(KnownSeries(series, fresh=False), window, 20, first).failures == 2
    assert poll_result(KnownSeries(series, fresh=True), Window(0, 9999), 20, first).failures == 2
    assert poll_result(KnownSeries(series, fresh=True), window, 30, first) == PollResult(30, complete=True)
