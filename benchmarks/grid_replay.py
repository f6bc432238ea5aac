"""A grid replayed from nothing: XSEDE's eight systems, 10,000 jobs by minimum cost flow, waits and prices predicted."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.logs import SHARED
from offpeak.executor import LocalProcesses
from offpeak_studies.day_ahead.inputs import DAYS, make_forecasts, places
from offpeak_studies.day_ahead.run import DayAheadExperiment, run
from offpeak_studies.day_ahead.tables import START

FOLDER = SHARED / "xsede_2014"
BAR_S = 180.0
DATA = "XSEDE, June 2014; processor time"


def grid_replay_benchmarks() -> Iterator[Measured]:
    """Measure forecasts and replay once, after the kernels have been compiled; nothing without the folder of prices."""
    if not FOLDER.is_dir():
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        begin_s = time.process_time()
        make_forecasts(places(FOLDER, out), DAYS, LocalProcesses(1))
        forecast_s = time.process_time() - begin_s
        run(DayAheadExperiment(START, 0, 0, jobs=100), FOLDER, out)
        begin_s = time.process_time()
        run(DayAheadExperiment(START, 1, 0), FOLDER, out)
        replay_s = time.process_time() - begin_s
    yield Measured("grid of 8 sites, 10,000 jobs, mcmf, all predicted", forecast_s + replay_s, "s", BAR_S, False, DATA)
    yield Measured("the same without the forecasts of prices", replay_s, "s", float("inf"), False, DATA)
