"""Small comparisons of which reports are made."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from offpeak.model.jobs import Jobs, LogNames, Trace
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.replay import CarbonSettings, PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import CapacitySettings, Settings
from offpeak.sim_backend.case.replay_case import PreparedCase, fleet_of, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.replications import ReplicationSpread
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.ui.report.figure import Figure
from offpeak.ui.report.subject import ReportSubject, subject_of
from offpeak_studies.workloads.generate import lublin_jobs

NODES = 32
A_MONDAY_S = 1_675_641_600  # 2023-02-06 in UTC
TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-21:00,zone=Europe/Berlin"

Make = Callable[..., ReportSubject]


@pytest.fixture(scope="session")
def make() -> Make:
    """Makes the subject of a report: some jobs of a dated log in Berlin, under the policies."""

    def made(
        jobs: Jobs | int = 150,
        *policies: str,
        tariff: str = TARIFF,
        carbon: str | None = None,
        capacities: tuple[str, ...] = (),
        node_class: str = "sketch",
        spreads: tuple[ReplicationSpread, ...] = (),
        names: LogNames | None = None,
        **of_trace: object,
    ) -> ReportSubject:
        if isinstance(jobs, int):
            jobs = lublin_jobs(jobs, machine_size=NODES, seed=4, load=0.9 if jobs > 1 else None)
        trace = Trace("a log", jobs, NODES, None, A_MONDAY_S, "Europe/Berlin", names=names or LogNames())
        settings = Settings(
            prices=PriceSettings(tariff=tariff),
            carbon=CarbonSettings(carbon),
            scheduling=SchedulingSettings(policies=policies or ("easy", "greedy")),
            power=PowerSettings(node_class=node_class if capacities else None),
            capacity=CapacitySettings(policies=capacities or ("always-on",)),
        )
        trace = replace(trace, **of_trace)
        prepared = prepare(trace, settings, start=None)
        chosen = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
        if capacities:
            chosen = powered(chosen, prepared, settings.capacity)
        return subject_of(trace, prepared, compare(prepared.case, chosen), spreads)

    return made


def powered(policies: tuple[Policy, ...], prepared: PreparedCase, settings: CapacitySettings) -> tuple[Policy, ...]:
    """Return each policy with each capacity policy of the settings."""
    fleet = fleet_of(prepared.case)
    capacities = [make_capacity_policy(name, fleet, settings) for name in settings.policies]
    return tuple(policy.on(capacity) for capacity in capacities for policy in policies)


@pytest.fixture(scope="session")
def sleeping(make: Make) -> ReportSubject:
    """A comparison of four capacity policies on one discipline."""
    return make(300, "easy", capacities=("always-on", "timeout:5min", "energy-aware", "two-level:70%"))


@pytest.fixture(scope="session")
def drawn() -> Callable[[Figure], list[dict[str, Any]]]:
    """Returns the traces of a figure as the page reads them, their arrays unpacked."""

    def unpacked(value: Any, arrays: list[dict[str, str]]) -> Any:
        if not (isinstance(value, dict) and "array" in value):
            return value
        array = arrays[value["array"]]
        return np.frombuffer(base64.b64decode(array["bdata"]), f"<{array['dtype']}").astype(float)

    def traces(figure: Figure) -> list[dict[str, Any]]:
        read = json.loads(figure.json())
        return [{key: unpacked(value, read["arrays"]) for key, value in trace.items()} for trace in read["data"]]

    return traces


@pytest.fixture(scope="session")
def subject(make: Make) -> ReportSubject:
    """A comparison of two policies."""
    return make()
