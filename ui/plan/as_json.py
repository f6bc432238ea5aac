"""The plan as JSON."""

from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

from plugin.day_plan.day_plan import DayPlan, PlannedJob


def plan_json(plan: DayPlan, zone: tzinfo) -> dict[str, Any]:
    """Return objects, lists, numbers and texts; times twice: Unix seconds, and on the clock of the zone."""
    course = plan.course
    return {
        "at_s": plan.at_s,
        "until_s": plan.until_s,
        "currency": plan.currency,
        "cost": course.cost(),
        "jobs": [_job(job, zone) for job in plan.jobs],
        "running": [asdict(load) for load in plan.loads],
        "left_out": dict(plan.left_out),
        "caps": [asdict(cap) for cap in plan.caps],
        "course": [
            {
                "from_s": int(from_s),
                "price_per_kwh": float(price),
                "temperature_c": float(at_c),
                "power_w": float(watts),
            }
            for from_s, price, at_c, watts in zip(
                course.edge_s[:-1], course.price_per_kwh, course.temperature_c, course.power_w, strict=True
            )
        ],
        "remarks": list(plan.remarks),
        "violations": list(plan.violations),
    }


def _job(job: PlannedJob, zone: tzinfo) -> dict[str, Any]:
    start = None if job.start_s is None else datetime.fromtimestamp(job.start_s, zone).isoformat()
    return {**asdict(job), "start": start}
