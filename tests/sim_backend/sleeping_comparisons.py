"""Small comparisons in which nodes sleep, at prices that change by the hour."""

from datetime import tzinfo

import numpy as np
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_series import Series
from offpeak.plugin.capacity.policies import energy_aware, timeout, two_level
from offpeak.prices.peak import AboveDayMean
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine, fleet_of
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

UNITS = 32
A_MONDAY_S = 1_675_641_600


def sleeping_comparison(jobs: int, *, seed: int, units_per_node: int, zone: tzinfo) -> Comparison:
    """Return some jobs on nodes that are always on, and under three policies that let them sleep."""
    start_s = A_MONDAY_S - 2 * DAY_S + np.arange(24 * 60) * 3600
    value = np.random.default_rng(seed).normal(50, 60, len(start_s))
    series = Series(start_s, int(start_s[-1]) + 3600, value, "EUR/MWh", "test")
    prices = ReplayPrices(AlignedSeries(series, A_MONDAY_S, zone, ()), AboveDayMean(zone))
    node_class = bundled_node_class("server")
    log = lublin_jobs(jobs, machine_size=UNITS, seed=seed, load=0.5 if jobs > 1 else None)
    machine = ReplayMachine(UNITS, node_class.idle_w / units_per_node)
    nodes = PoweredMachine(UNITS, units_per_node, node_class)
    case = ReplayCase(log, log.node_power_w, machine, prices, None, nodes)
    easy, fleet, settings = parse_policy("easy", SchedulingSettings()), fleet_of(case), CapacitySettings()
    asleep = (timeout(fleet, settings, "5min"), energy_aware(fleet, settings, ""), two_level(fleet, settings, "50%"))
    return compare(case, (easy, *(easy.on(capacity) for capacity in asleep)))


@st.composite
def sleeping_comparisons(draw: st.DrawFn, zones: st.SearchStrategy[tzinfo]) -> Comparison:
    """Comparisons of up to 60 jobs on nodes of one or more units."""
    return sleeping_comparison(
        draw(st.integers(1, 60)),
        seed=draw(st.integers(0, 10**6)),
        units_per_node=draw(st.sampled_from([1, 2, 8])),
        zone=draw(zones),
    )
