"""The machine, the four scenarios, and what the paper leaves open, all in one place."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from offpeak.model.facility import (
    Facility,
    TemperatureSegments,
    daily_temperature,
    facility_named,
    temperature_segments,
)
from offpeak.model.local_time import DAY_S
from plugin.planner.problem import NO_LIMIT, NodeCapacities, Rates

NODES, NODE_CORES, NODE_MEMORY_MB = 300, 32, 128 * 1024
LEAST_W, MOST_W = 7.8, 11.11
REVENUE_PER_CORE_H = 1.2
"""EUR. The paper's table 2 over its table 1 is a daily profit of about 262,000 EUR, of 9,600 cores kept busy."""
PRICE_PER_KWH = 0.15
"""EUR; the paper has a constant and does not print it."""


@dataclass(frozen=True)
class Scenario:
    """A cooling and a season: outside temperature is a day's sine around its mean."""

    facility: str
    mean_c: float
    swing_c: float

    @property
    def segments(self) -> TemperatureSegments:
        """The day's stretches of nearly one temperature."""
        return temperature_segments(*daily_temperature(self.mean_c, self.swing_c))


SCENARIOS: Mapping[str, Scenario] = {
    "air winter": Scenario("air", 2.0, 3.0),
    "air summer": Scenario("air", 26.0, 6.0),
    "hybrid winter": Scenario("hybrid", 2.0, 3.0),
    "hybrid summer": Scenario("hybrid", 26.0, 6.0),
}


def machine(nodes: int) -> NodeCapacities:
    """Return so many of the paper's nodes."""
    return NodeCapacities(np.full(nodes, NODE_CORES), np.full(nodes, NODE_MEMORY_MB), np.zeros(nodes, np.int64))


def facility_of(scenario: Scenario, machine: NodeCapacities) -> Facility:
    """Return the scenario's cooling of such a machine."""
    return facility_named(scenario.facility, full_power_w=float(machine.cores.sum()) * MOST_W)


def rates_of(scenario: Scenario, horizon_s: int) -> Rates:
    """Return the segments of the scenario's day, one day after the other."""
    segments, days = scenario.segments, horizon_s // DAY_S
    edges = (segments.edge_s[:-1] + DAY_S * np.arange(days)[:, None]).reshape(-1)
    count = len(edges)
    temperature_c = np.tile(segments.temperature_c, days)
    return Rates(np.append(edges, horizon_s), np.full(count, PRICE_PER_KWH), temperature_c, np.full(count, NO_LIMIT))


def least_pue(scenario: Scenario) -> float:
    """Return the best PUE of any hour on the paper's machine: no plan cools for less."""
    return float(facility_of(scenario, machine(NODES)).pue_range(scenario.segments.temperature_c)[0].min())
