"""Prints how near the engine comes to a real Slurm.

python -m benchmarks.fidelity [easy] [greedy]: the homogeneous sample on Slurm and in the engine; engine: without Slurm.
python -m benchmarks.fidelity mixed POLICY HOUR_S FILE: run the mixed workload on Slurm, an hour in HOUR_S seconds.
python -m benchmarks.fidelity compare FILE...: compare such runs with the mixed engine.
python -m benchmarks.fidelity limited HOUR_S FILE: run half of that workload with limited capacity, and compare.

There may be several runs of each policy; at least one must be of the own order.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fidelity import homogeneous
from benchmarks.fidelity.live import LIMITED, LiveRun, live_run
from benchmarks.fidelity.replay import Clock
from benchmarks.fidelity.report import limited_lines, report_lines
from benchmarks.fidelity.workload import DAYS, JOBS, mixed_day


def main(arguments: Sequence[str]) -> None:
    """Run what the arguments say and print it."""
    match arguments:
        case ["mixed", policy, hour_s, file]:
            run = live_run(mixed_day(), Clock(float(hour_s)), policy)
            run.write(Path(file))
            print(run.timing)
        case ["limited", hour_s, file]:
            day = mixed_day(JOBS // 2, DAYS / 2)
            run = live_run(day, Clock(float(hour_s)), LIMITED)
            run.write(Path(file))
            for line in limited_lines(day, [run]):
                print(line, flush=True)
        case ["compare", *files]:
            for line in report_lines(mixed_day(), [LiveRun.read(Path(file)) for file in files]):
                print(line, flush=True)
        case _:
            homogeneous.main(arguments or ("easy", "greedy"))


if __name__ == "__main__":
    main(sys.argv[1:])
