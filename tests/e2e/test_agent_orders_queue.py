"""The agent orders the queue by price or by plan, and in shadow mode changes nothing."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from installed_policy import LATEST_FIRST, install_policy
from node_story import dear_until, wait_for_line
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, agent, run_offpeak, write_site
from benchmarks.local_slurm.plan import REPOSITORY, PoweredPlan
from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import latest_decisions

HOT, COOL = "hot", "cool"
AT_THE_EDGE, PLANNED = 12, 6
"""So many jobs of each kind."""
DEAR = "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:59"
DRAWS = {"classes": ["hot=400W", "cool=150W"]}
ALL_NODES = 2


@pytest.fixture(params=["basic", "multifactor"])
def cluster(kind: str, start_stage: StartStage, request: pytest.FixtureRequest) -> PoweredStage:
    if kind != "slurm" and request.param == "multifactor":
        pytest.skip("PBS has no priorities that age")
    return start_stage(PoweredPlan(nodes=ALL_NODES, priority=request.param))


def site(cluster: PoweredStage, mode: str, tariff: str, **agent_settings: Any) -> Path:
    changes: Mapping[str, Mapping[str, Any]] = {
        "agent": {"mode": mode, "capacity": "always-on", **agent_settings},
        "prices": {"tariff": tariff},
        "power": DRAWS,
        "scheduling": {"window": 100},
    }
    return write_site(cluster, changes)


def submitted(cluster: PoweredStage, of_each: int) -> tuple[list[str], list[str], str]:
    """Return hot and cool jobs, submitted by turns behind one that holds all nodes, which is returned last."""
    (blocker,) = cluster.jobs.submit(seconds=600, nodes=ALL_NODES)
    cluster.wait(lambda: cluster.jobs.states()[blocker] == "RUNNING", what="the first job to run")
    hot, cool = [], []
    for _ in range(of_each):
        hot += cluster.jobs.submit(name=HOT, seconds=0.2, nodes=ALL_NODES)
        cool += cluster.jobs.submit(name=COOL, seconds=1.0, nodes=ALL_NODES)
    return hot, cool, blocker


def test_jobs_start_as_was_decided_across_the_edge_of_the_price(cluster: PoweredStage, zygote: Zygote) -> None:
    hot, cool, blocker = submitted(cluster, AT_THE_EDGE)
    with agent(cluster, site(cluster, "active", DEAR), by=zygote.start) as running:
        cluster.wait(lambda: cluster.jobs.order() == cool + hot, what="the frugal ones to be first")
        edge_s = (time.time() + 15) // 60 * 60 + 60
        site(cluster, "active", dear_until(edge_s))
        running.reread()
        cluster.wait(lambda: time.time() > edge_s - 6, what="the edge to be near")
        cluster.jobs.cancel([blocker])
        cluster.wait(lambda: hot_are_first(cluster.jobs.order(), hot, cool), what="the others to be first")
        assert time.time() > edge_s
        cluster.wait(lambda: len(cluster.jobs.started()) == 1 + 2 * AT_THE_EDGE, what="all jobs")
    started = [job for job in cluster.jobs.started() if job != blocker]
    dear = [entry.job for entry in cluster.jobs.trace() if entry.what == "start" and entry.at_s < edge_s][1:]
    assert len(dear) >= 1
    assert dear == cool[: len(dear)]
    assert [job for job in started if job in hot] == hot
    assert [job for job in started if job in cool] == cool
    first, last = started.index(hot[0]), started.index(hot[-1])
    # Whatever was started until the agent had looked again, and one or two while it moved job after job.
    assert first - len(dear) < 12, started
    assert last - first < len(hot) + 2, started
    assert not cluster.jobs.lost()


def hot_are_first(left: list[str], hot: list[str], cool: list[str]) -> bool:
    return hot[-1] in left and cool[-1] in left and left == [job for job in hot + cool if job in left]


def hours_that_are_dear() -> str:
    """Return a tariff that is dear now, and cheap when half of the planned jobs have run to their limits."""
    edge = datetime.fromtimestamp(time.time() + 3600, UTC)
    return f"on=90EUR/MWh,off=30EUR/MWh,hours={(edge.hour - 8) % 24:02}:00-{edge:%H:%M},zone=UTC"


def planned_by_hand(cluster: PoweredStage) -> None:
    """An admin has the plan carried out: the order is the planned one, and is given back."""
    as_submitted = cluster.jobs.order()
    site(cluster, "advise", hours_that_are_dear(), queue="plan")
    applied = json.loads(run_offpeak(cluster, "plan", "--apply", "--json").stdout)
    starts = {job["job_id"]: job["start_s"] for job in applied["jobs"]}
    assert set(starts) == set(as_submitted)
    assert applied["violations"] == []
    assert cluster.jobs.order() == sorted(as_submitted, key=lambda job: starts[job])
    assert cluster.jobs.order() != as_submitted
    assert run_offpeak(cluster, "agent", "--restore").returncode == 0
    assert cluster.jobs.order() == as_submitted


def test_the_agent_carries_its_plan_out_and_tells_it(cluster: PoweredStage, zygote: Zygote) -> None:
    _, _, blocker = submitted(cluster, PLANNED)
    as_submitted = cluster.jobs.order()
    with agent(cluster, site(cluster, "active", hours_that_are_dear(), queue="plan"), by=zygote.start):
        cluster.wait(lambda: cluster.jobs.order() != as_submitted, what="the plan to be carried out")
        output = json.loads(run_offpeak(cluster, "plan", "--json").stdout)
        assert output["violations"] == []
        assert any(problem.startswith("this is the plan that the agent carries out") for problem in output["troubles"])
        starts = {job["job_id"]: job["start_s"] for job in output["jobs"]}
        planned = sorted(as_submitted, key=lambda job: starts[job])
        cluster.wait(lambda: cluster.jobs.order() == planned, what="the order of the plan")
        assert planned != as_submitted
        cluster.jobs.cancel([blocker])
        cluster.wait(lambda: len(cluster.jobs.started()) == 1 + 2 * PLANNED, what="all jobs")
    assert not cluster.jobs.lost()


def has_moved_a_job(cluster: PoweredStage) -> bool:
    """Return whether the ledger has a decision that moves a job."""
    with open_ledger(f"sqlite:///{cluster.folder / 'ledger.sqlite'}") as connection:
        return any(str(found["decided"]).startswith("moved") for found in latest_decisions(connection, most=50))


@pytest.mark.parametrize(("kind", "cluster"), [("slurm", "basic")], indirect=True)
def test_an_own_policy_orders_the_queue_once_it_is_allowed(cluster: PoweredStage, tmp_path: Path) -> None:
    install_policy(tmp_path, "latest_of_e2e", "latest = latest_of_e2e:order", LATEST_FIRST)
    _, _, blocker = submitted(cluster, PLANNED)
    as_submitted = cluster.jobs.order()
    settings = site(cluster, "active", DEAR, queue="latest")
    path = {"PYTHONPATH": f"{REPOSITORY}:{tmp_path}"}
    running = RunningAgent(cluster, ("agent", "--config", str(settings)), environment=path)
    running.start()
    try:
        wait_for_line(running, "started")
        cluster.wait(lambda: has_moved_a_job(cluster), what="a decision of the policy")
        time.sleep(3)
        assert cluster.jobs.order() == as_submitted
        site(cluster, "active", DEAR, queue="latest", allow_own_policies=True)
        running.reread()
        cluster.wait(lambda: cluster.jobs.order() == as_submitted[::-1], what="the order of the policy")
        site(cluster, "active", DEAR, queue="latest")
        running.reread()
        cluster.wait(lambda: cluster.jobs.order() == as_submitted, what="the order of the site")
    finally:
        running.stop()
    assert cluster.jobs.order() == as_submitted
    cluster.jobs.cancel([*as_submitted, blocker])


def test_in_shadow_mode_no_byte_of_the_queue_changes_and_a_plan_is_carried_out_by_hand(
    cluster: PoweredStage, zygote: Zygote
) -> None:
    _, _, blocker = submitted(cluster, PLANNED)
    before, nodes_before = cluster.jobs.shown(), cluster.admin.shown()
    with agent(cluster, site(cluster, "shadow", DEAR), by=zygote.start) as running:
        wait_for_line(running, "started")
        time.sleep(8)
        assert running.runs
        assert cluster.jobs.shown() == before
        assert cluster.admin.shown() == nodes_before
    assert cluster.jobs.shown() == before
    if cluster.plan.priority == "basic":
        planned_by_hand(cluster)
    cluster.jobs.cancel([blocker])
