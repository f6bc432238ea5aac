"""Prices of the coming 36 hours: from a cold process that fits its models to two years, and asked once more."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.bars import Measured
from benchmarks.logs import price_file

ROUNDS = 5
CHILD = """
import sys, time
from pathlib import Path
import numpy as np
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import PriceSteps, price_history
from offpeak.predictors.prices.predictor import PricePredictor
history = price_history(read_series(Path(sys.argv[1]), PriceFileLayout()))
two_years = history.take(np.arange(min(len(history), 2 * 365 * 96)))
now_s = two_years.steps.end_s
predictor = PricePredictor(parse_zone("Europe/Berlin"), holidays="DE")
predictor.learn(two_years, now_s)
coming = PriceSteps(now_s, 3600, 36)
predictor.predict(coming, now_s)
begin = time.perf_counter()
predictor.predict(coming, now_s)
print(time.perf_counter() - begin)
"""


def price_forecast_benchmarks() -> Iterator[Measured]:
    """Measure the wait of a scheduler at its start, and at each query."""
    runs = [_run() for _ in range(ROUNDS)]
    data = f"hourly prices of {price_file().name}"
    yield Measured("price forecast, 36 hours, cold process", median(run[0] for run in runs), "s", 3.0, False, data)
    warm_ms = 1000 * median(run[1] for run in runs)
    yield Measured("the same, asked again", warm_ms, "ms", 50.0, False, data)


def _run() -> tuple[float, float]:
    """Return how long a process took, reading and imports included, and its second forecast [s]."""
    begin = time.perf_counter()
    answer = subprocess.run(
        [sys.executable, "-c", CHILD, str(price_file())], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - begin, float(answer.stdout)
