"""How soon idle nodes are needed: what is learned from a cluster's demand."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_need import PlainNeed

from offpeak.compiled import kernel
from offpeak.plugin.capacity import sleepers as need
from offpeak.plugin.capacity.sleepers import FIRST_IDLE_S, FIRST_NEEDS, HOURS, NARROW, STEP_S, NeedRecord, new_record

NODES = 20
A_DAY = 86_400 // STEP_S
demands = st.lists(st.integers(0, NODES), min_size=1, max_size=60)


@kernel
def see(record: NeedRecord, now_s: int, needed: int) -> None:
    need.observe_need(record, now_s, needed)


@kernel
def last_rank(record: NeedRecord, needs_per_s: float) -> int:
    return need.last_rank(record, needs_per_s)


def plain(demand) -> PlainNeed:
    return PlainNeed(NODES, [(step * STEP_S, needed) for step, needed in enumerate(demand)])


def seen(demand) -> NeedRecord:
    """Return the record of a cluster whose jobs needed so many nodes, step by step from midnight."""
    record = new_record(NODES)
    for step, needed in enumerate(demand):
        see(record, step * STEP_S, needed)
    return record


@given(demands, st.floats(1e-6, 1e-2))
def test_expected_need_equals_that_of_the_plain_record(demand, needs_per_s):
    assume(not np.isclose(plain(demand).rates(), needs_per_s, rtol=1e-9).any())
    assert last_rank(seen(demand), needs_per_s) == plain(demand).last_rank(needs_per_s)


@settings(deadline=None)
@given(demands)
def test_the_record_counts_each_level_up_to_its_need_or_the_horizon(demand):
    rows = plain(demand).observed()
    record = seen(demand)
    assert record.idle_s[:HOURS].sum() == record.idle_s[HOURS].sum() == sum(row[3] for row in rows)
    assert record.needs[:HOURS].sum() == pytest.approx(sum(row[2] for row in rows))
    assert record.needs[:HOURS].sum(axis=0) == pytest.approx(record.needs[HOURS])


def test_unseen_need_equals_the_first_guess():
    guess = FIRST_NEEDS / FIRST_IDLE_S
    assert last_rank(seen([4]), guess * 0.999) == NODES - 4
    assert last_rank(seen([4]), guess * 1.001) == 0


def test_mornings_that_are_busy_are_expected_to_be():
    """Each day at 8 three nodes more are needed for an hour: an hour before that they are expected, at night not."""
    day = np.full(A_DAY, 2)
    day[8 * A_DAY // HOURS : 9 * A_DAY // HOURS] = 5
    month = np.tile(day, 30)
    before = seen([*month, *day[: 7 * A_DAY // HOURS + 6]])
    evening = seen([*month, *day[: 20 * A_DAY // HOURS]])
    often = next(rate for rate in np.geomspace(1e-1, 1e-9, 400) if last_rank(before, rate) > 0)
    assert last_rank(before, often / 1.5) == 3
    assert last_rank(evening, often / 2) == 0


def test_a_node_that_has_been_idle_for_long_is_needed_less():
    """Jobs come in bursts, as they do."""
    bursts = ([8, 0] * 20 + [0] * 200) * 10
    short, long = (seen([*bursts, 8, *[0] * steps]) for steps in (1, 50))
    highest = next(rate for rate in np.geomspace(1e-1, 1e-9, 400) if last_rank(long, rate) >= 8)
    assert last_rank(short, highest * 1.2) >= 8


def test_a_narrow_jobs_need_counts_more():
    narrow, wide = (seen([0] * 5 + [width] + [0] * 30).needs[HOURS] for width in (1, 10))
    assert narrow.sum() == pytest.approx(5 * (1 + NARROW))
    assert wide.sum() == pytest.approx(5 * 10 * (1 + NARROW / 10))


def test_a_quiet_cluster_keeps_nothing_awake():
    assert last_rank(seen([4] * 3000), 1 / 3600) == 0


def test_constant_need_is_expected():
    """Every half hour one job of four nodes."""
    assert last_rank(seen(([4] + [0] * 5) * 400), 3 / 3600) == 4
