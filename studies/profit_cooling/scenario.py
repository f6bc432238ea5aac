"""The machine, the four scenarios, and what the paper leaves open, all in one place."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from offpeak.facility_file import facility_named
from offpeak.temperature import Segments, day_model, segments_of
from plugin.planner.problem import Machine

NODES, NODE_CORES, NODE_MEMORY_MB = 300, 32, 128 * 1024
LEAST_W, MOST_W = 7.8, 11.11
FULL_W = NODES * NODE_CORES * MOST_W
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
    def segments(self) -> Segments:
        """The day's stretches of nearly one temperature."""
        return segments_of(*day_model(self.mean_c, self.swing_c))


SCENARIOS: Mapping[str, Scenario] = {
    "air winter": Scenario("air", 2.0, 3.0),
    "air summer": Scenario("air", 26.0, 6.0),
    "hybrid winter": Scenario("hybrid", 2.0, 3.0),
    "hybrid summer": Scenario("hybrid", 26.0, 6.0),
}


def machine(nodes: int) -> Machine:
    """Return so many of the paper's nodes."""
    return Machine(np.full(nodes, NODE_CORES), np.full(nodes, NODE_MEMORY_MB), np.zeros(nodes, np.int64))


def least_pue(scenario: Scenario, full_power_w: float) -> float:
    """Return the best PUE of any hour: no plan cools for less."""
    facility = facility_named(scenario.facility, full_power_w=full_power_w)
    return float(facility.pue_range(scenario.segments.temperature_c)[0].min())
