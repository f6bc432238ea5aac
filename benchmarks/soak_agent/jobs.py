"""The jobs that come while the agent is killed: of all widths and lengths, hot and cool, some that may wait."""

import random
import time
from dataclasses import dataclass, field
from typing import Any

NAMES = ("hot", "cool")
USER_HINTS = ("", "", "offpeak:delay=40s", "offpeak:delay=2min", "offpeak:now")
BURST, PAUSE_S, LONGEST_S = (3, 8), (2.0, 9.0), 1.5
MOST_WAITING = 15


@dataclass
class JobStream:
    """Submits bursts. `jobs` are those that Slurm has taken."""

    cluster: Any
    nodes: int
    chance: random.Random
    jobs: list[str] = field(default_factory=list)
    _submitted_s: float = 0.0
    _next_s: float = 0.0

    def go_on(self) -> None:
        """Submit what is due."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self.chance.uniform(*PAUSE_S)
        if len(self.jobs) - len(self.cluster.jobs.started()) < MOST_WAITING:
            for _ in range(self.chance.randint(*BURST)):
                self._submit()

    def submit_wide(self) -> None:
        """Submit one that needs all nodes."""
        self._take(self.cluster.jobs.submit(seconds=0.5, nodes=self.nodes))

    def quiet_since_s(self) -> float:
        """Return since when no job has come, started or ended (Unix seconds), the present if one runs."""
        if self.cluster.run("squeue", "--noheader", "--states=R,CF,CG"):
            return time.time()
        latest_s: float = max((each.at_s for each in self.cluster.jobs.trace()), default=0.0)
        return max(self._submitted_s, latest_s)

    def _submit(self) -> None:
        options = [f"--job-name={self.chance.choice(NAMES)}"]
        if user_hint := self.chance.choice(USER_HINTS):
            options.append(f"--comment={user_hint}")
        # Many narrow ones, a few that need all nodes.
        width = min(self.nodes, int(self.chance.paretovariate(1.0)))
        self._take(self.cluster.jobs.submit(*options, seconds=self.chance.uniform(0.1, LONGEST_S), nodes=width))

    def _take(self, jobs: list[str]) -> None:
        self.jobs += jobs
        self._submitted_s = time.time()
