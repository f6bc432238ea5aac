"""A day plan as JSON and back: the agent tells it to who asks."""

from dataclasses import asdict
from typing import Any

import numpy as np

from offpeak.model.facility import PowerCap
from plugin.day_plan.day_plan import Course, DayPlan, Load, Move, PlannedJob


def told_of(plan: DayPlan) -> dict[str, Any]:
    """Return the plan as objects, lists, numbers and texts."""
    course = {name: column.tolist() for name, column in vars(plan.course).items()}
    return {**asdict(plan), "course": course, "not_held": sorted(plan.not_held)}


def plan_of(told: Any) -> DayPlan:
    """Return the plan that `told_of` was given; ValueError for anything else."""
    try:
        course = dict(told["course"])
        edge_s = np.array(course.pop("edge_s"), np.int64)
        parts = {
            "course": Course(edge_s, **{name: np.array(column, np.float64) for name, column in course.items()}),
            "jobs": tuple(PlannedJob(**_tuples(each)) for each in told["jobs"]),
            "loads": tuple(Load(**_tuples(each)) for each in told["loads"]),
            "caps": tuple(PowerCap(**each) for each in told["caps"]),
            "moves": tuple(Move(**each) for each in told["moves"]),
            "not_held": frozenset(told["not_held"]),
        }
        return DayPlan(**{**_tuples(told), **parts})
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError("that is no plan") from problem


def _tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
