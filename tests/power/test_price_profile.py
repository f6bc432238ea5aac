"""Prices ahead, and what running jobs hold of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_prices import fleet_of, prices, prices_of
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.model.node_states import ACTIVE
from offpeak.power.capacity.price_profile import find_fewest_units, find_prices_ahead, offer_everything

pytestmark = pytest.mark.quick

PRICES = st.lists(st.tuples(st.integers(1, 50), st.none() | st.integers(-50, 50)), min_size=1, max_size=12)


@given(PRICES, st.integers(-300, 600), st.integers(1, 200))
def test_each_second_ahead_has_its_price_or_the_mean_of_those_that_are_known(pieces, after_s, horizon_s):
    lengths, values = zip(*pieces, strict=True)
    at_s = NOW_S - 300 + np.cumsum([0, *lengths[:-1]])
    per_mwh = np.array([np.nan if value is None else value for value in values])
    ahead = find_prices_ahead(fleet_of(snapshot_of(node_state=[ACTIVE]), at_s, per_mwh), NOW_S + after_s, horizon_s)
    seconds = NOW_S + after_s + np.arange(horizon_s)
    which = np.searchsorted(at_s, seconds, side="right") - 1
    plain = np.where(which >= 0, per_mwh[which], np.nan)
    mean = np.nanmean(plain) if (~np.isnan(plain)).any() else 0.0
    found = [ahead.per_mwh[ahead.interval_at(second)] for second in seconds]
    assert found == pytest.approx(np.nan_to_num(plain, nan=mean).tolist())
    assert (ahead.per_mwh[1:] != ahead.per_mwh[:-1]).all()
    assert (ahead.at_s[0], ahead.until_s) == (NOW_S + after_s, NOW_S + after_s + horizon_s)


def test_dear_is_above_the_mean_by_time():
    assert prices_of((10, 50), (30, 80), (60, 90)).is_expensive.tolist() == [False, False, True]
    assert prices_of((10, 50)).is_expensive.tolist() == [False]


@given(prices())
def test_the_meter_integrates_the_prices_and_their_mean_afterwards(ahead):
    total = float(np.dot(ahead.per_mwh, np.diff(ahead.at_s, append=ahead.until_s)))
    assert ahead.meter.total[-1] == pytest.approx(total)
    assert ahead.meter.value[-1] == pytest.approx(total / (ahead.until_s - NOW_S))


@given(snapshots(), prices())
def test_the_fewest_units_are_those_of_running_jobs_in_whole_nodes(snapshot, ahead):
    fewest = find_fewest_units(snapshot, ahead)
    whole = snapshot.units_per_node
    rows = list(zip(snapshot.running.size, snapshot.running.expected_end_s, strict=True))
    for second, units in zip(ahead.at_s, fewest, strict=True):
        held = sum(size for size, end_s in rows if max(end_s, NOW_S + 1) > second)
        assert held <= units < held + whole
        assert units % whole == 0
    assert (np.diff(fewest) <= 0).all()
    assert (fewest <= offer_everything(snapshot, ahead).units).all()
