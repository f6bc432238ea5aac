"""Waiting rows stay within their bound, and the most valuable ones are dropped last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ledger.backlog import Backlog, RowKind
from offpeak.ledger.rows import MemoryRecord

pytestmark = pytest.mark.quick

ROWS = [kind for kind in RowKind if kind is not RowKind.MEMORY]
"""A remembered state is not dropped but replaced."""

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ROWS), st.integers(1, 9)),
        st.tuples(st.sampled_from(["take and fail", "take and write"]), st.integers(1, 5)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 20))
def test_never_more_than_the_bound_and_every_row_is_accounted_for(steps: list[tuple[object, int]], most: int) -> None:
    backlog = Backlog(most)
    added = written = 0
    for step, count in steps:
        if isinstance(step, RowKind):
            backlog.add(step, range(added, added + count))
            added += count
        elif taken := backlog.take(count):
            if step == "take and fail":
                backlog.put_back(*taken)
            else:
                backlog.written(taken[1])
                written += len(taken[1])
        assert len(backlog) <= most
        assert len(backlog) + written + backlog.dropped.total() == added


@given(st.lists(st.tuples(st.sampled_from(ROWS), st.integers(1, 9)), max_size=20), st.integers(1, 20))
def test_least_valuable_rows_are_dropped_first(adds: list[tuple[RowKind, int]], most: int) -> None:
    backlog = Backlog(most)
    for kind, count in adds:
        before = backlog.dropped.copy()
        backlog.add(kind, [kind] * count)
        dropped = [row_kind for row_kind in RowKind if backlog.dropped[row_kind] > before[row_kind]]
        waiting = []
        while taken := backlog.take(1):
            waiting.append(taken)
        for each in reversed(waiting):
            backlog.put_back(*each)
        assert not dropped or not waiting or min(each[0] for each in waiting) >= max(dropped)


def test_what_is_remembered_is_never_ahead_of_the_rows_it_tells_of_and_the_last_of_a_name_stays() -> None:
    backlog = Backlog(9)
    first, second, other = (
        MemoryRecord("jobs", "1", 1.0),
        MemoryRecord("jobs", "2", 2.0),
        MemoryRecord("lives", "3", 3.0),
    )
    backlog.add(RowKind.MEMORY, [first])
    taken = backlog.take(9)
    backlog.add(RowKind.MEMORY, [second, other])
    backlog.add(RowKind.JOBS, ["job"])
    assert taken
    backlog.put_back(*taken)
    assert backlog.take(9) == (RowKind.JOBS, ["job"])
    assert backlog.take(9) == (RowKind.MEMORY, [second, other])


def test_the_oldest_goes_first_and_order_is_kept() -> None:
    backlog = Backlog(4)
    backlog.add(RowKind.READINGS, "abc")
    backlog.add(RowKind.OUTCOMES, "XY")
    assert backlog.dropped == {RowKind.READINGS: 1}
    assert backlog.take(9) == (RowKind.OUTCOMES, ["X", "Y"])
    taken = backlog.take(1)
    assert taken == (RowKind.READINGS, ["b"])
    backlog.put_back(*taken)
    assert backlog.take(9) == (RowKind.READINGS, ["b", "c"])
    assert backlog.take(9) is None
