"""Training on a large site's jobs: boosted trees of run times, in a process of their own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bars import Measured
from benchmarks.command import MEASURE
from benchmarks.logs import rebuilt_logs
from offpeak.model.jobs import Jobs
from offpeak.predictors.run_times import RunTimeQuantity
from offpeak.predictors.trees.boosted import BoostedTrees
from offpeak.predictors.trees.forest import GrowthSchedule, grow

JOBS = 200_000
ROOT = Path(__file__).resolve().parents[1]


def job_prediction_benchmarks() -> Iterator[Measured]:
    """Measure processor time and peak memory of learning so many jobs and growing the trees from them."""
    _, data = training_jobs()
    measure = [sys.executable, "-ISc", MEASURE, sys.executable, "-m", "benchmarks.predict_jobs"]
    answer = subprocess.run(measure, check=True, capture_output=True, text=True, cwd=ROOT)
    learned_s, grown_s, _, kib = map(float, answer.stderr.split()[-4:])
    yield Measured(f"run times: learning {JOBS:,} jobs, one processor", learned_s, "s CPU", float("inf"), False, data)
    yield Measured("that, and growing the trees", learned_s + grown_s, "s CPU", 60.0, False, data)
    yield Measured("its peak memory", float(kib) / 1024, "MiB", 1024.0, False, data)


def training_jobs() -> tuple[Jobs, str]:
    """Return so many jobs of the largest log that has them, and what they are."""
    logs, data = rebuilt_logs()
    name, (jobs, _) = list(logs.items())[3]
    times = -(-JOBS // len(jobs))
    return jobs.take(np.tile(np.arange(len(jobs)), times)[:JOBS]), f"{name} of {data}"


def train() -> tuple[float, float]:
    """Return the processor time [s] of learning and of growing."""
    jobs, _ = training_jobs()
    predictor = BoostedTrees("", RunTimeQuantity(), schedule=GrowthSchedule(least=JOBS + 1))
    begin_s = time.process_time()
    predictor.learn(jobs, int(jobs.submit_s[-1]))
    learned_s = time.process_time()
    grow(predictor.lessons(), predictor.growth)
    return learned_s - begin_s, time.process_time() - learned_s


if __name__ == "__main__":
    print(*train(), file=sys.stderr)
