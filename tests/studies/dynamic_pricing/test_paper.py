"""What the paper's figures say of themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.dynamic_pricing.plan import (
    ANL_BGP,
    POWER_RATIOS,
    PRICE_RATIOS,
    SDSC_BLUE,
    PricingPaperLog,
    implied_on_peak_share,
)


def saving(price_ratio: float, moved: float, share: float) -> float:
    """What moving a share of the energy off-peak saves of a bill with that share on-peak."""
    before = price_ratio * share + 1 - share
    after = price_ratio * (share - moved) + 1 - share + moved
    return 100 * (before - after) / before


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.9), st.sampled_from(PRICE_RATIOS[1:]))
def test_the_on_peak_share_is_found_again(share: float, moved_part: float, price_ratio: float) -> None:
    moved = moved_part * share
    times = saving(price_ratio, moved, share) / saving(PRICE_RATIOS[0], moved, share)
    assert implied_on_peak_share(price_ratio, times) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("paper", [ANL_BGP, SDSC_BLUE])
def test_the_tables_are_whole(paper: PricingPaperLog) -> None:
    assert set(paper.savings) == {(ratio, policy) for ratio in POWER_RATIOS for policy in ("greedy", "knapsack")}
    assert set(paper.frequencies) == {10, 20, 30}
