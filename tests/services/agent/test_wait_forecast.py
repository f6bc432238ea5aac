"""The agent keeps expected waits: nothing waits for them for long, and old ones do not count."""

import asyncio
import math
import pickle
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from offpeak.door.effect import Mode
from offpeak.ledger.ledger import Ledger
from offpeak.model.cluster import Partition
from offpeak.model.flexibility import FlexibilityRules
from offpeak.model.request import Chunk, Request
from offpeak.plugin.federation.site_report import (
    NO_WAITS,
    ExpectedWaits,
    NodePart,
    PartWaits,
    PoolWaits,
    SiteReport,
    SiteWait,
)
from offpeak.plugin.queue_hook.facts import QueueFacts, WaitAllowance
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse, PowerState
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.power import engine_process
from offpeak.power.live.decide import PoolOffer
from offpeak.services.agent import reports, wait_forecast
from offpeak.services.agent.queue_loop import QueueSection, add_wait_allowances, queue_rules
from offpeak.services.agent.site_context import PartitionModes
from offpeak.services.agent.wait_forecast import EVERY_S, WaitForecast, WaitHistory
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.table import Settings

HOUR_S = 3600
NOW_S = 1_795_215_600
VIEW = SchedulerView(NOW_S, (), (), ())
TRAITS = SchedulerTraits(
    "slurm", "24.11", Ranking.VALUE, False, 300, True, partitions=(Partition("gpu"), Partition("cpu"))
)


def pool(partition: str, gpus: int, wait_s: float) -> PoolWaits:
    part = PartWaits(NodePart(8, 0, gpus), (2,), ((wait_s,),))
    return PoolWaits((partition,), 2, 8, 0, {"a100": gpus} if gpus else {}, (), (HOUR_S,), (part,))


WAITS = ExpectedWaits(pools=(pool("cpu", 0, 0.0), pool("gpu", 4, 5.0 * HOUR_S)))


def job(number: int, partition: str, gpus: int, comment: str = "offpeak:delay=12h") -> Job:
    request = Request((partition,), (Chunk(1, 4, 0, gpus),))
    first = (str(number), JobState.PENDING, "PD", "", "ann", "", "job", comment, (partition,), request)
    return Job(*first, "", "", 1, 0, 1, 4, False, HOUR_S, NOW_S, None, None, None, "", True)


