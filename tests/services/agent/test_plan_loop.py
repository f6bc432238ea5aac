"""The agent with queue = "plan", and caps on power under every policy: what rounds write, record and let go."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from planned_site import HOUR_S

from offpeak.errors import CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.port import Ranking
from offpeak.services.agent import queue_loop, site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.reports import make_snapshot
from offpeak.services.agent.restore import give_back
from offpeak.services.agent.service import NO_MODES
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import PowerSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler


class Stage:
    """A node that is taken for an hour of the two that electricity is dear, and two jobs that wait for it."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "active", queue: str = "plan"
    ) -> None:
        self.now_s = int(time.time()) // HOUR_S * HOUR_S
        self.scheduler = SimulatedScheduler(
            SimulatedCluster({"n1": SimNode("n1", 8)}), clock=lambda: self.now_s, ranking=Ranking.VALUE
        )
        for at, name in enumerate(("first", "hot", "cool")):
            job = SimJob(0, name, "ann", "batch", (Chunk(1, 8),), 9e9, self.now_s, HOUR_S, whole_nodes=True)
            self.scheduler.cluster.submit(job).priority = 1000 - at
            self.scheduler.view()
        monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: self.scheduler)
        from_, until = (time.strftime("%H:00", time.gmtime(self.now_s + hours * HOUR_S)) for hours in (0, 2))
        self.events = folder / "events.toml"
        self.events.write_text("")
        settings = Settings(
            agent=AgentSettings(mode=mode, queue=queue, state_folder=folder),
            plan=PlanSettings(events=self.events, openadr_least_w=10.0),
            power=PowerSettings(classes=("hot=400W", "cool=100W")),
            prices=PriceSettings(tariff=f"on=90EUR/MWh,off=30EUR/MWh,hours={from_}-{until},zone=UTC"),
        )
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.ledger.ready()
        self.agent = SiteAgent(
            site_context.make_site_context(settings), self.ledger, ProblemLog(), clock=lambda: float(self.now_s)
        )

    def rounds(self, count: int = 1, *, with_prices: bool = True) -> None:
        async def some() -> None:
            if with_prices:
                await self.agent.prices.round()
            for _ in range(count):
                self.agent.observer.forget()
                await self.agent.caps.read_file()
                await self.agent.caps.query_server()
                await self.agent.queue_loop.round()

        asyncio.run(some())

    def order(self, *, hours: tuple[float, float], cap_w: int) -> int:
        """Order a cap between these hours from now; return its end."""
        begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now_s + h * HOUR_S)) for h in hours)
        self.events.write_text(f'[[event]]\nbegin = {begin}\nend = {end}\ncap_w = {cap_w}\nreason = "the grid asks"\n')
        return self.now_s + int(hours[1] * HOUR_S)

    def begins(self) -> dict[str, int | None]:
        """Return the begin times that keep jobs back."""
        waiting = [job for job in self.scheduler.view().jobs if job.job_id != "1"]
        return {job.job_id: job.begin_s if job.begin_s and job.begin_s > self.now_s else None for job in waiting}

    def priorities(self) -> dict[str, int]:
        return {job.job_id: job.priority for job in self.scheduler.view().jobs}


