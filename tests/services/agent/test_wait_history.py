"""The agent learns how far expected waits are off, from jobs that waited for nodes only, and keeps it."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from queue_site import a_job

from offpeak.ledger.ledger import Ledger
from offpeak.model.request import Chunk
from offpeak.plugin.federation.site_report import NO_WAITS, ExpectedWaits
from offpeak.plugin.scheduler.job import Job, JobState, join_array_tasks
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.power.expected_waits import simulate_waits
from offpeak.predictors.recent_errors import ErrorsBySize
from offpeak.services.agent import site_context, wait_forecast
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.wait_forecast import LONGEST_GAP_S, MEMORY_NAME, WaitForecast, WaitHistory
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PowerSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

HOUR_S = 3600
T = 1_795_215_600
EXPECTED_S = 600
LATEST_S = 12 * HOUR_S


class FixedForecast(WaitForecast):
    """Expects the same wait of every job, simulated from a view at T."""

    at_s = T

    def __init__(self, *known: str) -> None:
        super().__init__()
        self.at_s, self.known = T, known

    def of_jobs(self, jobs: Iterable[Job], now_s: int) -> dict[str, int]:  # noqa: ARG002
        return {job.job_id: EXPECTED_S for job in jobs if not self.known or job.job_id in self.known}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    yield ledger
    ledger.close()


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return the list of what is learned: predicted and actual waits."""
    found: list[tuple[float, float]] = []
    monkeypatch.setattr(ErrorsBySize, "add", lambda _, predicted_s, wait_s: found.append((predicted_s, wait_s)))
    return found


NEW: Mapping[str, Any] = {"submit_s": T + 10}
RUNS: Mapping[str, Any] = NEW | {"state": JobState.RUNNING, "start_s": T + 500, "hosts": "n1"}
HELD: Mapping[str, Any] = NEW | {"state": JobState.HELD}
DEPENDS: Mapping[str, Any] = NEW | {"reason": "Dependency"}
LATER: Mapping[str, Any] = NEW | {"begin_s": T + 300}
DUE: Mapping[str, Any] = LATER | {"reason": "BeginTime"}
GONE = None
STORIES: Mapping[str, tuple[list[tuple[int, Mapping[str, Any] | None]], list[int]]] = {
    "waits for nodes": ([(60, NEW), (480, NEW), (540, RUNS)], [490]),
    "starts between two views": ([(540, RUNS)], [490]),
    "starts and ends between two views": ([(540, RUNS | {"state": JobState.ENDED})], [490]),
    "waits for the boot of its nodes": ([(60, NEW), (400, NEW | {"state": JobState.STARTS}), (540, RUNS)], [490]),
    "was in the queue before": ([(0, NEW | {"submit_s": T - 50}), (540, RUNS | {"submit_s": T - 50})], []),
    "ran before": ([(0, RUNS | {"start_s": T - 5}), (60, NEW), (540, RUNS)], []),
    "is cancelled": ([(60, NEW), (540, NEW | {"state": JobState.ENDED, "start_s": T + 500})], []),
    "vanishes": ([(60, NEW), (120, GONE), (540, RUNS | {"start_s": T + 130})], []),
    "is delayed": ([(60, LATER), (360, LATER), (540, RUNS | LATER)], [200]),
    "is delayed and keeps the reason": ([(120, DUE), (360, DUE), (390, DUE), (540, RUNS | LATER)], [200]),
    "is delayed after it came": ([(60, NEW), (120, LATER), (360, LATER), (540, RUNS | LATER)], [200]),
    "is delayed and starts between two views": ([(120, LATER), (540, RUNS | LATER)], [200]),
    "is held and released": ([(60, HELD), (120, HELD), (180, NEW), (540, RUNS)], [320]),
    "is held after it came": ([(60, NEW), (120, HELD), (180, NEW), (540, RUNS)], [320]),
    "is released and starts between two views": ([(60, HELD), (540, RUNS)], []),
    "depended on another job": ([(60, DEPENDS), (180, NEW), (540, RUNS)], [320]),
    "waits for a limit": ([(60, NEW), (120, NEW | {"reason": "QOSGrpNodeLimit"}), (540, RUNS)], []),
    "is requeued": ([(60, NEW), (540, RUNS), (600, NEW), (900, RUNS | {"start_s": T + 880})], [490]),
    "starts in a gap": ([(60, NEW), (61 + LONGEST_GAP_S, RUNS)], []),
    "starts before the clock went back": ([(600, NEW), (540, RUNS)], []),
}


