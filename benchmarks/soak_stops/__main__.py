"""Soaks, prints what was measured beside its bars, and ends with 1 if one of them was missed."""

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping

from rich.console import Console

from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from benchmarks.soak_stops.run import ENDS_S, Found, soaked
from benchmarks.soak_stops.site import StopsPlan
from benchmarks.soak_stops.witness import WAITS_S

FEW = 20
NO_BAR = float("inf")


def main() -> int:
    """Return 0 if every bar was reached."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.soak_stops", description=__doc__)
    arguments.add_argument("--cycles", type=int, default=StopsPlan.cycles, help="how many are to be completed")
    arguments.add_argument("--nodes", type=int, default=StopsPlan.nodes, help="how many virtual nodes there are")
    arguments.add_argument("--seed", type=int, default=StopsPlan.seed, help="of jobs, faults and moments")
    arguments.add_argument("--log", help="a file for the agent's log")
    given = arguments.parse_args()
    if given.log:
        logging.basicConfig(filename=given.log, level=logging.INFO, format="%(asctime)s %(message)s")
    else:
        logging.disable(logging.CRITICAL)
    found = soaked(StopsPlan(given.nodes, given.cycles, given.seed))
    measured = list(figures(found))
    print_table(measured)
    errors = Console(stderr=True, highlight=False)
    for line in found.broken[:FEW]:
        errors.print(line, markup=False, soft_wrap=True)
    return 0 if all(each.reached for each in measured) else 1


def figures(found: Found) -> Iterator[Measured]:
    """Yield all figures."""
    plan = found.plan
    data = f"{plan.nodes} virtual nodes, seed {plan.seed}, {found.took_s:.0f} s; {_counted(found.orders)}"
    yield Measured("nodes put to sleep and woken again", found.cycles, "cycles", plan.cycles, True, data)
    data = "jobs without power, jobs that wait for dark nodes, modes, holds"
    yield Measured("broken invariants", len(found.broken), "", 0, False, data)
    yield Measured("disturbances", found.events.total(), "", NO_BAR, False, _counted(found.events))
    yield Measured("other faults", found.faults.total(), "", NO_BAR, False, _counted(found.faults))
    data = f"{found.resumes} calls of the resume program; time of the site"
    yield Measured("longest wait of a job", found.longest_wait_s, "s", WAITS_S, False, data)
    yield Measured("slowest stop", found.slowest_stop_s, "s", ENDS_S, False, "from SIGTERM to the end")
    yield Measured("most wakes within a minute", found.most_wakes, "nodes", NO_BAR, False, "time of the site")
    yield Measured(
        "nodes closed after the end", len(found.left_closed), "nodes", 0, False, ", ".join(found.left_closed)
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
