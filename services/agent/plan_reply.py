"""The agent's present plan over its socket: the reply, and the client's request.

Apart from `client`, which must not load the planner and numpy.
"""

from pathlib import Path
from typing import Any

from offpeak.errors import BadInput
from plugin.day_plan.day_plan import DayPlan, plan_from_json, plan_to_json
from services.agent.client import exchange, silent_error
from services.agent.requests import FOR_ADMINS, Rights


def make_plan_reply(plan: DayPlan | None, rights: Rights) -> dict[str, Any]:
    """Return the standing plan; BadInput where there is none, and for who may not see all jobs."""
    if not rights.sees_all:
        raise BadInput("the plan names other users' jobs", hint="`offpeak queue` shows the jobs that are yours")
    if plan is None:
        raise BadInput("the agent makes no plan", hint='queue = "plan" below [agent], and a price that is known')
    return {"plan": plan_to_json(plan)}


def fetch_plan(path: Path) -> DayPlan:
    """Return the plan that the agent carries out; AgentSilent if none answers, BadInput with what it has against it."""
    said = exchange(path, FOR_ADMINS)
    try:
        return plan_from_json(said.get("plan"))
    except ValueError:
        raise silent_error(path, "its answer makes no sense: is it of another version?") from None
