"""What a replay came to under a policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Bound = tuple[float | None, ...]
"""The fewest cycles a node and day that save 0, 1, ... 99 % of the idle energy, None for more than can be saved."""


@dataclass(frozen=True)
class Result:
    """Figures of one replay; `slowdown` is the mean of 1 + wait / max(10 s, run).

    `saved_pct` is the share of the idle nodes' energy that sleep saved, `delay_s` the mean over all jobs of how long
    nothing but sleeping nodes kept them from running, `cycles` a node's and day's. `bound` is for the schedule of nodes
    that are always on, and empty under other policies.
    """

    saved_pct: float
    delay_s: float
    delayed_pct: float
    cycles: float
    wait_s: float
    slowdown: float
    bound: Bound = ()


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    return Result(**(dict(told) | {"bound": tuple(told["bound"])}))
