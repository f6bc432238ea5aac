"""Rows that wait to be written, within a bound: of too many the least valuable are dropped first, and counted."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import islice
from typing import Any


class Kind(IntEnum):
    """What waits. What is lower is dropped first; what is higher is written first.

    So what is remembered is never ahead of the rows that it tells of.
    """

    READINGS = 0
    MEMORY = 1
    STATES = 2
    PRICES = 3
    JOBS = 4
    SAVINGS = 5
    DECISIONS = 6
    REFUSALS = 7
    OUTCOMES = 8


class Backlog:
    """Queues of rows, one a kind. A row in the hands of the writer counts too."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.dropped: Counter[Kind] = Counter()
        self._queues: dict[Kind, deque[Any]] = {kind: deque() for kind in Kind}
        self._taken = 0

    def __len__(self) -> int:
        return self._taken + sum(map(len, self._queues.values()))

    def add(self, kind: Kind, rows: Iterable[Any]) -> None:
        """Queue rows; drops the oldest of the lowest kinds as far as there are more than the bound."""
        self._queues[kind].extend(rows)
        self._forget_former(kind)
        self._drop()

    def take(self, most: int) -> tuple[Kind, Sequence[Any]] | None:
        """Return the oldest rows of the highest kind, which wait no longer; None if nothing waits."""
        for kind in reversed(Kind):
            queue = self._queues[kind]
            if queue:
                rows = list(islice(queue, most))
                for _ in rows:
                    queue.popleft()
                self._taken += len(rows)
                return kind, rows
        return None

    def written(self, rows: Sequence[Any]) -> None:
        """Forget rows that were taken."""
        self._taken -= len(rows)

    def put_back(self, kind: Kind, rows: Sequence[Any]) -> None:
        """Let rows that were taken wait again, before the others of their kind."""
        self._taken -= len(rows)
        self._queues[kind].extendleft(reversed(rows))
        self._forget_former(kind)
        self._drop()

    def _forget_former(self, kind: Kind) -> None:
        """Of what is remembered under one name only the last waits: there is one a cycle, and none is small."""
        if kind is Kind.MEMORY:
            self._queues[kind] = deque({row.name: row for row in self._queues[kind]}.values())

    def _drop(self) -> None:
        over = len(self) - self.most
        for kind in Kind:
            dropped = min(max(over, 0), len(self._queues[kind]))
            for _ in range(dropped):
                self._queues[kind].popleft()
            if dropped:
                self.dropped[kind] += dropped
                over -= dropped
