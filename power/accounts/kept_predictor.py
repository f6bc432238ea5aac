"""A predictor of jobs whose knowledge outlives a restart, in a file of its own, and stays within a bound."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from offpeak.errors import BadInput, CannotWrite
from offpeak.model.jobs import Jobs
from predictors.model_file import ModelOrigin, load_model, save_model
from predictors.port import Prediction, Predictor

KEEP_EVERY_S = 900.0
MOST_BYTES = 64_000_000
"""Of knowledge: some hundred thousand kinds of jobs. What has more begins anew when it is kept."""

NOTHING_LEARNED = ModelOrigin(0, 0, 0, math.nan)
"""How wrong a predictor is, is graded elsewhere."""


class KeptPredictor:
    """What `make` makes, going on from the file at `path` if there is one; `trouble` says why that is of no use."""

    def __init__(self, make: Callable[[], Predictor[Jobs, Jobs]], path: Path | None) -> None:
        self.trouble = ""
        self._make, self._path, self._kept_s = make, path, time.monotonic()
        self._predictor, self._origin = make(), NOTHING_LEARNED
        if path is not None and path.exists():
            self._take_over(path)

    def learn(self, ended: Jobs, at_s: int) -> None:
        """Take in jobs that ended, one after the other; a second before the last one learned counts as that.

        Each quarter of an hour that is written too: for a thread.
        """
        at_s = max(at_s, self._origin.last_s)
        self._predictor.learn(ended, at_s)
        first_s = self._origin.first_s or at_s
        self._origin = replace(self._origin, outcomes=self._origin.outcomes + len(ended), first_s=first_s, last_s=at_s)

        if time.monotonic() - self._kept_s >= KEEP_EVERY_S:
            self._try_to_keep()

    def predict(self, jobs: Jobs, at_s: int) -> Prediction:
        """Return what is expected of jobs that have not ended."""
        return self._predictor.predict(jobs, max(at_s, self._origin.last_s))

    def keep(self) -> None:
        """Write what was learned, on the disk when this returns: for a thread. CannotWrite if that fails."""
        if sum(array.nbytes for array in self._predictor.state().values()) > MOST_BYTES:
            self._begin()
        self._kept_s = time.monotonic()
        if self._path is not None:
            save_model(self._path, self._predictor, self._origin)
            self.trouble = ""

    def _try_to_keep(self) -> None:
        try:
            self.keep()
        except CannotWrite as problem:
            self.trouble = f"{problem}; {problem.hint}"

    def _begin(self) -> None:
        self._predictor, self._origin = self._make(), NOTHING_LEARNED

    def _take_over(self, path: Path) -> None:
        try:
            self._origin = load_model(path, self._predictor)
        except BadInput as problem:
            self.trouble = f"{problem}; it begins anew"
            self._begin()
