"""Names as numbers, the same ones in each block of a log."""

import numpy as np
import pyarrow as pa

from offpeak.model.arrays import Int64
from sim_backend.traces.records import Coded


class Codes:
    """Gives each name a code, in the order of appearance, and `unknown`, where that is no name, -1."""

    def __init__(self, unknown: bytes | None = None) -> None:
        self._unknown = unknown
        self._codes: dict[bytes, int] = {}

    def of_name(self, name: bytes) -> int:
        """Return the code of a name."""
        return -1 if name == self._unknown else self._codes.setdefault(name, len(self._codes))

    def of(self, column: pa.ChunkedArray) -> Int64:
        """Return the codes of a column of names, each chunk of which has a dictionary."""
        parts = [np.empty(0, np.int64)]
        for chunk in column.chunks:
            of_index = np.array([self.of_name(name) for name in chunk.dictionary.to_pylist()], np.int64)
            parts.append(of_index[chunk.indices.to_numpy()] if len(chunk) else parts[0])
        return np.concatenate(parts)

    @property
    def names(self) -> tuple[bytes, ...]:
        """The names in the order of their codes."""
        return tuple(self._codes)

    def coded(self, code: Int64) -> Coded:
        """Return a column of these codes with its names."""
        return Coded(code, tuple(name.decode(errors="replace") for name in self._codes))

    def renumbered(self, code: Int64) -> Coded:
        """Return a column of some of these codes, which become the numbers of those names alone that are in it."""
        borne = np.zeros(len(self._codes) + 1, bool)
        borne[code] = True
        borne[-1] = False
        number = np.where(borne, np.cumsum(borne) - 1, -1)
        names = tuple(
            name.decode(errors="replace") for name, is_borne in zip(self._codes, borne, strict=False) if is_borne
        )
        return Coded(number[code], names)
