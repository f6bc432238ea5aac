"""The plan on a terminal, one job per line in the order of starts, then its cost and the omitted jobs; and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, tzinfo
from typing import Any

import numpy as np
import typer

from offpeak.display import energy_text, money_text, power_text
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import PowerCap
from offpeak.text import counted, printable
from plugin.day_plan.day_plan import DayPlan, DeviceSchedule, PlannedJob
from plugin.planner.dispatch import NOTHING_KW
from ui.agent.answer import LocalClock
from ui.terminal import print_table, text_table

HEADERS = ("job", "user", "partition", "nodes", "power", "starts", "ends", "latest", "why not before")
RIGHT = ("nodes", "power", "starts", "ends", "latest")


def print_plan(plan: DayPlan, zone: tzinfo, *, day: str | None, problems: Sequence[str]) -> None:
    """Print the plan; `day` is today, tomorrow, or None for the whole plan."""
    clock = LocalClock(float(plan.at_s), zone)
    jobs = jobs_of(plan, zone, day)
    if jobs:
        texts = [at for at, header in enumerate(HEADERS) if header not in RIGHT]
        print_table(text_table(HEADERS, (job_cells(job, clock) for job in jobs), texts=texts))
    else:
        typer.echo(f"no job is to start {day}" if day else "no job waits that can be planned")
    typer.echo("")
    for name, text in sums(plan, clock):
        typer.echo(f"{name:<7}{text}")
    for sentence in (*plan.remarks, *plan.violations, *problems):
        typer.echo(f"- {printable(sentence)}")


def jobs_of(plan: DayPlan, zone: tzinfo, day: str | None) -> list[PlannedJob]:
    """Return the jobs that start on that day, in order of their starts; for all days, then the jobs without a start."""
    started = sorted((job for job in plan.jobs if job.start_s is not None), key=lambda job: job.start_s or 0)
    if day is None:
        return [*started, *(job for job in plan.jobs if job.start_s is None)]
    date = datetime.fromtimestamp(plan.at_s, zone).date() + timedelta(days=day == "tomorrow")
    return [job for job in started if datetime.fromtimestamp(job.start_s or 0, zone).date() == date]


def job_cells(job: PlannedJob, clock: LocalClock) -> tuple[str, ...]:
    """Return the cells of a job below HEADERS."""
    times = (job.start_s, None if job.start_s is None else job.start_s + job.run_s, job.latest_start_s)
    names = (job.job_id, job.user, ",".join(job.partitions), str(job.nodes))
    return (*names, power_text(job.power_w), *(clock.text(at_s) if at_s else "" for at_s in times), job.why)


def sums(plan: DayPlan, clock: LocalClock) -> list[tuple[str, str]]:
    """Return the totals of the plan: name and text of each."""
    profile, placed = plan.power_profile, sum(job.start_s is not None for job in plan.jobs)
    counts = f"{counted(placed, 'job')} to start, {len(plan.loads)} running, {len(plan.left_out)} left as they are"
    ahead = f"{(plan.until_s - plan.at_s) / HOUR_S:.0f} h ahead, to {clock.text(plan.until_s)}"
    power = f"{power_text(float(profile.power_w[0]))} now, {power_text(float(profile.power_w.max()))} at most"
    cost = f"{money_text(profile.cost(), plan.currency)} for energy and cooling, PUE {float(profile.pue[0]):.2f} now"
    found = [("plan", f"{counts}; {ahead}"), ("power", power), ("cost", cost)]
    if plan.devices is not None:
        found += [("energy", _battery_text(plan.devices, clock))]
        found += [("bill", f"{money_text(plan.devices.cost, plan.currency)} with PV and battery instead of that cost")]
    return [*found, *(_cap(cap, clock) for cap in plan.caps)]


def _battery_text(schedule: DeviceSchedule, clock: LocalClock) -> str:
    """Return when the battery charges and discharges, and what becomes of PV."""
    dispatch, hours = schedule.dispatch, np.diff(schedule.edge_s) / HOUR_S
    texts = []
    for verb, power_kw in (("charges", dispatch.charge_kw), ("discharges", dispatch.discharge_kw)):
        change = np.diff(power_kw > NOTHING_KW, prepend=False, append=False)
        for first, last in np.flatnonzero(change).reshape(-1, 2).tolist():
            energy = energy_text(float(power_kw[first:last] @ hours[first:last]), 0)
            times = (clock.text(int(schedule.edge_s[at])) for at in (first, last))
            texts.append((first, f"{verb} {energy} from {' to '.join(times)}"))
    battery = ", ".join(text for _, text in sorted(texts)) or "holds"
    pv, lost = (energy_text(float(power @ hours), 0) for power in (schedule.pv_kw, dispatch.curtailed_kw))
    return f"the battery {battery}; PV {pv}, of which {lost} are curtailed"


def _cap(cap: PowerCap, clock: LocalClock) -> tuple[str, str]:
    begin, end = clock.text(cap.from_s), clock.text(cap.until_s)
    return "cap", printable(f"{power_text(cap.cap_w)} from {begin} to {end}: {cap.reason} ({cap.source})")


def plan_json(plan: DayPlan, zone: tzinfo) -> dict[str, Any]:
    """Return the plan as JSON data; times are Unix seconds, and also local times in the zone."""
    profile = plan.power_profile
    return {
        "at_s": plan.at_s,
        "until_s": plan.until_s,
        "currency": plan.currency,
        "cost": profile.cost(),
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
                profile.edge_s[:-1], profile.price_per_kwh, profile.temperature_c, profile.power_w, strict=True
            )
        ],
        **({"devices": _devices(plan.devices)} if plan.devices else {}),
        "remarks": list(plan.remarks),
        "violations": list(plan.violations),
    }


def _job(job: PlannedJob, zone: tzinfo) -> dict[str, Any]:
    start = None if job.start_s is None else datetime.fromtimestamp(job.start_s, zone).isoformat()
    return {**asdict(job), "start": start}


def _devices(schedule: DeviceSchedule) -> dict[str, Any]:
    columns = {"load_kw": schedule.load_kw, "pv_kw": schedule.pv_kw, **asdict(schedule.dispatch)}
    lists = {name: column.tolist() for name, column in columns.items()}
    return {"cost": schedule.cost, "edge_s": schedule.edge_s.tolist(), **lists}
