"""`offpeak generate` as a cold process: a million jobs with modelled estimates, written as plain text."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.command import MEASURE, OFFPEAK

ROUNDS = 5
JOBS = 1_000_000


def generate_benchmarks() -> Iterator[Measured]:
    """Measure time (the best of several: the disk has its moods) and peak memory of each kind of model."""
    for model in ("batch", "mixed"):
        runs = [_run(model) for _ in range(ROUNDS)]
        what = f"generate, {JOBS:,} {model} jobs, cold process"
        yield Measured(what, min(wall_s for wall_s, _ in runs), "s", 5.0, False, "128 nodes, load 0.7")
        yield Measured("its peak memory", max(mib for _, mib in runs), "MiB", 600.0, False, "128 nodes, load 0.7")


def _run(model: str) -> tuple[float, float]:
    """Return wall time [s] and peak memory [MiB]."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(OFFPEAK), "generate", str(Path(folder) / "log.swf"), "--jobs", str(JOBS), "--nodes", "128"]
        # A process begins with its parent's peak memory: the parent has to be a small one.
        measure = [sys.executable, "-ISc", MEASURE, *command, "--model", model]
        answer = subprocess.run(measure, check=True, capture_output=True, text=True)
    wall_s, kib = answer.stderr.split()[-2:]
    return float(wall_s), float(kib) / 1024
