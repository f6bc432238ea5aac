"""What an experiment comes to; lists are by site or by class, and keep what figures need."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Result:
    """Over the jobs that count: means, sums of cost [USD], and by class their number, response [min] and cost.

    `cost_by_power` has the cost if jobs drew 60 to 100, 60 to 140 and 100 to 140 % of what Linpack does. `fairness` is
    by home, of brokered and of local jobs apart. `load_h` and `power_w` are by site and hour of the first hours.
    """

    response_min: float
    wait_min: float
    bounded_slowdown: float
    runtime_min: float
    cost_usd: float
    cost_by_power: tuple[float, ...]
    wait_error_min: float
    jobs: tuple[int, ...]
    utilization: tuple[float, ...]
    fairness: tuple[float | None, ...]
    fairness_local: tuple[float | None, ...]
    by_error_jobs: tuple[float, ...]
    by_error_min: tuple[float, ...]
    by_size_jobs: tuple[float, ...]
    by_size_min: tuple[float, ...]
    by_size_usd: tuple[float, ...]
    load_h: tuple[tuple[float, ...], ...]
    power_w: tuple[tuple[float, ...], ...]


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; TypeError or KeyError if it is none."""
    return Result(**{each.name: _tuples(told[each.name]) for each in fields(Result)})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value
