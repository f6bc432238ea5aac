"""`python -m benchmarks.boot_delay [LOG ...]`: sleeping rules beside the time-out that uses as much energy.

Each log is replayed under EASY with each rule, and with the time-out, in whole seconds, whose energy is next to the
rule's: the energy of a time-out rises with its length. Printed are the time-out, and the rule's mean boot delay and
power cycles divided by those of the time-out.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from benchmarks.logs import trace_file
from benchmarks.modern_sites import SITES
from offpeak.model.constants import DAY_S
from offpeak.power.capacity.levers import add_sleeping_nodes
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import fleet_of, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOGS = ("KTH-SP2", "CTC-SP2", "SDSC-BLUE", *SITES)
RULES = ("forecast-late:10min", "forecast-late:1h", "planned:10min", "planned:20min")
START = "2024-01-01"


class SleepCosts(NamedTuple):
    """Energy, mean boot delay of a job, mean wait, and power cycles of a replay."""

    energy_kwh: float
    boot_delay_s: float
    wait_s: float
    cycles: int


def replays(name: str) -> Callable[[str], SleepCosts]:
    """Return a function that replays the log with a sleeping rule."""
    prices = Settings(prices=PriceSettings(tariff="on=100EUR/MWh,off=100EUR/MWh"))
    prepared = prepare(read_swf(SITES.get(name, trace_file(name))), prices, start=START)
    case, _ = add_sleeping_nodes(prepared.case, prepared.units_per_node)

    @cache
    def replayed(rule: str) -> SleepCosts:
        capacity = make_capacity_policy(rule, fleet_of(case), CapacitySettings())
        compared = compare(case, (parse_policy("easy", SchedulingSettings()).on(capacity),))
        (outcome,), (run,) = compared.outcomes, compared.runs
        assert run.sleep is not None
        figures = run.sleep.figures
        return SleepCosts(outcome.energy_kwh, figures.mean_boot_delay_s, outcome.mean_wait_s, figures.power_cycles)

    return replayed


def find_timeout(replayed: Callable[[str], SleepCosts], energy_kwh: float) -> str:
    """Return the time-out whose energy is nearest to that: of two neighbours the longer one if it uses no more."""
    low_s, high_s = 0, DAY_S
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if replayed(f"timeout:{middle_s}s").energy_kwh <= energy_kwh:
            low_s = middle_s
        else:
            high_s = middle_s
    return f"timeout:{low_s}s"


def rows(name: str) -> Iterator[str]:
    """Yield a line for each rule."""
    replayed = replays(name)
    for rule in RULES:
        own = replayed(rule)
        usual_rule = find_timeout(replayed, own.energy_kwh)
        usual = replayed(usual_rule)
        yield (
            f"{name} {rule}, {usual_rule}: delay {own.boot_delay_s / usual.boot_delay_s:.2f}, "
            f"cycles {own.cycles / usual.cycles:.2f}, wait {own.wait_s:,.0f} s instead of {usual.wait_s:,.0f} s, "
            f"energy {100 * (own.energy_kwh / usual.energy_kwh - 1):+.2f} %"
        )


def main() -> None:
    """Print the rows of the logs."""
    for name in sys.argv[1:] or LOGS:
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main()
