"""What a replay came to under each policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim_backend.outcome import saving_pct


@dataclass(frozen=True)
class PolicyResult:
    """`cost` is that of the machine, `job_cost` that of its jobs; the mean slowdown is 1 + wait / max(10 s, run)."""

    policy: str
    jobs: int
    job_cost: float
    cost: float
    mean_wait_s: float
    slowdown: float


@dataclass(frozen=True)
class Result:
    """A replay under all policies of its setup, nodes that are always on first."""

    policies: tuple[PolicyResult, ...]

    def of(self, policy: str) -> PolicyResult:
        """Return the result of one policy."""
        return next(each for each in self.policies if each.policy == policy)

    def job_saved_pct(self, policy: str) -> float:
        """Return what a policy saves of the cost of the jobs' energy, which moving them in time alone can do."""
        return saving_pct(self.of(policy).job_cost, self.policies[0].job_cost)

    def saved_pct(self, policy: str) -> float:
        """Return what it saves of the machine's cost, sleeping nodes included."""
        return saving_pct(self.of(policy).cost, self.policies[0].cost)

    def longer_h(self, policy: str) -> float:
        """Return by how many hours it lengthens the mean wait."""
        return (self.of(policy).mean_wait_s - self.policies[0].mean_wait_s) / 3600

    def longer_pct(self, policy: str) -> float:
        """Return by how many per cent it lengthens the mean wait."""
        return -saving_pct(self.of(policy).mean_wait_s, self.policies[0].mean_wait_s)


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    return Result(tuple(PolicyResult(**each) for each in told["policies"]))
