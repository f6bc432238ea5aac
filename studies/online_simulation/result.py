"""What a replay came to: the paper's measures over all of it, and week by week."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ByWeek = tuple[float | None, ...]
"""A figure of each week from the first submission on; None for a week without any."""


@dataclass(frozen=True)
class Weekly:
    """By week of their end the jobs' mean slowdown and the share of them above the SLA; utilization of the active
    processors; and how many were active on average.
    """

    slowdown: ByWeek
    violations: ByWeek
    utilization: ByWeek
    active: ByWeek


@dataclass(frozen=True)
class Result:
    """Measures of a replay from the first submission to the last end; shares from 0 to 1.

    `slowdown` is the jobs' mean of 1 + wait / max(10 s, run), `violations` the share of jobs above the SLA,
    `utilization` that of active processors, `inactive` the share of processor time that was not active, `cycles` how
    often a node fell asleep, per node and year, and `idle_saved` the share of the idle processors' energy that sleep
    saved.
    """

    slowdown: float
    violations: float
    utilization: float
    inactive: float
    cycles: float
    idle_saved: float
    weekly: Weekly


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    weekly = Weekly(**{name: tuple(values) for name, values in told["weekly"].items()})
    return Result(**(dict(told) | {"weekly": weekly}))
