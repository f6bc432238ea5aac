"""Prints how near the engine comes to a real Slurm.

python -m benchmarks.fidelity [easy] [greedy]: the homogeneous sample on Slurm and in the engine; engine: without Slurm.
python -m benchmarks.fidelity planned [POLICY]: the sample on nodes that a plan of the queue wakes, on both.
python -m benchmarks.fidelity mixed POLICY HOUR_S FILE: run the mixed workload on Slurm, an hour in HOUR_S seconds.
python -m benchmarks.fidelity compare FILE...: compare such runs with the mixed engine.
python -m benchmarks.fidelity clocks FILE...: write the table of waits under runs of the own order at several clocks.

There may be several runs of each policy. Runs of all policies but `limited` need at least one run of the own order;
`limited`, the OLS policy with limited capacity, runs a workload of half as many jobs in one day.
"""

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from benchmarks.fidelity import homogeneous, planned
from benchmarks.fidelity.live import LIMITED, LiveRun, live_run
from benchmarks.fidelity.replay import Clock
from benchmarks.fidelity.report import limited_lines, report_lines, write_clocks
from benchmarks.fidelity.workload import DAYS, JOBS, MixedDay, mixed_day


def day_of(policy: str) -> MixedDay:
    """Return the workload of a policy's runs."""
    return mixed_day(JOBS // 2, DAYS / 2) if policy == LIMITED else mixed_day()


def main(arguments: Sequence[str]) -> None:
    """Run what the arguments say and print it."""
    match arguments:
        case ["mixed", policy, hour_s, file]:
            run = live_run(day_of(policy), Clock(float(hour_s)), policy)
            run.write(Path(file))
            print(run.timing)
        case ["compare", *files]:
            runs = [LiveRun.read(Path(file)) for file in files]
            limited = [run for run in runs if run.policy == LIMITED]
            others = [run for run in runs if run.policy != LIMITED]
            for line in chain(report_lines(mixed_day(), others), limited_lines(day_of(LIMITED), limited)):
                print(line, flush=True)
        case ["planned", *policy]:
            print("\n".join(planned.lines(*policy)))
        case ["clocks", first, *others]:
            write_clocks(mixed_day(), [LiveRun.read(Path(file)) for file in (first, *others)])
        case _:
            homogeneous.main(arguments or ("easy", "greedy"))


if __name__ == "__main__":
    main(sys.argv[1:])
