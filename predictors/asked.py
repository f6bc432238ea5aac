"""What was asked and said of jobs that have not ended: a predictor that grades itself has to remember it."""

from collections.abc import Iterable
from typing import Generic, TypeVar

MOST = 100_000
"""Jobs that were cancelled never end: beyond this many the oldest are forgotten."""

Said = TypeVar("Said")


class AskedJobs(Generic[Said]):
    """For each job that was asked about what was said the first time, until it is taken out."""

    def __init__(self) -> None:
        self._said: dict[int, Said] = {}

    def __len__(self) -> int:
        return len(self._said)

    def remember(self, job_ids: Iterable[int], said: Iterable[Said]) -> None:
        """Keep what was said of each job, unless something was said of it before."""
        for job_id, each in zip(job_ids, said, strict=True):
            self._said.setdefault(job_id, each)
        while len(self._said) > MOST:
            del self._said[next(iter(self._said))]

    def take_out(self, job_id: int) -> Said | None:
        """Return what was said of the job and forget it; None if nothing was."""
        return self._said.pop(job_id, None)
