"""Columns that grow block by block while a log is read, and are then given up one by one: it is never held twice."""

from collections.abc import Mapping
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64

SEGMENT_ROWS = 1 << 16
NARROW = np.iinfo(np.int32)

Column = NDArray[Any]


class ColumnStore:
    """Columns of one length. Whole numbers take four bytes where they fit, as nearly all of a log do."""

    def __init__(self) -> None:
        self._segments: dict[str, list[_Segment]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, block: Mapping[str, Column]) -> None:
        """Add the same columns as before."""
        for name, values in block.items():
            segments = self._segments.setdefault(name, [])
            _append(segments, _narrow(values))
        self._length += len(values)

    def get(self, name: str) -> Column:
        """Return a copy of a column: int64, float64 or bool."""
        return self._joined(name, keep=True)

    def pop(self, name: str) -> Column:
        """Give up a column: what it took is free when this returns."""
        return self._joined(name, keep=False)

    def release(self, *names: str) -> None:
        """Give up columns that are not needed."""
        for name in names:
            del self._segments[name]

    def _joined(self, name: str, *, keep: bool) -> Column:
        segments = self._segments[name] if keep else self._segments.pop(name)
        if not segments:
            return np.empty(0, np.int64)
        kind = np.result_type(*(segment.values.dtype for segment in segments))
        column = np.empty(self._length, dtype=np.int64 if kind == np.int32 else kind)
        row = 0
        for place, segment in enumerate(segments):
            column[row : row + segment.length] = segment.values[: segment.length]
            row += segment.length
            if not keep:
                segments[place] = _NOTHING
        return column


class _Segment:
    """Some rows of a column, in memory that the system takes back at once: a heap full of holes keeps it."""

    def __init__(self, rows: int, kind: np.dtype[Any]) -> None:
        self.values: Column = np.frombuffer(mmap(-1, rows * kind.itemsize), kind)
        self.length = 0


_NOTHING = _Segment(1, np.dtype(np.int8))


def _append(segments: list[_Segment], values: Column) -> None:
    while len(values):
        if not segments or segments[-1].values.dtype != values.dtype or segments[-1].length == SEGMENT_ROWS:
            segments.append(_Segment(SEGMENT_ROWS, values.dtype))
        last = segments[-1]
        taken = values[: SEGMENT_ROWS - last.length]
        last.values[last.length : last.length + len(taken)] = taken
        last.length += len(taken)
        values = values[len(taken) :]


def _narrow(values: Float64 | Int64) -> Column:
    is_narrow = values.dtype == np.int64 and (
        not len(values) or NARROW.min <= values.min() <= values.max() <= NARROW.max
    )
    return values.astype(np.int32) if is_narrow else values