@pytest.mark.quick
@pytest.mark.parametrize("story", STORIES)
def test_a_wait_counts_from_the_moment_at_which_the_job_could_start(
    ledger: Ledger, learned: list[tuple[float, float]], story: str
) -> None:
    views, waits_s = STORIES[story]
    history = WaitHistory(FixedForecast(), ledger)
    if views[0][0]:
        history.observe((), T)
    for at_s, fields in views:
        history.observe((a_job(1, **fields),) if fields else (), T + at_s)
    assert learned == [(EXPECTED_S, wait_s) for wait_s in waits_s]


@pytest.mark.quick
def test_a_job_teaches_nothing_if_its_wait_was_not_expected_or_the_simulation_counted_it(
    ledger: Ledger, learned: list[tuple[float, float]]
) -> None:
    forecast = FixedForecast("1", "2")
    history = WaitHistory(forecast, ledger)
    history.observe((), T)
    history.observe((a_job(1, **NEW), a_job(3, **NEW)), T + 60)
    forecast.at_s = T + 90
    history.observe((a_job(1, **NEW), a_job(2, submit_s=T + 80), a_job(3, **NEW)), T + 120)
    history.observe([a_job(number, **RUNS) for number in (1, 2, 3)], T + 540)
    assert learned == [(EXPECTED_S, 490)]


@pytest.mark.quick
def test_an_array_teaches_the_wait_of_its_first_task(ledger: Ledger, learned: list[tuple[float, float]]) -> None:
    def task(number: int, **fields: Any) -> Job:
        return a_job(number, job_id=f"7[{number}]", array_id="7[]", plain=False, **fields)

    history = WaitHistory(FixedForecast(), ledger)
    history.observe((), T)
    cancelled = {"state": JobState.ENDED, "start_s": T + 70}
    for at_s, tasks in (
        (60, [task(number, **NEW) for number in range(4)]),
        (120, [task(0, **NEW | cancelled), *(task(number, **NEW) for number in range(1, 4))]),
        (540, [task(1, **RUNS), task(2, **RUNS | {"start_s": T + 490}), task(3, **NEW)]),
        (900, [task(1, **RUNS), task(2, **RUNS), task(3, **RUNS | {"start_s": T + 880})]),
    ):
        history.observe(join_array_tasks(tasks), T + at_s)
    assert learned == [(EXPECTED_S, 480)]


@pytest.mark.quick
def test_errors_last_over_a_restart_and_a_damaged_text_begins_anew(ledger: Ledger) -> None:
    def restarted() -> list[int]:
        history = WaitHistory(FixedForecast(), ledger)
        history.load()
        return [history.quantile_s(wait_s, percent) for wait_s in (0, 700, 90_000) for percent in (50, 90, 99)]

    prior = restarted()
    history = WaitHistory(FixedForecast(), ledger)
    history.load()
    history.observe((), T)
    history.observe([a_job(number, **RUNS) for number in range(40)], T + 540)
    history.save()
    # Settings that are read again load nothing over what was learned since.
    history.load()
    learned = history.quantile_s(700, 90)
    assert learned == pytest.approx(550 / 660 * 760 - 60, abs=1)
    assert restarted() != prior
    assert restarted()[4] == learned
    for text in (
        "",
        "[]",
        "7",
        "{",
        '{"0.error": [1]}',
        json.dumps({"0.error": ["x"], "0.shift": [1], "0.assumed": 0}),
    ):
        ledger.remember(MEMORY_NAME, text)
        assert restarted() == prior


