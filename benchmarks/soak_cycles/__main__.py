"""Soaks, prints what was measured beside its bars, and ends with 1 if one of them was missed."""

import argparse
import asyncio
import sys

from rich.console import Console

from benchmarks.__main__ import print_table
from benchmarks.soak_cycles.bmcs import lacking_programs
from benchmarks.soak_cycles.figures import figures
from benchmarks.soak_cycles.plan import CyclesPlan
from benchmarks.soak_cycles.run import cycled

FEW = 20


def main() -> int:
    """Return 0 if every bar was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_cycles", description=__doc__)
    parser.add_argument("--cycles", type=int, default=CyclesPlan.cycles, help="how many are to be completed")
    parser.add_argument("--bmcs", type=int, default=CyclesPlan.bmcs, help="how many ipmi_sim run")
    parser.add_argument("--seed", type=int, default=CyclesPlan.seed, help="of jobs, faults and durations")
    arguments = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    if lacking := lacking_programs():
        console.print(f"no soak of cycles without {', '.join(lacking)}: apt-get install openipmi libopenipmi-dev gcc")
        return 1
    result = asyncio.run(cycled(CyclesPlan(arguments.bmcs, arguments.cycles, arguments.seed)))
    measured = figures(result)
    print_table(measured)
    for error in result.witness.broken[:FEW]:
        console.print(error, markup=False, soft_wrap=True)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
