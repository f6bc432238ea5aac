"""What a replay used, in terms that any bill can be made of, and what one policy saves against another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim_backend.outcome import saving_pct
from studies.dynamic_pricing.experiment import Bill


@dataclass(frozen=True)
class Used:
    """Energy of the jobs [J] and idle unit-seconds, each on-peak and off-peak."""

    on_peak_j: float
    off_peak_j: float
    on_peak_idle_s: float
    off_peak_idle_s: float


@dataclass(frozen=True)
class PolicyResult:
    """One policy's replay. `as_run`, `at_start` and `until_last_submission` are what `Bill.metered` chooses from."""

    policy: str
    mean_wait_s: float
    utilization: float
    as_run: Used
    at_start: Used
    until_last_submission: Used


@dataclass(frozen=True)
class Result:
    """The replays of a setup's policies, the baseline first.

    `perfect` is the baseline's use as it would be if its node-hours on-peak and off-peak stayed what they are, but the
    most frugal watts of all jobs had run on-peak: no mere change of order saves more.
    """

    policies: tuple[PolicyResult, ...]
    perfect: Used


def cost(used: Used, bill: Bill) -> float:
    """Return the cost, in joules at the off-peak price."""
    on_peak_j = used.on_peak_j + bill.idle_w * used.on_peak_idle_s
    return bill.price_ratio * on_peak_j + used.off_peak_j + bill.idle_w * used.off_peak_idle_s


def saved_pct(result: Result, at: int, bill: Bill) -> float:
    """Return by how many per cent policy number `at` is cheaper than the baseline."""
    baseline, other = (getattr(result.policies[number], bill.metered) for number in (0, at))
    return saving_pct(cost(other, bill), cost(baseline, bill))


def ceiling_pct(result: Result, bill: Bill) -> float:
    """Return what the perfect order would save."""
    return saving_pct(cost(result.perfect, bill), cost(result.policies[0].as_run, bill))


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    policies = tuple(_policy(each) for each in told["policies"])
    return Result(policies, Used(**told["perfect"]))


def _policy(told: Mapping[str, Any]) -> PolicyResult:
    meters = {name: Used(**told[name]) for name in ("as_run", "at_start", "until_last_submission")}
    return PolicyResult(**(dict(told) | meters))
