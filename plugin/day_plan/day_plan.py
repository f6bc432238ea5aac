"""The plan of the live queue as values: planned starts, power over time, omitted jobs, and its JSON form.

The agent sends the plan as JSON to its clients. `planned_of` and `constraints_of` pass it to the queue hook.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import PowerCap
from offpeak.plugin.planner.dispatch import Dispatch
from offpeak.plugin.queue_hook.facts import PlannedStarts, StartConstraint


@dataclass(frozen=True)
class Load:
    """A job that has its nodes, to `until_s` [Unix s] as expected; `power_w` is that of the whole job."""

    job_id: str
    user: str
    hosts: tuple[str, ...]
    until_s: int
    power_w: float


@dataclass(frozen=True)
class PlannedJob:
    """A job that waits. `start_s` is None if it finds no place before the plan ends; times are Unix seconds.

    `run_s` lasts to the end of the last task of an array of which only so many tasks may run at once. `hosts` are
    suitable nodes; the scheduler may choose others. The job must not start before `begin_s`, 0 for any time, for the
    reason `why`. `latest_start_s` is the start promised to its owner; `opted_out`: the hint offpeak:now forbids delays.
    """

    job_id: str
    user: str
    partitions: tuple[str, ...]
    nodes: int
    start_s: int | None
    run_s: int
    power_w: float
    hosts: tuple[str, ...] = ()
    begin_s: int = 0
    why: str = ""
    latest_start_s: int | None = None
    waits_for_price: bool = False
    opted_out: bool = False


@dataclass(frozen=True)
class StartChange:
    """A job whose start differs from the previous plan; None for a job without a start."""

    job_id: str
    from_s: int | None
    to_s: int | None
    why: str


@dataclass(frozen=True, eq=False)
class PowerProfile:
    """What holds from `edge_s[i]` to `edge_s[i + 1]` [Unix s]; power is that of jobs and of nodes idle now."""

    edge_s: Int64
    price_per_kwh: Float64
    temperature_c: Float64
    power_w: Float64
    pue: Float64

    @property
    def steps_w(self) -> tuple[tuple[int, float], ...]:
        """From when the power is how much."""
        return tuple(zip(self.edge_s[:-1].tolist(), self.power_w.round().tolist(), strict=True))

    def cost(self) -> float:
        """Return the cost of energy and cooling, in the prices' currency."""
        hours = (self.edge_s[1:] - self.edge_s[:-1]) / HOUR_S
        return float((self.power_w / 1000 * self.pue * hours * self.price_per_kwh).sum())


@dataclass(frozen=True, eq=False)
class DeviceSchedule:
    """What PV and battery do from `edge_s[i]` to `edge_s[i + 1]` [Unix s], and the bill with them."""

    edge_s: Int64
    load_kw: Float64
    pv_kw: Float64
    dispatch: Dispatch
    cost: float


@dataclass(frozen=True, eq=False)
class DayPlan:
    """The plan made at `at_s`; nothing is planned from `until_s` on.

    `left_out` has the reason for each waiting job that is not in the plan; `not_held` are jobs whose owners allow a
    delay, but which gain nothing by it. `remarks` are sentences for the operator. `devices` is for commands only: the
    agent plans without PV and battery.
    """

    at_s: int
    until_s: int
    currency: str
    jobs: tuple[PlannedJob, ...]
    loads: tuple[Load, ...]
    left_out: Mapping[str, str]
    power_profile: PowerProfile
    caps: tuple[PowerCap, ...] = ()
    not_held: frozenset[str] = frozenset()
    moves: tuple[StartChange, ...] = ()
    remarks: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    devices: DeviceSchedule | None = None

    @cached_property
    def by_id(self) -> Mapping[str, PlannedJob]:
        """The jobs by their numbers."""
        return {job.job_id: job for job in self.jobs}


def plan_to_json(plan: DayPlan) -> dict[str, Any]:
    """Return the plan as objects, lists, numbers and texts."""
    values = asdict(plan) | {"not_held": sorted(plan.not_held)}
    profile = values.pop("power_profile")
    return values | {"course": {name: column.tolist() for name, column in profile.items()}}


def plan_from_json(data: Any) -> DayPlan:
    """Return the plan of the output of `plan_to_json`. Raises ValueError for anything else."""
    try:
        profile = dict(data["course"])
        edge_s = np.array(profile.pop("edge_s"), np.int64)
        columns = {name: np.array(column, np.float64) for name, column in profile.items()}
        parts = {
            "power_profile": PowerProfile(edge_s, **columns),
            "jobs": tuple(PlannedJob(**_tuples(job)) for job in data["jobs"]),
            "loads": tuple(Load(**_tuples(load)) for load in data["loads"]),
            "caps": tuple(PowerCap(**cap) for cap in data["caps"]),
            "moves": tuple(StartChange(**move) for move in data["moves"]),
            "not_held": frozenset(data["not_held"]),
        }
        rest = {name: value for name, value in _tuples(data).items() if name != "course"}
        return DayPlan(**{**rest, **parts})
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError("that is not a plan") from problem


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def planned_of(plan: DayPlan) -> PlannedStarts:
    """Return the starts that the hook must carry out."""
    starts_s = {job.job_id: job.start_s for job in plan.jobs if job.start_s is not None}
    return PlannedStarts(starts_s, not_held=plan.not_held)


def constraints_of(plan: DayPlan) -> dict[str, StartConstraint]:
    """Return the begin times that caps impose, by job."""
    return {
        job.job_id: StartConstraint(job.begin_s, job.why)
        for job in plan.jobs
        if job.begin_s > plan.at_s and job.why and not job.waits_for_price
    }
