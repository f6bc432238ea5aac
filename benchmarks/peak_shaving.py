"""Peak shaving on real logs: what the demand charge of a year falls by, and what jobs wait for it.

`python -m benchmarks.peak_shaving [LOG ...]` replays each log with all nodes sleeping by the usual time-out, without
and with peak shaving, for several targets and longest waits. The bound is that of any schedule that slows no job down:
a job draws its power, and the other nodes are asleep at best in the quarter-hour that has most of the job.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC

import numpy as np

from benchmarks.logs import trace_file
from offpeak.model.constants import QUARTER_S
from offpeak.plugin.capacity.peak_shaving import PeakTarget
from offpeak.power.capacity.levers import add_sleeping_nodes
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.prices.bill import demand_cost
from offpeak.prices.tariff_file import parse_tariff_file
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import ReplayCase, fleet_of, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOGS = ("KTH-SP2", "CTC-SP2", "SDSC-BLUE")
START = "2024-01-01"
SLEEP = "timeout:10min"
TARGETS = (0.90, 0.95)
"""Shares of the highest quarter-hour without peak shaving."""
LONGEST_H = (12, 24, 48, 96)
TARIFF = parse_tariff_file(
    b'currency = "EUR"\n[[energy]]\nprice = "100EUR/MWh"\n[[demand]]\nprice = "120EUR/kW"\nper = "year"\n', "flat", UTC
)


@dataclass(frozen=True)
class ReplayedYear:
    """The charge of a replay [EUR], its highest quarter-hour [W], and the mean wait of its jobs."""

    charge: float
    highest_w: float
    mean_wait_s: float


def replayed(case: ReplayCase, peak: PeakTarget | None = None, *, sleep: str | None = SLEEP) -> ReplayedYear:
    """Return what came of a replay under EASY, with peak shaving for a target; without `sleep` nodes are always on."""
    policy = parse_policy("easy", SchedulingSettings())
    if sleep is not None:
        policy = policy.on(make_capacity_policy(sleep, fleet_of(case), CapacitySettings()), peak)
    compared = compare(case, (policy,))
    demand = compared.runs[0].demand
    assert demand is not None
    assert demand.peak_kw is not None
    return ReplayedYear(demand.cost, 1000 * demand.peak_kw, compared.outcomes[0].mean_wait_s)


def bound(case: ReplayCase) -> float:
    """Return the least charge of any schedule that runs each job at its power in the year of its submission."""
    jobs, nodes = case.jobs, case.nodes
    assert nodes is not None
    (node_class,) = nodes.classes
    asleep_w = min(depth.power_w for depth in node_class.depths)
    others_w = (case.machine.size - jobs.size) / nodes.units_per_node * asleep_w
    # Of a job of two quarter-hours or more one is full; of a shorter one half lies in one.
    share = np.minimum(jobs.runtime_s / (2 * QUARTER_S), 1.0)
    alone_w = jobs.size * case.node_power_w * share + others_w
    submit_s = jobs.submit_s + case.prices.aligned.offset_s
    quarter_s = submit_s // QUARTER_S * QUARTER_S
    start_s = np.arange(quarter_s[0], quarter_s[-1] + QUARTER_S, QUARTER_S)
    power_w = np.zeros(len(start_s))
    np.maximum.at(power_w, (quarter_s - start_s[0]) // QUARTER_S, alone_w)
    return demand_cost(TARIFF, start_s, power_w)


def rows(name: str) -> Iterator[str]:
    """Yield a line for each replay of a log."""
    prices = Settings(prices=PriceSettings(tariff="on=100EUR/MWh,off=100EUR/MWh"))
    prepared = prepare(read_swf(trace_file(name)), prices, start=START)
    flat, _ = add_sleeping_nodes(prepared.case, prepared.units_per_node)
    case = replace(flat, prices=replace(flat.prices, tariff=TARIFF))
    usual = replayed(case)
    least = 100 * (bound(case) / usual.charge - 1)
    yield f"{name}: {usual.charge:,.0f} EUR, wait {usual.mean_wait_s:,.0f} s; no schedule is below {least:+.1f} %"
    for share in TARGETS:
        for hours in LONGEST_H:
            found = replayed(case, PeakTarget(share * usual.highest_w, hours * 3600))
            charge, wait = found.charge / usual.charge, found.mean_wait_s / usual.mean_wait_s
            changes = f"{100 * (charge - 1):+.1f} %, wait {100 * (wait - 1):+.1f} %"
            yield f"  target {share:.0%}, at most {hours} h: {changes}"


def main() -> None:
    """Print the rows of the logs."""
    for name in sys.argv[1:] or LOGS:
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main()
