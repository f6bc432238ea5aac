"""Columns that are read block by block come back whole, and numbers above 32 bits are kept."""

import numpy as np

from offpeak.sim_backend.traces.records import SEGMENT_ROWS, ColumnStore


def test_columns_come_back_as_they_were_appended() -> None:
    store = ColumnStore()
    rows = np.arange(3 * SEGMENT_ROWS + 5)
    whole = {"small": rows - 7, "large": np.where(rows < SEGMENT_ROWS, rows, rows << 32), "power": rows / 7}
    for start in range(0, len(rows), 50_001):
        store.append({name: column[start : start + 50_001] for name, column in whole.items()})
    assert len(store) == len(rows)
    for name, column in whole.items():
        assert store.get(name).tolist() == column.tolist()
        given = store.pop(name)
        assert (given.tolist(), given.dtype) == (column.tolist(), column.dtype)


def test_numbers_at_the_edge_of_32_bits() -> None:
    store = ColumnStore()
    edges = np.array([-(2**31) - 1, -(2**31), 2**31 - 1, 2**31, -(2**53), 2**53])
    for edge in edges:
        store.append({"number": np.array([edge])})
    assert store.pop("number").tolist() == edges.tolist()