ANSWER_LATER = """\
import pathlib, pickle, sys, time
pickle.load(sys.stdin.buffer)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
sys.stdout.buffer.write(pathlib.Path(sys.argv[2]).read_bytes())
"""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the process of a simulation answer when the file is there."""
    ends = tmp_path / "ends"
    (tmp_path / "answer").write_bytes(pickle.dumps(WAITS))
    command = (sys.executable, "-c", ANSWER_LATER, str(ends), str(tmp_path / "answer"))
    monkeypatch.setattr(engine_process, "COMMAND", command)
    return ends


def let_run(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(engine_process, "COMMAND", (sys.executable, "-c", program))


def children() -> set[psutil.Process]:
    return {each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE}


def test_a_slow_simulation_is_not_waited_for_and_the_result_before_counts(simulated: Path) -> None:
    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=0.05)
        assert forecast.latest is NO_WAITS
        simulated.touch()
        await forecast.finish(patience_s=300)
        assert (forecast.latest, forecast.at_s) == (WAITS, NOW_S)
        simulated.unlink()
        forecast.begin(SchedulerView(NOW_S + 60, (), (), ()), TRAITS, {})
        await forecast.finish(patience_s=0.05)
        assert forecast.latest == WAITS
        simulated.touch()
        await forecast.finish(patience_s=300)
        assert forecast.at_s == NOW_S + 60

    asyncio.run(use())


def test_each_job_gets_the_wait_of_its_own_request_and_old_waits_do_not_count(simulated: Path) -> None:
    simulated.touch()

    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=300)
        jobs = (job(1, "gpu", 1), job(2, "cpu", 0), job(3, "cpu", 1), job(4, "cpu", 0)._replace(request=None))
        assert forecast.of_jobs(jobs, NOW_S + EVERY_S) == {"1": 5 * HOUR_S, "2": 0}
        assert forecast.of_jobs(jobs, NOW_S + 4 * EVERY_S) == {}

    asyncio.run(use())


def test_the_wait_of_equal_requests_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Request] = []

    def wait(_pools: object, _terms: object, request: Request, limit_s: int) -> SiteWait:
        found.append(request)
        return SiteWait(float(limit_s))

    monkeypatch.setattr(wait_forecast, "wait_on_pools", wait)
    forecast = WaitForecast()
    forecast.latest, forecast.at_s = WAITS, NOW_S
    jobs = [job(number, "cpu", number % 2) for number in range(1000)]
    longer = job(1000, "cpu", 0)._replace(limit_s=2 * HOUR_S)
    waits_s = forecast.of_jobs([*jobs, longer], NOW_S)
    assert waits_s == {str(number): HOUR_S for number in range(1000)} | {"1000": 2 * HOUR_S}
    assert len(found) == 3


def crash(problem: str) -> str:
    return f"import os, pickle, sys; pickle.load(sys.stdin.buffer); {problem}"


@pytest.mark.parametrize(
    ("program", "longest_s", "reason"),
    [
        (crash("os.kill(os.getpid(), 9)"), 300.0, "ended without waits, with status -9"),
        (crash("raise SystemExit(3)"), 300.0, "ended without waits, with status 3"),
        (crash(""), 300.0, "ended without waits, with status 0"),
        ("raise SystemExit(1)", 300.0, "ended without waits, with status 1"),
        ("import time; time.sleep(600)", 1.0, "did not end within"),
    ],
)
def test_a_process_that_fails_leaves_no_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str, longest_s: float, reason: str
) -> None:
    let_run(monkeypatch, program)
    monkeypatch.setattr(engine_process, "LONGEST_S", longest_s)

    async def use() -> None:
        forecast = WaitForecast()
        forecast.latest = WAITS
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=300)
        assert (forecast.latest, forecast.is_due(NOW_S + 60)) == (NO_WAITS, False)
        assert forecast.of_jobs((job(1, "gpu", 1),), NOW_S) == {}

    before = children()
    asyncio.run(use())
    assert reason in caplog.text
    assert children() <= before


def test_without_a_process_for_the_simulation_no_wait_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_process, "COMMAND", ("/nowhere/python",))

    async def use() -> None:
        forecast = WaitForecast()
        forecast.latest = WAITS
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=300)
        assert forecast.of_jobs((job(1, "gpu", 1),), NOW_S) == {}

    asyncio.run(use())
    assert "waits are not known" in caplog.text


def test_the_first_report_to_brokers_waits_for_the_process_that_loads_the_engine(
    monkeypatch: pytest.MonkeyPatch, simulated: Path
) -> None:
    monkeypatch.setattr(reports, "PATIENCE_S", 0.01)
    threading.Timer(0.5, simulated.touch).start()

    assert report_of(VIEW).pools == WAITS.pools


def report_of(view: SchedulerView, decided: Sequence[str] = (), deferred: Sequence[str] = ()) -> SiteReport:
    """Return the report to brokers of an agent with that view."""

    async def report() -> SiteReport | None:
        agent = SimpleNamespace(
            observer=SimpleNamespace(latest=view, traits=TRAITS),
            queue_loop=SimpleNamespace(facts=None, decided=frozenset(decided)),
            queue=SimpleNamespace(deferred=frozenset(deferred)),
            waits=WaitForecast(),
            prices=SimpleNamespace(curve=None, carbon=None),
            site=SimpleNamespace(flexibility=FlexibilityRules(UTC)),
        )
        return await reports.make_site_report(agent)  # type: ignore[arg-type]

    made = asyncio.run(report())
    assert made is not None
    return made


def test_a_job_that_is_put_off_or_may_still_be_is_not_queued(simulated: Path) -> None:
    simulated.touch()
    flexible, rigid = job(1, "cpu", 0), job(2, "cpu", 0, comment="")
    view = replace(VIEW, jobs=(flexible, rigid, flexible._replace(job_id="3", begin_s=NOW_S + HOUR_S)))
    assert report_of(view, decided="23").queued == 1
    # The view is older than the begin time that was written since.
    assert report_of(view, decided="123", deferred="1").queued == 1
    assert report_of(view, decided="123").queued == 2


def test_jobs_wait_for_offers_of_active_partitions_only() -> None:
    offers = [
        PoolOffer(name, frozenset({name}), "ols:1h", offered=1, usable=4, why="SLA") for name in ("batch", "debug")
    ]
    modes = PartitionModes(Mode.ACTIVE, {"debug": Mode.SHADOW})
    assert reports.offers_in_force(offers, modes) == (offers[0],)


def test_an_agent_that_stops_ends_the_simulation(simulated: Path) -> None:
    async def stop_in_the_middle() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        while not children() - before:
            await forecast.finish(patience_s=0.05)
        assert len(children() - before) == 1

    assert not simulated.exists()
    before = children()
    asyncio.run(stop_in_the_middle())
    assert children() <= before


def test_the_process_answers_for_a_cluster_and_leaves_the_agent_small(caplog: pytest.LogCaptureFixture) -> None:
    plain = (False, False, True, False, False, "", "", None, ("cpu",), (), 8, 0, 0, None, None)
    nodes = tuple(Node(f"n{number}", "IDLE", NodeUse.FREE, PowerState.ON, *plain) for number in range(4))
    before = psutil.Process().memory_info().rss

    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(SchedulerView(NOW_S, (job(1, "cpu", 0),), nodes, ()), TRAITS, {})
        await forecast.finish(patience_s=580)
        assert forecast.latest.pools[0].nodes == len(nodes)
        assert forecast.of_jobs((job(2, "cpu", 0),), NOW_S) == {"2": 0}

    asyncio.run(use())
    assert not caplog.records
    assert psutil.Process().memory_info().rss - before < 20 << 20


SECTION = QueueSection(
    queue_rules(Settings(), UTC), PartitionModes(Mode.SHADOW, {}), PlanSettings(), 0.0, AgentSettings()
)


def test_only_jobs_that_may_be_delayed_get_an_allowance_and_a_deadline_gets_the_quantile(
    simulated: Path, tmp_path: Path
) -> None:
    simulated.touch()
    comments = ("offpeak:delay=12h", "", "offpeak:now", "offpeak:deadline=2099-01-01T00:00")
    jobs = tuple(job(number, "gpu", 1, comment) for number, comment in enumerate(comments))
    observed: Any = SimpleNamespace(view=VIEW, traits=TRAITS)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))

    async def use() -> None:
        forecast = WaitForecast()
        history = WaitHistory(forecast, ledger)
        facts = QueueFacts(NOW_S, jobs, Ranking.VALUE)
        undelayed = QueueFacts(NOW_S, jobs[1:3], Ranking.VALUE)
        assert add_wait_allowances(undelayed, observed, history, SECTION).wait_allowances == {}
        await forecast.finish(patience_s=300)
        assert forecast.at_s == -1
        assert add_wait_allowances(facts, observed, history, SECTION).wait_allowances == {}
        await forecast.finish(patience_s=300)
        found = add_wait_allowances(facts, observed, history, SECTION).wait_allowances
        assert found == {
            "0": WaitAllowance(5 * HOUR_S),
            "3": WaitAllowance(history.quantile_s(5 * HOUR_S, 90), 90),
        }
        assert found["3"].wait_s == pytest.approx(5 * HOUR_S * math.exp(0.9), abs=120)
        forecast.latest = NO_WAITS
        assert add_wait_allowances(facts, observed, history, SECTION).wait_allowances == {}

    asyncio.run(use())
    ledger.close()
