"""The agent keeps expected waits: nothing waits for them for long, and old ones do not count."""

import asyncio
import threading
from datetime import UTC
from types import SimpleNamespace

import pytest

from offpeak.errors import OffpeakError
from offpeak.model.cluster import Partition
from offpeak.model.request import Chunk, Request
from plugin.federation.site_report import NO_WAITS, ExpectedWaits, NodePart, PartWaits, PoolWaits
from plugin.queue_hook.facts import QueueFacts
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from power.live import expected_waits
from services.agent.queue_loop import add_expected_waits
from services.agent.wait_forecast import EVERY_S, WaitForecast

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


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let a simulation end when the event is set."""
    ends = threading.Event()

    def simulate(*_: object, **__: object) -> ExpectedWaits:
        assert ends.wait(20)
        return WAITS

    monkeypatch.setattr(expected_waits, "simulate_waits", simulate)
    return ends


def test_a_slow_simulation_is_not_waited_for_and_the_result_before_counts(simulated: threading.Event) -> None:
    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=0.05)
        assert forecast.latest is NO_WAITS
        simulated.set()
        await forecast.finish(patience_s=20)
        assert (forecast.latest, forecast.at_s) == (WAITS, NOW_S)
        simulated.clear()
        forecast.begin(SchedulerView(NOW_S + 60, (), (), ()), TRAITS, {})
        await forecast.finish(patience_s=0.05)
        assert forecast.latest == WAITS
        simulated.set()
        await forecast.finish(patience_s=20)

    asyncio.run(use())


def test_each_job_gets_the_wait_of_its_own_request_and_old_waits_do_not_count(simulated: threading.Event) -> None:
    simulated.set()

    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=20)
        jobs = (job(1, "gpu", 1), job(2, "cpu", 0), job(3, "cpu", 1), job(4, "cpu", 0)._replace(request=None))
        assert forecast.of_jobs(jobs, NOW_S + EVERY_S) == {"1": 5 * HOUR_S, "2": 0}
        assert forecast.of_jobs(jobs, NOW_S + 4 * EVERY_S) == {}

    asyncio.run(use())


def test_a_simulation_that_fails_leaves_no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> ExpectedWaits:
        raise OffpeakError("jobs of the QOS a, b may stop each other")

    monkeypatch.setattr(expected_waits, "simulate_waits", fail)

    async def use() -> None:
        forecast = WaitForecast()
        forecast.begin(VIEW, TRAITS, {})
        await forecast.finish(patience_s=20)
        assert forecast.latest is NO_WAITS
        assert forecast.of_jobs((job(1, "gpu", 1),), NOW_S) == {}

    asyncio.run(use())


def test_only_jobs_that_may_be_delayed_have_a_wait_in_the_facts(simulated: threading.Event) -> None:
    simulated.set()
    jobs = (job(1, "gpu", 1), job(2, "gpu", 1, comment=""), job(3, "gpu", 1, comment="offpeak:now"))
    observed = SimpleNamespace(view=VIEW, traits=TRAITS)

    async def use() -> None:
        forecast = WaitForecast()
        facts = QueueFacts(NOW_S, jobs, Ranking.VALUE)
        undelayed = QueueFacts(NOW_S, jobs[1:], Ranking.VALUE)
        assert add_expected_waits(undelayed, observed, forecast, UTC).expected_wait_s == {}  # type: ignore[arg-type]
        await forecast.finish(patience_s=20)
        assert forecast.at_s == -1
        assert add_expected_waits(facts, observed, forecast, UTC).expected_wait_s == {}  # type: ignore[arg-type]
        await forecast.finish(patience_s=20)
        found = add_expected_waits(facts, observed, forecast, UTC)  # type: ignore[arg-type]
        assert found.expected_wait_s == {"1": 5 * HOUR_S}

    asyncio.run(use())
