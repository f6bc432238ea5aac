"""Soaks on both kinds of priority, prints what was measured beside its bars, and ends with 1 if one was missed."""

import argparse
import sys

from rich.console import Console

from benchmarks.__main__ import print_table
from benchmarks.soak_agent.figures import figures
from benchmarks.soak_agent.plan import KillsPlan
from benchmarks.soak_agent.run import killed
from benchmarks.soak_agent.stage import lacking_programs

FEW = 20


def main() -> int:
    """Return 0 if every bar was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_agent", description=__doc__)
    parser.add_argument("--kills", type=int, default=KillsPlan.kills, help="how many, with each kind of priority")
    parser.add_argument("--seed", type=int, default=KillsPlan.seed, help="of jobs, moments and faults")
    arguments = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    if lacking := lacking_programs():
        console.print(f"no soak of kills without {', '.join(lacking)}: .ci/prepare-peers installs them")
        return 1
    soaks = [
        killed(KillsPlan(arguments.kills, seed=arguments.seed, priority=kind)) for kind in ("basic", "multifactor")
    ]
    measured = [figure for found in soaks for figure in figures(found)]
    print_table(measured)
    for error in [error for found in soaks for error in found.broken][:FEW]:
        console.print(error, markup=False, soft_wrap=True)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
