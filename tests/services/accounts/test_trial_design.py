"""The drawn days of a trial: balance, the site's clock, and reproduction from the seed."""

from collections import Counter
from datetime import UTC, date, datetime, tzinfo
from hashlib import sha256
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ledger.rows import TrialBlock
from offpeak.services.accounts.account_of_savings import ORDER
from offpeak.services.accounts.trials import LEVERS, draw_blocks, find_blocks
from offpeak.settings.agent import AgentSettings

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
LEAP = date(2026, 3, 16)
"""A Monday, two weeks before the clocks go forward."""


def draw(seed: str, lever: str, days: int, block: str = "day", zone: tzinfo = BERLIN) -> tuple[TrialBlock, ...]:
    settings = AgentSettings(trial="t", trial_lever=lever, trial_days=days, trial_block=block)
    return draw_blocks(settings, seed, first=LEAP, zone=zone, drawn_unix_s=1.0)


@given(st.text(min_size=1, max_size=20), st.sampled_from(("day", "half-day")), st.sampled_from((14, 28, 56)))
def test_each_weekday_and_half_is_on_in_one_of_two_weeks(seed: str, block: str, days: int) -> None:
    blocks = draw(seed, "both", days, block)
    for lever in LEVERS:
        own = [each for each in blocks if each.lever == lever]
        assert len(own) == days * (2 if block == "half-day" else 1)
        assert all(one.until_unix_s == other.from_unix_s for one, other in pairwise(own))
        begins = [datetime.fromtimestamp(each.from_unix_s, BERLIN) for each in own]
        on = Counter(
            ((at.date() - LEAP).days // 14, at.weekday(), at.hour)
            for at, each in zip(begins, own, strict=True)
            if each.is_on
        )
        assert set(on.values()) == {1}
        assert 2 * on.total() == len(own)


def test_days_begin_on_the_sites_clock_also_when_it_changes() -> None:
    blocks = draw("s", "sleep", 28, "half-day")
    begins = [datetime.fromtimestamp(block.from_unix_s, BERLIN) for block in blocks]
    assert {(at.hour, at.minute) for at in begins} == {(0, 0), (12, 0)}
    lengths_h = Counter((block.until_unix_s - block.from_unix_s) / 3600 for block in blocks)
    assert lengths_h == {12.0: 55, 11.0: 1}


def test_the_seed_alone_draws_the_days_as_documented() -> None:
    blocks = draw("winter 7", "both", 60)
    assert blocks == draw("winter 7", "both", 60)
    for number, block in enumerate(block for block in blocks if block.lever == ORDER):
        digest = sha256(f"winter 7/order/{number // 14}/{number % 7}/0".encode()).digest()
        assert block.is_on == (digest[-1] % 2 == 1) ^ (number % 14 >= 7)
    assert [each.is_on for each in blocks[::2]] != [each.is_on for each in blocks[1::2]]


@pytest.mark.parametrize("offset_s", [-0.5, 0.0, 86_399.5, 86_400.0])
def test_a_lever_is_off_from_the_begin_of_a_block_until_its_end(offset_s: float) -> None:
    blocks = draw("s", "sleep", 14, zone=UTC)
    off = next(each for each in blocks[1:-1] if not each.is_on)
    at_unix_s = off.from_unix_s + offset_s
    (own,) = [each for each in blocks if each.from_unix_s <= at_unix_s < each.until_unix_s]
    assert find_blocks(blocks, at_unix_s) == (own,)
    assert find_blocks(blocks, at_unix_s, is_on=False) == (() if own.is_on else (own,))
    assert find_blocks(blocks, blocks[0].from_unix_s - 1) == ()
