"""The agent with queue = "plan": what its rounds write, what they record, and what an event changes."""

import asyncio
import time
from pathlib import Path

import pytest
from planned_site import HOUR_S

from offpeak.ledger.ledger import Ledger
from offpeak.model.request import Chunk
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import PowerSettings, PriceSettings
from offpeak.settings.table import Settings
from plugin.scheduler.port import Ranking
from services.agent import queue_loop, site_context
from services.agent.agent import SiteAgent
from services.agent.loop import ProblemLog
from sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from sim_backend.scheduler.simulated import SimulatedScheduler


class Stage:
    """A node that is taken for an hour of the two that electricity is dear, and two jobs that wait for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
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
            agent=AgentSettings(mode=mode, queue="plan", state_folder=folder),
            plan=PlanSettings(events=self.events),
            power=PowerSettings(classes=("hot=400W", "cool=100W")),
            prices=PriceSettings(tariff=f"on=90EUR/MWh,off=30EUR/MWh,hours={from_}-{until},zone=UTC"),
        )
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.ledger.ready()
        self.agent = SiteAgent(
            site_context.make_site_context(settings), self.ledger, ProblemLog(), clock=lambda: float(self.now_s)
        )

    def rounds(self, count: int = 1) -> None:
        async def some() -> None:
            await self.agent.prices.round()
            for _ in range(count):
                self.agent.observer.forget()
                await self.agent.outside.round()
                await self.agent.queue_loop.round()

        asyncio.run(some())

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
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stage.now_s + hours * HOUR_S)) for hours in (0, 5))
    stage.events.write_text(f'[[event]]\nbegin = {begin}\nend = {end}\ncap_w = 200\nreason = "the grid asks"\n')
    stage.rounds()
    standing = stage.agent.planner.latest
    assert standing is not None
    assert [(move.job_id, move.why) for move in standing.moves] == [
        (job, "a power cap has changed") for job in dict.fromkeys(move.job_id for move in standing.moves)
    ]
    begins = {job.job_id: job.begin_s for job in stage.scheduler.view().jobs}
    assert (begins["2"] == stage.now_s + 5 * HOUR_S) is done
    assert (begins["2"] is None) is not done
    asyncio.run(stage.agent.close())
