"""What each job will draw per node: as the site declares it, else as jobs like it did, else as such nodes do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from plugin.scheduler.job import Job
from power.accounts.declared_draws import Declared, declared_draw
from power.accounts.draw import Draw
from power.accounts.job_columns import columns
from power.accounts.job_use import Booked
from power.accounts.kept_predictor import KeptPredictor
from power.accounts.node_kinds import ASSUMED, NodeKind, draw_by_class
from power.accounts.own_error import OwnError
from predictors.job_power import KINDS, JobPowerHistory
from predictors.submitted_jobs import jobs_at_submission

FILE = "job_power.npz"
"""In the state folder."""
KNOWN = frozenset(kind.basis for kind in KINDS)


class JobPowers:
    """Learns what jobs drew that were measured; `error` [W per node] is its own. Not for two threads at once."""

    def __init__(self, declared: Sequence[Declared] = (), *, path: Path | None = None) -> None:
        self._declared = tuple(declared)
        self._history = KeptPredictor(lambda: JobPowerHistory(ASSUMED.node_w), path)
        self.error = OwnError()

    @property
    def trouble(self) -> str:
        """Why what was learned before cannot be used, "" if it can."""
        return self._history.trouble

    def learn(self, booked: Sequence[Booked], *, at_s: int) -> None:
        """Take in jobs that have ended; of those that were modelled nothing is learned."""
        measured = [(each.ended.job, each.node_w) for each in booked if each.node_w is not None]
        if measured:
            jobs, node_w = zip(*measured, strict=True)
            outcome = columns(jobs, np.array(node_w, np.float64))
            said = self._history.predict(jobs_at_submission(outcome), at_s)
            self.error.add((said.mean - outcome.node_power_w).tolist())
            self._history.learn(outcome, at_s)

    def of(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], *, at_s: int) -> dict[str, Draw]:
        """Return the draw of each job by its number; `kinds` are the nodes of each partition."""
        declared = {job.job_id: draw for job in jobs if (draw := declared_draw(job, self._declared)) is not None}
        return declared | self._learned([job for job in jobs if job.job_id not in declared], kinds, at_s)

    def keep(self) -> None:
        """Write what was learned, for the next start: it takes the disk's time, so in a thread. CannotWrite."""
        self._history.keep()

    def _learned(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], at_s: int) -> dict[str, Draw]:
        if not jobs:
            return {}
        said = self._history.predict(jobs_at_submission(columns(jobs)), at_s)
        each = zip(jobs, said.mean.tolist(), said.basis, strict=True)
        return {
            job.job_id: Draw(node_w, basis) if basis in KNOWN else draw_by_class(job, kinds)
            for job, node_w, basis in each
        }
