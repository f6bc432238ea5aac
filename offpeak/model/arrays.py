"""The types of arrays, and dataclasses with read-only arrays. Compiled kernels import it, so it rarely changes."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


Float64 = NDArray[np.float64]


class FrozenColumns:
    """Makes each array that a dataclass is given a read-only copy."""

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
