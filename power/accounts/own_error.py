"""How wrong a predictor's own answers were of late: each is compared with its outcome before that is learned."""

from collections import deque
from collections.abc import Iterable

LATE = 200
"""So many outcomes count; older ones tell of another time."""


class OwnError:
    """Keeps the errors of the latest outcomes."""

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=LATE)

    def add(self, errors: Iterable[float]) -> None:
        """Take in what answers were off by, in either direction."""
        self._errors.extend(abs(each) for each in errors)

    @property
    def outcomes(self) -> int:
        """How many are known."""
        return len(self._errors)

    @property
    def mae(self) -> float | None:
        """The mean absolute error, in the unit of the answers; None before the first outcome."""
        return sum(self._errors) / len(self._errors) if self._errors else None
