"""The requests of a log's jobs as classes: jobs that request the same have the same number.

A log has few distinct requests: each is parsed once, whatever the number of its jobs.
"""

from collections.abc import Callable, Sequence

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.request import Request

LARGEST_KEY = 2**62
MOST = 10**9
"""A request of more copies, cores, MiB or GPUs makes no sense."""


def request_classes(
    columns: Sequence[Int64], request_of: Callable[[tuple[int, ...]], Request | None]
) -> tuple[Int64, tuple[Request, ...]]:
    """Return the class of each row, and the requests by class; -1 if `request_of` returns None.

    `request_of` gets each distinct row once.
    """
    kind = _row_kinds(columns)
    kinds, first = np.unique(kind, return_index=True)
    numbers: dict[Request, int] = {}
    of_kind = np.full(len(kinds), -1)
    for number, row in enumerate(zip(*(column[first].tolist() for column in columns), strict=True)):
        request = request_of(row)
        if request is not None and _makes_sense(request):
            of_kind[number] = numbers.setdefault(request, len(numbers))
    return of_kind[np.searchsorted(kinds, kind)], tuple(numbers)


def _makes_sense(request: Request) -> bool:
    return bool(request.chunks) and all(
        1 <= chunk.copies <= MOST and max(chunk.cores, chunk.memory_mib, chunk.gpus) <= MOST for chunk in request.chunks
    )


def _row_kinds(columns: Sequence[Int64]) -> Int64:
    """Return one number for each row, the same for equal rows."""
    kind = np.zeros(len(columns[0]), np.int64)
    spread = 1
    for column in columns:
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        if spread * (high - low + 1) > LARGEST_KEY:
            kind = np.unique(kind, return_inverse=True)[1]
            spread = int(kind.max(initial=0)) + 1
        if spread * (high - low + 1) > LARGEST_KEY:
            values, column = np.unique(column, return_inverse=True)
            low, high = 0, len(values)
        kind = kind * (high - low + 1) + (column - low)
        spread *= high - low + 1
    return kind