async def simulate_here(view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> ExpectedWaits:
    """Simulate waits as the process of a simulation does."""
    return simulate_waits(view, run_s, shared=traits.shared_nodes, partitions=traits.partitions, limits=traits.limits)


class BusySite:
    """A node that is always busy with jobs whose run times nobody can predict, and a job with a deadline.

    Electricity is cheaper later: the job is delayed to its latest begin time.
    """

    STEP_S = 120

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
        self.now_s = T
        cluster = SimulatedCluster({"n1": SimNode("n1", 8)})
        self.scheduler = SimulatedScheduler(cluster, clock=lambda: self.now_s, ranking=Ranking.VALUE)
        self.rng = np.random.default_rng(3)
        monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: self.scheduler)
        monkeypatch.setattr(wait_forecast, "simulate_apart", simulate_here)
        hours = (time.strftime("%Y-%m-%d %H:00", time.gmtime(T + at * HOUR_S)) for at in range(72))
        prices = folder / "prices.csv"
        prices.write_text("time,price\n" + "".join(f"{hour},{200 - 2 * at}\n" for at, hour in enumerate(hours)))
        self.settings = Settings(
            agent=AgentSettings(mode="active", state_folder=folder, deadline_wait_percent=percent),
            power=PowerSettings(classes=("job=400W",)),
            prices=PriceSettings(file=prices, layout="time=time,value=price,unit=EUR/MWh,zone=UTC"),
            ledger=LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"),
        )
        self.start_agent()

    def start_agent(self) -> None:
        ledger = Ledger(self.settings.ledger)
        ledger.ready()
        site = site_context.make_site_context(self.settings)
        self.agent = SiteAgent(site, ledger, ProblemLog(), clock=lambda: float(self.now_s))

    def submit(self, run_s: float, limit_s: int, comment: str = "") -> SimJob:
        job = SimJob(0, "job", "ann", "batch", (Chunk(1, 8),), run_s, self.now_s, limit_s, comment=comment)
        return self.scheduler.cluster.submit(job)

    def run_until(self, end_s: int) -> None:
        async def rounds() -> None:
            await self.agent.prices.round()
            while self.now_s < end_s:
                if self.rng.random() < 0.1:
                    self.submit(float(self.rng.lognormal(6.3, 1.0)), 2 * HOUR_S)
                self.agent.observer.forget()
                await self.agent.queue_loop.round()
                await self.agent.waits.finish(patience_s=60)
                self.now_s += self.STEP_S

        asyncio.run(rounds())

    def restart(self) -> None:
        assert asyncio.run(self.agent.close()) == 0
        self.start_agent()


def release_job(site: BusySite) -> SimJob:
    """Let the agent learn and restart, and return a job that has started since, LATEST_S after now at the latest."""
    # While a job may be delayed, waits are simulated.
    site.submit(HOUR_S, HOUR_S, "offpeak:delay=3d")
    site.run_until(site.now_s + 12 * HOUR_S)
    learned_s = site.agent.wait_history.quantile_s(1800, 90)
    site.restart()
    deadline = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(site.now_s + LATEST_S + HOUR_S))
    job = site.submit(HOUR_S, HOUR_S, f"offpeak:deadline={deadline}")
    site.run_until(site.now_s + 1)
    assert site.agent.wait_history.quantile_s(1800, 90) == learned_s
    while job.state is JobState.PENDING:
        site.run_until(site.now_s + HOUR_S)
    asyncio.run(site.agent.close())
    return job


@pytest.mark.quick
def test_a_job_does_not_wait_behind_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[set[str]] = []

    async def simulate(view: SchedulerView, *_: object) -> ExpectedWaits:
        views.append({job.job_id for job in view.jobs})
        return NO_WAITS

    site = BusySite(tmp_path, monkeypatch, 90)
    monkeypatch.setattr(wait_forecast, "simulate_apart", simulate)
    site.rng = np.random.default_rng(0)
    site.submit(HOUR_S, HOUR_S)
    job = site.submit(HOUR_S, HOUR_S, "offpeak:delay=12h")
    site.run_until(T + 1)
    assert views == [{"1"}]
    assert job.begin_s > T
    asyncio.run(site.agent.close())


def test_a_job_with_a_deadline_is_released_earlier_for_a_larger_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed_s = {}
    for percent in (50, 90):
        folder = tmp_path / str(percent)
        folder.mkdir()
        site = BusySite(folder, monkeypatch, percent)
        job = release_job(site)
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
            query = "SELECT reason FROM decisions WHERE subject = ?"
            reasons = [reason for (reason,) in ledger.execute(query, (f"job {job.job_id}",))]
        assert any(f"({percent} % of jobs wait no longer)" in reason for reason in reasons)
        allowed_s[percent] = job.submit_s + LATEST_S - job.begin_s
        assert job.begin_s <= (job.start_s or 0) <= job.submit_s + LATEST_S
    assert 0 < allowed_s[50] < allowed_s[90]
