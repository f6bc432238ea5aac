"""The names of jobs that are called otherwise than by their number, such as "12_4": many where arrays are usual."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from offpeak.model.arrays import Int64


@dataclass(frozen=True, eq=False)
class JobNames(Mapping[int, str]):
    """The name of each number; a dict of a million would take a quarter of a gigabyte. `number` is sorted."""

    number: Int64
    name: pa.StringArray

    def __getitem__(self, number: int) -> str:
        place = int(np.searchsorted(self.number, number))
        if place == len(self.number) or self.number[place] != number:
            raise KeyError(number)
        return str(self.name[place])

    def __iter__(self) -> Iterator[int]:
        return iter(self.number.tolist())

    def __len__(self) -> int:
        return len(self.number)


def job_names(number: Int64, name: pa.Array) -> JobNames:
    """Return the names by number; of one number's names the last."""
    order = np.argsort(number, kind="stable")
    is_last = np.diff(number[order], append=-1) != 0
    return JobNames(number[order][is_last], name.take(pa.array(order[is_last])))
