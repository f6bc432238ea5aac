"""Growth: generated logs of the same load, up to ten million jobs, each in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Measured

SIZES = (100_000, 1_000_000, 10_000_000)
DATA = "generated log (Lublin), 256 nodes, load 0.7"


def growth_benchmarks() -> Iterator[Measured]:
    """Measure time a job and peak memory as the log grows."""
    figures = {count: _child(count) for count in SIZES}
    for count, (ns_a_job, mib) in figures.items():
        yield Measured(f"EASY with energy and cost, {count:,} jobs", ns_a_job, "ns/job", float("inf"), False, DATA)
        yield Measured(f"peak memory, {count:,} jobs", mib, "MiB", 1536.0, False, DATA)
    growth = figures[SIZES[-1]][0] / figures[SIZES[0]][0]
    yield Measured("time a job, ten million jobs over a hundred thousand", growth, "times", 1.2, False, DATA)


def _child(count: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.growth", str(count)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(answer[0]), float(answer[1])


def main(count: int) -> None:
    """Generate, replay and charge one log at a tariff; print ns a job and the peak memory in MiB."""
    from benchmarks.engine import case_of, jobs_per_s
    from offpeak.settings.replay import PriceSettings, SchedulingSettings
    from offpeak_studies.workloads.generate import lublin_jobs

    case = case_of(lublin_jobs(count, machine_size=256, seed=1, load=0.7), 256, PriceSettings())
    rate = jobs_per_s(case, "easy", SchedulingSettings())
    # Not getrusage: a process begins with its parent's peak there.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(1e9 / rate, int(peak.split()[1]) / 1024)


if __name__ == "__main__":
    main(int(sys.argv[1]))
