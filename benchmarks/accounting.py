"""A dump of `sacct` of a million lines, with and without job steps: reading it, and `offpeak estimate` on it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from statistics import median

from benchmarks.bars import Measured
from benchmarks.command import ROUNDS, run_cold
from benchmarks.logs import price_file
from benchmarks.sacct_dump import write_sacct
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

LINES = 1_000_000
START_S = 1_767_225_600  # 2026-01-01 00:00 UTC
NODES, PROCESSORS_PER_NODE = 1024, 48
WIDEST = 32
LOAD = 0.75
JOB_SHARE_WITH_STEPS = 0.4
CHILD = """
import sys, time
from datetime import UTC
from pathlib import Path
begin = time.perf_counter()
from offpeak.errors import BadTrace
from offpeak.files import text_of_file
from offpeak.sim_backend.traces.slurm.read import sacct_trace
sacct_trace(text_of_file(Path(sys.argv[1]), BadTrace), sys.argv[1], lenient=False, zone=UTC)
seconds = time.perf_counter() - begin
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 1024)
"""


def accounting_benchmarks() -> Iterator[Measured]:
    """Measure time and memory of reading, each in a process of its own, imports included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.txt"
        for steps, data in ((False, "all jobs"), (True, "two fifths jobs, the others steps")):
            write_dump(path, LINES, steps=steps)
            answer = subprocess.run(
                [sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True
            )
            seconds, mib = map(float, answer.stdout.split())
            yield Measured("reading a million lines of sacct", seconds, "s", 2.5, False, data)
            yield Measured("its peak memory", mib, "MiB", 600.0, False, data)
            command = ("estimate", str(path), "--prices", str(price_file()), "--time-zone", "UTC")
            runs = [run_cold(*command) for _ in range(ROUNDS)]
            yield Measured("estimate, cold process", median(run[0] for run in runs), "s", 10.0, False, data)
            yield Measured("its peak memory", max(run[1] for run in runs), "MiB", 1024.0, False, data)


def write_dump(path: Path, lines: int, *, steps: bool) -> None:
    """Write a dump of about that many lines; with `steps` each job has its batch step and every other one an extern."""
    count = int(lines * JOB_SHARE_WITH_STEPS) if steps else lines
    jobs = lublin_jobs(count, machine_size=WIDEST, seed=1, load=LOAD * NODES / WIDEST)
    easy = parse_policy("easy", SchedulingSettings())
    schedule = replay(jobs, jobs.node_power_w, machine_size=NODES, policy=easy)
    write_sacct(
        replace(jobs, logged_start_s=schedule.start_s),
        path,
        unix_start_s=START_S,
        zone=UTC,
        processors_per_node=PROCESSORS_PER_NODE,
    )
    if steps:
        header, *rest = path.read_text().splitlines()
        path.write_text("\n".join([header, *_with_steps(rest)]) + "\n")


def _with_steps(lines: list[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        number, _, user, account, partition, state, *rest, energy, _ = line.split("|")
        # The energy stands with the steps only, as where Slurm could not sum it up.
        yield "|".join((number, number, user, account, partition, state, *rest, "", f"app{index % 100}"))
        for name in ("batch", "extern")[: 1 + index % 2]:
            step = f"{number}.{name}"
            yield "|".join((step, step, "", account, "", state, *rest, energy, name))
