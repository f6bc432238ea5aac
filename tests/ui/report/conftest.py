"""Small comparisons of which reports are made."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from offpeak.jobs import Jobs, Names, Trace
from offpeak.settings import CarbonSettings, PriceSettings, SchedulingSettings, Settings
from sim_backend.case import prepare
from sim_backend.compare import compare
from sim_backend.policy import parse_policy
from sim_backend.spread import Spread
from sim_backend.workloads.lublin import lublin_jobs
from ui.report.subject import Subject, subject_of

NODES = 32
A_MONDAY_S = 1_675_641_600  # 2023-02-06 in UTC
TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-21:00,zone=Europe/Berlin"

Make = Callable[..., Subject]


@pytest.fixture(scope="session")
def make() -> Make:
    """Makes the subject of a report: some jobs of a dated log in Berlin, under the policies."""

    def made(
        jobs: Jobs | int = 150,
        *policies: str,
        tariff: str = TARIFF,
        carbon: str | None = None,
        spreads: tuple[Spread, ...] = (),
        names: Names | None = None,
        **of_trace: object,
    ) -> Subject:
        if isinstance(jobs, int):
            jobs = lublin_jobs(jobs, machine_size=NODES, seed=4, load=0.9 if jobs > 1 else None)
        trace = Trace("a log", jobs, NODES, None, A_MONDAY_S, "Europe/Berlin", names=names or Names())
        settings = Settings(
            prices=PriceSettings(tariff=tariff),
            carbon=CarbonSettings(carbon),
            scheduling=SchedulingSettings(policies=policies or ("easy", "greedy")),
        )
        trace = replace(trace, **of_trace)
        prepared = prepare(trace, settings, start=None)
        chosen = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
        return subject_of(trace, prepared, compare(prepared.case, chosen), spreads)

    return made


@pytest.fixture(scope="session")
def subject(make: Make) -> Subject:
    """A comparison of two policies."""
    return make()