@pytest.fixture(params=["active", "shadow"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    # Compiling the kernels takes half a minute on a busy machine, and must not use up the time of the search.
    monkeypatch.setattr(queue_loop, "SEARCH_S", 120.0)
    return Stage(tmp_path, monkeypatch, request.param)


def test_the_plan_is_carried_out_in_mode_active_only_and_a_cap_has_it_planned_anew(stage: Stage) -> None:
    stage.rounds(2)
    done = stage.agent.site.modes.usual == "active"
    priorities = stage.priorities()
    assert (priorities["3"] > priorities["2"]) is done
    assert stage.agent.queue.changed.latest["job 3"].reason.startswith("before 2: planned for ")
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    standing = stage.agent.planner.latest
    assert standing is not None
    snapshot = make_snapshot(stage.agent, None)
    assert snapshot is not None
    assert snapshot.planned_w == standing.power_profile.steps_w
    assert snapshot.planned_w[0] == (stage.now_s, round(standing.power_profile.power_w[0]))
    assert [(move.job_id, move.why) for move in standing.moves] == [
        (job, "a power cap has changed") for job in dict.fromkeys(move.job_id for move in standing.moves)
    ]
    begins = {job.job_id: job.begin_s for job in stage.scheduler.view().jobs}
    assert (begins["2"] == stage.now_s + 5 * HOUR_S) is done
    assert (begins["2"] is None) is not done
    asyncio.run(stage.agent.close())


ANY_POLICY = pytest.mark.parametrize("queue", ["greedy", "knapsack", "off", "plan"])
FREE = {"2": None, "3": None}


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    monkeypatch.setattr(queue_loop, "SEARCH_S", 120.0)
    stages: list[Stage] = []

    def started(**settings: str) -> Stage:
        stages.append(Stage(tmp_path, monkeypatch, **settings))
        return stages[-1]

    yield started
    for stage in stages:
        asyncio.run(stage.agent.close())


@ANY_POLICY
def test_a_cap_keeps_a_job_back_that_does_not_fit_and_lets_it_go_when_it_is_withdrawn(start, queue):
    stage = start(queue=queue)
    until_s = stage.order(hours=(0, 5), cap_w=200)
    stage.rounds(2)
    # The first job ends in an hour, and then the cool one fits below the cap.
    assert stage.begins() == {"2": until_s, "3": stage.now_s + HOUR_S}
    assert stage.agent.queue.changed.latest["job 2"].decided == "kept back"
    stage.events.write_text("")
    stage.rounds()
    assert stage.begins() == FREE


@ANY_POLICY
def test_no_job_takes_the_place_of_one_that_exceeds_the_cap(start, queue):
    stage = start(queue=queue)
    until_s = stage.order(hours=(0, 5), cap_w=50)
    stage.rounds()
    assert stage.begins() == {"2": until_s, "3": until_s}
    # The first job has ended.
    stage.now_s += HOUR_S
    assert {job.job_id: str(job.state) for job in stage.scheduler.view().jobs if job.job_id != "1"} == {
        "2": "pending",
        "3": "pending",
    }


@ANY_POLICY
def test_a_coming_cap_keeps_a_job_back_that_would_run_into_it(start, queue):
    stage = start(queue=queue)
    until_s = stage.order(hours=(1.5, 3), cap_w=200)
    stage.rounds()
    assert stage.begins()["2"] == until_s


@ANY_POLICY
def test_a_cap_that_all_jobs_together_cannot_exceed_delays_none(start, queue):
    stage = start(queue=queue)
    stage.order(hours=(0, 5), cap_w=100_000)
    stage.rounds()
    assert stage.begins() == FREE


@ANY_POLICY
def test_in_mode_shadow_a_cap_writes_nothing_and_says_what_it_would_do(start, queue):
    stage = start(mode="shadow", queue=queue)
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds(2)
    assert stage.begins() == FREE
    assert stage.agent.queue.changed.latest["job 2"].decided == "kept back"


@ANY_POLICY
def test_a_cap_holds_without_any_price(start, queue):
    stage = start(queue=queue)
    until_s = stage.order(hours=(0, 5), cap_w=200)
    stage.rounds(with_prices=False)
    assert stage.begins()["2"] == until_s


def test_a_cap_stays_in_force_while_its_source_cannot_be_read(start):
    stage = start(queue="greedy")
    until_s = stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    stage.events.write_text("[[event")
    stage.rounds()
    assert stage.begins()["2"] == until_s
    assert any(problem.startswith("events file: ") for problem in stage.agent.problem_log.problems)
    # It is over by its own end, also without its source.
    stage.now_s = until_s + 1
    assert stage.agent.caps.ahead() == ()


def test_running_jobs_above_a_cap_are_reported_once(start, caplog):
    stage = start(queue="greedy")
    stage.order(hours=(0, 5), cap_w=50)
    with caplog.at_level(logging.INFO, logger="offpeak"):
        stage.rounds()
        stage.now_s += 120
        stage.rounds(3)
    (problem,) = [each for each in stage.agent.problem_log.problems if each.startswith("caps on power")]
    assert (
        "(the grid asks) cannot hold yet: running jobs draw more, and only those that allow it are capped or stopped"
        in problem
    )
    assert sum("cannot hold yet" in record.message for record in caplog.records) == 1


def test_the_draw_that_forecasts_do_not_explain_counts_against_the_cap(start, monkeypatch):
    stage = start(queue="greedy")
    stage.order(hours=(2, 5), cap_w=200)
    stage.rounds()
    assert stage.begins()["3"] is None or stage.begins()["3"] < stage.now_s + 5 * HOUR_S
    monkeypatch.setattr(type(stage.agent.meters), "node_watts", {"n1": 5000.0})
    stage.rounds()
    assert stage.begins()["3"] == stage.now_s + 5 * HOUR_S


def test_an_agent_that_ends_in_the_middle_of_a_cap_lets_the_jobs_go(start):
    stage = start(queue="greedy")
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    assert None not in stage.begins().values()
    asyncio.run(give_back(stage.agent, stage.agent.modes, NO_MODES))
    assert stage.begins() == FREE


def test_an_agent_without_its_lease_has_not_let_the_jobs_go(start, monkeypatch):
    stage = start(queue="greedy")
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    held = stage.begins()
    with monkeypatch.context() as lost:
        lost.setattr(stage.ledger, "may_act", lambda: False)
        with pytest.raises(CannotWrite, match="the lease of the ledger is not valid"):
            asyncio.run(give_back(stage.agent, stage.agent.modes, NO_MODES))
    assert stage.begins() == held
    asyncio.run(give_back(stage.agent, stage.agent.modes, NO_MODES))
    assert stage.begins() == FREE


def test_an_agent_that_ends_in_the_middle_of_a_round_lets_the_jobs_go(start, monkeypatch):
    stage = start(queue="greedy")
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    assert None not in stage.begins().values()

    async def cut_off(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(stage.agent.planner, "add_plan", cut_off)
    with pytest.raises(asyncio.CancelledError):
        stage.rounds()
    asyncio.run(give_back(stage.agent, stage.agent.modes, NO_MODES))
    assert stage.begins() == FREE


def test_an_agent_that_ends_before_its_first_round_lets_the_jobs_go_that_the_last_one_has_held(start):
    stage = start(queue="greedy")
    stage.order(hours=(0, 5), cap_w=200)
    stage.rounds()
    assert None not in stage.begins().values()
    again = SiteAgent(stage.agent.site, stage.ledger, ProblemLog(), clock=lambda: float(stage.now_s))
    asyncio.run(give_back(again, again.modes, NO_MODES))
    assert stage.begins() == FREE


def test_a_delay_that_the_owner_allows_stays_when_the_agent_ends(start):
    stage = start(queue="greedy")
    next(job for job in stage.scheduler.cluster.jobs.values() if job.name == "hot").comment = "offpeak:delay=12h"
    stage.rounds()
    kept = stage.begins()
    assert kept["3"] is None
    assert kept["2"] is not None
    asyncio.run(give_back(stage.agent, stage.agent.modes, NO_MODES))
    assert stage.begins() == kept
