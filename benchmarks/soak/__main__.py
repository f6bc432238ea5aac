"""Soaks, prints what was measured beside its bars, and ends with 1 if one of them was missed."""

import argparse
import asyncio
import sys

from rich.console import Console

from benchmarks.__main__ import print_table
from benchmarks.soak.figures import figures
from benchmarks.soak.plan import SoakPlan, own_network
from benchmarks.soak.run import soaked

FEW = 20


def main() -> int:
    """Return 0 if every bar was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it is in the room's time")
    parser.add_argument("--speed", type=float, default=float("inf"), help="at most so many times as fast as real time")
    parser.add_argument("--seed", type=int, default=1, help="of the faults, of what nodes do, and of the orders")
    arguments = parser.parse_args()
    plan = SoakPlan(own_network(), sweeps=round(arguments.minutes * 60 / SoakPlan.step_s), seed=arguments.seed)
    result = asyncio.run(soaked(plan, speed=arguments.speed))
    measured = figures(result)
    print_table(measured)
    for error in (*result.seen.wrong, *result.seen.leaks, *result.seen.lacking)[:FEW]:
        Console(stderr=True, highlight=False).print(error, markup=False, soft_wrap=True)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
