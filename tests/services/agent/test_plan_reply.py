"""The present plan over the agent's socket, for users who may see it."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from agent_socket import AgentSocket, agent_socket
from open_folder import open_folder
from planned_site import HOUR_S, NOW_S, a_job, a_running, make_inputs

from offpeak.errors import BadInput
from offpeak.model.facility import PowerCap
from offpeak.plugin.day_plan.day_plan import DayPlan, plan_from_json, plan_to_json
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.services.agent.requests import Callers, Rights
from offpeak.services.agent.socket_server import make_plan_reply
from offpeak.services.agent.status import AgentSilent, fetch_plan


@pytest.fixture(scope="module")
def plan() -> DayPlan:
    """A plan with a cap, a running job, one left out, one that waits for a cheap hour, and starts that moved."""
    cap = PowerCap(NOW_S, NOW_S + 3 * HOUR_S, 1300, "the grid asks", "events.toml")
    jobs = (a_running(1, "n1"), a_job(2), a_job(3, nodes=9), a_job(4, comment="offpeak:delay=8h"), a_job(5, nodes=2))
    first = plan_day(make_inputs(jobs), None, budget_of(5.0))
    found = plan_day(make_inputs(jobs, caps=(cap,)), first, budget_of(5.0))
    assert found is not None
    return found


def same(one: DayPlan, other: DayPlan) -> bool:
    profiles = zip(vars(one.power_profile).values(), vars(other.power_profile).values(), strict=True)
    received = [{**asdict(plan), "power_profile": None} for plan in (one, other)]
    return received[0] == received[1] and all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in profiles)


@pytest.fixture
def agent() -> Iterator[AgentSocket]:
    with open_folder() as folder, agent_socket(folder / "run" / "agent.sock", Callers(os.geteuid())) as agent:
        yield agent


def test_a_plan_survives_json(plan: DayPlan) -> None:
    assert plan.moves
    assert plan.left_out
    assert same(plan_from_json(json.loads(json.dumps(plan_to_json(plan)))), plan)


@pytest.mark.parametrize("received", [None, [], "plan", {}, {"course": {}}, {"course": {"edge_s": []}, "jobs": [1]}])
def test_malformed_plan_is_refused(received: object) -> None:
    with pytest.raises(ValueError, match="not a plan"):
        plan_from_json(received)


def test_agent_replies_with_its_present_plan(agent: AgentSocket, plan: DayPlan) -> None:
    with pytest.raises(BadInput, match="the agent makes no plan"):
        fetch_plan(agent.path)
    agent.plan = plan
    assert same(fetch_plan(agent.path), plan)
    agent.plan = replace(plan, jobs=())
    assert fetch_plan(agent.path).jobs == ()


def test_a_user_who_may_not_see_all_jobs_gets_no_plan(plan: DayPlan) -> None:
    with pytest.raises(BadInput, match="other users' jobs"):
        make_plan_reply(plan, Rights(sees_all=False, may_hold=False, may_tell=False))


def test_without_an_agent_nothing_answers(tmp_path: Path) -> None:
    with pytest.raises(AgentSilent):
        fetch_plan(tmp_path / "agent.sock")
