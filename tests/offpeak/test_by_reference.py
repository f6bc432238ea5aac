"""Tuples by reference, against the same tuples in Python."""

import sys
from typing import Any, NamedTuple

import numpy as np

from offpeak.compiled import apart, by_reference, in_place, kernel


class Inner(NamedTuple):
    rows: Any
    factor: float


@by_reference
class Outer(NamedTuple):
    columns: Any
    inner: Inner
    number: int
    is_added: bool
    others: Any


@apart
def add_row(outer, row):
    for column in range(len(outer.columns)):
        outer.columns[column] += outer.inner.factor * outer.inner.rows[row, column]


@in_place
def add_rows(outer, matrix):
    for row in range(outer.number):
        if outer.is_added:
            add_row(outer, row)
    for at in range(len(outer.others)):
        matrix[at] += outer.others[at]


@kernel
def sorted_sum(outer):
    found = np.sort(outer.others)
    return found[0] + outer.columns.sum() + outer.inner.rows.sum()


def example():
    table = np.arange(24.0).reshape(4, 6)
    strided = table[:, ::2]
    assert not strided.flags.contiguous
    return Outer(np.ones(3), Inner(strided, 0.5), 2, True, np.array([5, 3, 4])[::-1])


def test_kernels_read_and_write_what_python_does():
    outer, matrix = example(), np.zeros(3, dtype=np.int64)
    expected = outer.columns + 0.5 * (outer.inner.rows[0] + outer.inner.rows[1])
    add_rows(outer, matrix)
    assert outer.columns.tolist() == expected.tolist()
    assert matrix.tolist() == [4, 3, 5]
    add_rows(outer._replace(is_added=False), matrix)
    assert outer.columns.tolist() == expected.tolist()
    assert sorted_sum(outer) == 3 + expected.sum() + outer.inner.rows.sum()


def test_other_arrays_in_the_same_class_are_another_type():
    outer = example()
    narrow = outer._replace(columns=np.ones(3, dtype=np.float32), others=np.array([1, 2, 3]))
    add_rows(narrow, np.zeros(3, dtype=np.int64))
    assert narrow.columns.dtype == np.float32
    assert narrow.columns.tolist() == (1 + 0.5 * (outer.inner.rows[0] + outer.inner.rows[1])).tolist()


class Optional(NamedTuple):
    number: int
    inner: Inner | None


@in_place
def scaled(value, optional):
    if optional.inner is None:
        return value
    return value * optional.inner.factor + scaled_again(value, optional)


@apart
def scaled_again(value, optional):
    inner = optional.inner
    return value if inner is not None and inner.factor > 0 else 0.0


def test_code_for_a_member_that_is_none_is_left_out():
    for kind in (Optional, by_reference(type("ByReference", (Optional,), {}))):
        assert scaled(3.0, kind(1, None)) == 3.0
        assert scaled(3.0, kind(1, Inner(np.ones((1, 1)), 2.0))) == 9.0


def test_no_reference_is_kept():
    outer = example()
    arrays = [outer.columns, outer.inner.rows, outer.others]
    before = [sys.getrefcount(each) for each in arrays]
    for _ in range(3):
        add_rows(outer, np.zeros(3, dtype=np.int64))
        sorted_sum(outer)
    assert [sys.getrefcount(each) for each in arrays] == before
