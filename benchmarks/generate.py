"""`offpeak generate` as a cold process: a million jobs with modelled estimates, written as plain text."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.command import run_cold

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
        out = str(Path(folder) / "log.swf")
        return run_cold("generate", out, "--jobs", str(JOBS), "--nodes", "128", "--model", model)
