"""Run `offpeak plan`: print the plan as a table or JSON, write its page, and with --apply carry it out."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, tzinfo
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import typer

from offpeak.display import duration_text, energy_text, money_text, power_text, watts_text
from offpeak.errors import BadInput, BadSetting
from offpeak.files import check_writable, replacing
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import PowerCap
from offpeak.model.local_time import to_local_s
from offpeak.model.zones import machine_zone
from offpeak.plugin.day_plan.day_plan import DayPlan, DeviceSchedule, PlannedJob
from offpeak.plugin.planner.dispatch import NOTHING_KW
from offpeak.plugin.queue_hook.facts import PLAN
from offpeak.predictors.demand_response import OrderedEvents, read_file_events
from offpeak.predictors.openadr import read_server_events
from offpeak.process import AlreadyRunning
from offpeak.services.agent.plan_once import AppliedPlan, apply_once, plan_once
from offpeak.services.agent.status import AgentSilent, fetch_plan
from offpeak.settings.table import Settings
from offpeak.text import counted, printable
from offpeak.ui.agent.status import LocalClock
from offpeak.ui.report.figure import Figure, Json, Key, axis, line, name_text, packed, time_axis
from offpeak.ui.report.page import bullets, definitions, figure_section, html_page, section, table
from offpeak.ui.terminal import print_table, say_written, text_table

HEADERS = ("job", "user", "partition", "nodes", "power", "starts", "ends", "latest", "why not before")
RIGHT = ("nodes", "power", "starts", "ends", "latest")


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
    ahead = f"{duration_text(plan.until_s - plan.at_s)} ahead, to {clock.text(plan.until_s)}"
    power = f"{power_text(float(profile.power_w[0]))} now, {power_text(float(profile.power_w.max()))} at most"
    cost = f"{money_text(profile.cost(), plan.currency)} for energy and cooling, PUE {float(profile.pue[0]):.2f} now"
    found = [("plan", f"{counts}; {ahead}"), ("power", power), ("cost", cost)]
    if plan.devices is not None:
        schedule = plan.devices
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
        found += [("energy", f"the battery {battery}; PV {pv}, of which {lost} are curtailed")]
        found += [("bill", f"{money_text(plan.devices.cost, plan.currency)} with PV and battery instead of that cost")]
    return [*found, *(_cap(cap, clock) for cap in plan.caps)]


def _cap(cap: PowerCap, clock: LocalClock) -> tuple[str, str]:
    begin, end = clock.text(cap.from_s), clock.text(cap.until_s)
    return "cap", printable(f"{power_text(cap.cap_w)} from {begin} to {end}: {cap.reason} ({cap.source})")


def plan_json(plan: DayPlan, zone: tzinfo, day: str | None) -> dict[str, Any]:
    """Return the plan as JSON data; times are Unix seconds, and also local times in the zone. `day` as `jobs_of`."""
    profile = plan.power_profile
    return {
        "at_s": plan.at_s,
        "until_s": plan.until_s,
        "currency": plan.currency,
        "cost": profile.cost(),
        "jobs": [_job(job, zone) for job in (jobs_of(plan, zone, day) if day else plan.jobs)],
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


RUNS = Key("runs", "var(--busy)", is_area=True)
PLANNED = Key("planned", "var(--order-1)", is_area=True)
WAITS = Key("waits for a cheaper hour", "var(--saved)", is_area=True)
CAPPED = Key("kept back by a cap", "var(--caps-1)", is_area=True)
POWER = Key("power", "var(--busy)", is_area=True)
CAP = Key("cap on power", "var(--cap)", "8 4")
PRICE, OUTSIDE = Key("price", "var(--price)"), Key("outside temperature", "var(--muted)", "2 3")
ROW_PX, LEAST_PX, MOST_PX, REST_PX = 18, 180, 900, 460
NAMED_NODES = 60


@dataclass(frozen=True)
class PlanRequest:
    """The options of `offpeak plan`; `is_as_set` is true if no option overrides a setting."""

    day: str | None
    report: Path | None
    apply: bool
    as_json: bool
    is_as_set: bool


@dataclass(frozen=True)
class Bar:
    """A job on a node [Unix s]."""

    host: str
    from_s: int
    until_s: int
    text: str
    key: Key


def plan_figure(plan: DayPlan, zone: tzinfo) -> Figure:
    """Return the figure, with times in the zone."""
    bars = list(_bars(plan))
    hosts = sorted({bar.host for bar in bars}, key=lambda host: (len(host), host))
    gantt_px = min(max(ROW_PX * len(hosts), LEAST_PX), MOST_PX)
    share = REST_PX / (gantt_px + REST_PX)
    keys = [key for key in (RUNS, PLANNED, WAITS, CAPPED) if any(bar.key is key for bar in bars)]
    data = [_bar_trace([bar for bar in bars if bar.key is key], hosts, key, zone) for key in keys]
    caps = [CAP] if plan.caps else []
    profile = plan.power_profile
    power = _steps(profile.edge_s, profile.power_w / 1000, POWER, zone, "%{y:.4~g} kW")
    drawn = [power | {"fill": "tozeroy", "fillcolor": POWER.colour, "yaxis": "y2"}]
    for cap in plan.caps:
        edges = np.array([max(cap.from_s, plan.at_s), min(cap.until_s, plan.until_s)], np.int64)
        if edges[1] > edges[0]:
            kilowatts = np.array([cap.cap_w / 1000])
            drawn.append(_steps(edges, kilowatts, CAP, zone, "cap %{y:.4~g} kW") | {"yaxis": "y2"})
    price = _steps(profile.edge_s, 1000 * profile.price_per_kwh, PRICE, zone, "%{y:.4~g}")
    outside = _steps(profile.edge_s, profile.temperature_c, OUTSIDE, zone, "%{y:.3~g} °C")
    last_s = max([bar.until_s for bar in bars], default=plan.at_s)
    return Figure(
        name="plan",
        heading="Jobs on nodes",
        summary="Jobs on their nodes over time, and below them power, price and outside temperature.",
        caption="A bar is a job on a node; the scheduler may choose other nodes that are as good. Times are expected:"
        " when a job ends sooner or later, those behind it move.",
        keys=(*keys, POWER, *caps, PRICE, OUTSIDE),
        data=[*data, *[*drawn, price | {"yaxis": "y3"}, outside | {"yaxis": "y4"}]],
        layout={
            "height": gantt_px + REST_PX,
            "barmode": "overlay",
            "hovermode": "closest",
            "margin": {"l": 76, "r": 24, "t": 30, "b": 36},
            "xaxis": time_axis(
                anchor="y4", range=[_ms(plan.at_s, zone), _ms(min(max(last_s, plan.at_s + DAY_S), plan.until_s), zone)]
            ),
            "yaxis": axis("node", domain=[share, 1], range=[len(hosts) - 0.5, -0.5], **_names(hosts)),
            "yaxis2": axis("kW", domain=[0.62 * share, 0.94 * share], rangemode="tozero"),
            "yaxis3": axis(f"{plan.currency}/MWh", domain=[0.3 * share, 0.56 * share]),
            "yaxis4": axis("°C", domain=[0, 0.24 * share]),
        },
    )


def _bars(plan: DayPlan) -> Iterable[Bar]:
    for load in plan.loads:
        text = f"{load.job_id} of {load.user}, runs, {watts_text(load.power_w)}"
        yield from (Bar(host, plan.at_s, load.until_s, text, RUNS) for host in load.hosts)
    for job in plan.jobs:
        if job.start_s is not None:
            text = f"{job.job_id} of {job.user}, {watts_text(job.power_w)}" + (f": {job.why}" if job.why else "")
            yield from (Bar(host, job.start_s, job.start_s + job.run_s, text, _key(job)) for host in job.hosts)


def _key(job: PlannedJob) -> Key:
    if job.waits_for_price:
        return WAITS
    return CAPPED if job.why and job.begin_s == job.start_s else PLANNED


def _bar_trace(bars: Sequence[Bar], hosts: Sequence[str], key: Key, zone: tzinfo) -> Json:
    row = {host: at for at, host in enumerate(hosts)}
    from_ms = np.array([_ms(bar.from_s, zone) for bar in bars])
    long_ms = np.array([1000.0 * (bar.until_s - bar.from_s) for bar in bars])
    return {
        "type": "bar",
        "orientation": "h",
        "base": packed(from_ms, "f8"),
        "x": packed(long_ms, "f8"),
        "y": packed(np.array([row[bar.host] for bar in bars]), "i4"),
        "width": 0.8,
        "text": [name_text(bar.text) for bar in bars],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": key.colour, "line": {"color": "var(--card)", "width": 1}},
        "name": key.name,
    }


def _names(hosts: Sequence[str]) -> Json:
    if len(hosts) > NAMED_NODES:
        return {"showticklabels": False}
    return {"tickvals": list(range(len(hosts))), "ticktext": [name_text(host) for host in hosts]}


def _steps(edge_s: Int64, value: Float64, key: Key, zone: tzinfo, text: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(1000.0 * to_local_s(edge_s, zone), "f8"),
        "y": packed(np.append(value, value[-1:])),
        "line": line(key) | {"shape": "hv"},
        "name": key.name,
        "hovertemplate": f"{text}<extra></extra>",
    }


def _ms(unix_s: int, zone: tzinfo) -> float:
    return 1000.0 * float(to_local_s(np.array([unix_s], np.int64), zone)[0])


def plan_page(plan: DayPlan, zone: tzinfo, problems: Sequence[str] = ()) -> str:
    """Return the page; `problems` are the problems of the inputs of the plan."""
    clock = LocalClock(float(plan.at_s), zone)
    sections = [figure_section(plan_figure(plan, zone)), _jobs(plan, clock)]
    notes = (*plan.remarks, *plan.violations, *problems)
    if notes:
        sections.append(section("Notes", bullets(notes)))
    return html_page("The plan of the queue", _head(plan, clock), sections)


def _head(plan: DayPlan, clock: LocalClock) -> str:
    made = datetime.fromtimestamp(plan.at_s, clock.zone)
    facts = definitions(sums(plan, clock))
    return f"<header>\n<h1>The queue, planned {escape(f'{made:%Y-%m-%d %H:%M}')}</h1>\n{facts}\n</header>"


def _jobs(plan: DayPlan, clock: LocalClock) -> str:
    rows = [job_cells(job, clock) for job in jobs_of(plan, clock.zone, None)]
    return section("Each job", table("starts as planned now", HEADERS, rows, texts=3))


def answer(settings: Settings, request: PlanRequest) -> None:
    """Print the plan, and write its page or carry it out if requested; errors as offpeak.services.agent.plan_once."""
    if request.report:
        check_writable(request.report, example="report.html")
    known, now_s = OrderedEvents(), int(time.time())
    server = read_server_events(settings.plan, known, now_s=now_s)
    from_file = read_file_events(settings.plan, machine_zone(), known, now_s)
    if problem := from_file.problem or server.problem:
        what, _, hint = problem.rpartition("; ")
        raise BadSetting(what, hint=hint)
    others = (f"OpenADR: {counted(server.foreign, 'event')} for others",) if server.foreign else ()
    notes = (*from_file.bounded, *server.unreadable, *others)
    applied = _applied(settings) if request.apply else None
    plan, problems = (applied.plan, applied.problems) if applied else _planned(settings, request)
    problems = tuple(dict.fromkeys((*problems, *notes)))
    zone = machine_zone()
    if request.report:
        page = plan_page(plan, zone, problems).encode()
        with replacing(request.report) as file:
            file.write(page)
    if request.as_json:
        typer.echo(json.dumps(plan_json(plan, zone, request.day) | {"troubles": problems} | _done(applied), indent=2))
    else:
        day = request.day
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
        if applied:
            typer.echo(_applied_text(applied))
    if request.report:
        say_written(request.report, as_json=request.as_json)


def _planned(settings: Settings, request: PlanRequest) -> tuple[DayPlan, tuple[str, ...]]:
    """Return a running agent's plan, else one made here, and why, if the settings have an agent carry out plans."""
    if not request.is_as_set or settings.plan.devices:
        plan, problems = plan_once(settings)
        alone = "this plan differs from the agent's, which does not know PV or battery"
        return plan, (*problems, alone) if settings.plan.devices and settings.agent.queue == PLAN else problems
    try:
        plan = fetch_plan(settings.agent.socket)
    except (AgentSilent, BadInput) as problem:
        # No agent, one with another policy, or one that does not tell us: anybody may plan for themselves.
        plan, problems = plan_once(settings)
        if settings.agent.queue != PLAN:
            return plan, problems
        return plan, (*problems, f"this plan was computed here and is not the agent's: {problem}")
    made = datetime.fromtimestamp(plan.at_s, machine_zone())
    return plan, (f"this is the plan that the agent carries out, made at {made:%H:%M:%S}",)


def _applied(settings: Settings) -> AppliedPlan:
    try:
        return apply_once(settings)
    except AlreadyRunning as problem:
        hint = 'the agent carries plans out itself: queue = "plan" below [agent], then have it read that by SIGHUP'
        raise AlreadyRunning(str(problem), hint=hint) from None


def _done(applied: AppliedPlan | None) -> dict[str, object]:
    if applied is None:
        return {}
    written = applied.written
    return {"mode": str(applied.mode), "reordered": dict(written.rank), "begin_s": dict(written.begin_s)}


def _applied_text(applied: AppliedPlan) -> str:
    written = applied.written
    what = f"{counted(len(written.rank), 'job')} in another order, {counted(len(written.begin_s), 'begin time')}"
    if applied.mode == "shadow":
        return f"mode shadow: recorded, not done: {what}"
    return f"done: {what}; `offpeak agent --restore` undoes it"
