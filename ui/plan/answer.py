"""Run `offpeak plan`: print the plan as a table or JSON, write its page, and with --apply carry it out."""

import json
from datetime import datetime

import typer

from offpeak.errors import BadInput, BadSetting
from offpeak.model.local_time import machine_zone
from offpeak.process import AlreadyRunning
from offpeak.settings.table import Settings
from offpeak.text import counted
from plugin.day_plan.day_plan import DayPlan
from plugin.queue_hook.facts import PLAN
from predictors.demand_response import OrderedEvents, read_file_events, read_server_events
from services.agent.plan_once import AppliedPlan, apply_once, plan_once
from services.agent.status import AgentSilent, fetch_plan
from ui.plan.text import plan_json, print_plan
from ui.progress import say_written
from ui.report.write import check_report_path
from ui.requests import PlanRequest


def answer(settings: Settings, request: PlanRequest) -> None:
    """Print the plan, and write its page or carry it out if requested; errors as services.agent.plan_once."""
    if request.report:
        check_report_path(request.report)
    _check_events(settings)
    applied = _applied(settings) if request.apply else None
    plan, problems = (applied.plan, applied.problems) if applied else _planned(settings, request)
    zone = machine_zone()
    if request.report:
        from ui.plan.page import write_page

        write_page(request.report, plan, zone, problems)
    if request.as_json:
        typer.echo(json.dumps(plan_json(plan, zone) | {"troubles": problems} | _done(applied), indent=2))
    else:
        print_plan(plan, zone, day=request.day, problems=problems)
        if applied:
            typer.echo(_applied_text(applied))
    if request.report:
        say_written(request.report, as_json=request.as_json)


def _planned(settings: Settings, request: PlanRequest) -> tuple[DayPlan, tuple[str, ...]]:
    """Return a running agent's plan, else one made here, and why, if the settings have an agent carry out plans."""
    if not request.is_as_set or settings.plan.devices:
        plan, problems = plan_once(settings)
        alone = "this plan is not the agent's, which knows neither PV nor battery"
        return plan, (*problems, alone) if settings.plan.devices and settings.agent.queue == PLAN else problems
    try:
        plan = fetch_plan(settings.agent.socket)
    except (AgentSilent, BadInput) as problem:
        # No agent, one with another policy, or one that does not tell us: anybody may plan for themselves.
        plan, problems = plan_once(settings)
        if settings.agent.queue != PLAN:
            return plan, problems
        return plan, (*problems, f"this plan is made here and now, and is not the agent's: {problem}")
    made = datetime.fromtimestamp(plan.at_s, machine_zone())
    return plan, (f"this is the plan that the agent carries out, made at {made:%H:%M:%S}",)


def _applied(settings: Settings) -> AppliedPlan:
    try:
        return apply_once(settings)
    except AlreadyRunning as problem:
        hint = 'the agent carries plans out itself: queue = "plan" below [agent], then have it read that by SIGHUP'
        raise AlreadyRunning(str(problem), hint=hint) from None


def _check_events(settings: Settings) -> None:
    """Raise an error for settings that the agent would only log, because here a user waits for the plan."""
    known = OrderedEvents()
    problem = read_file_events(settings.plan, machine_zone(), known).problem
    problem = problem or read_server_events(settings.plan, known).problem
    if problem:
        what, _, hint = problem.rpartition("; ")
        raise BadSetting(what, hint=hint)


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
