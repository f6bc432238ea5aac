"""The types of arrays, and dataclasses with read-only arrays. Compiled kernels import it, so it rarely changes."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


class FrozenColumns:
    """A dataclass of arrays. Each array is a read-only copy of the given one."""

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]], width: int) -> Self:
        """Return the first `width` columns of the dataclass, filled with integers from rows."""
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, width).T)

    def __post_init__(self) -> None:
        for column in fields(self):  # type: ignore[arg-type]
            value = getattr(self, column.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, column.name, read_only(value))


def read_only(column: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written to."""
    copy = column.copy()
    copy.flags.writeable = False
    return copy
