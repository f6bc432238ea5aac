"""A whole study, from nothing: `python -m benchmarks.study`. Minutes, so it is no part of `make bench`."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Measured, machine
from benchmarks.command import OFFPEAK
from benchmarks.logs import SHARED

BAR_S = 600.0


def study_benchmarks() -> Iterator[Measured]:
    """Measure the study on all logs that there are, else on the generated one, with the default replays."""
    logs = SHARED / "traces"
    options = ["--logs", str(logs)] if logs.is_dir() else []
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        study = [str(OFFPEAK), "study", "dynamic-pricing", *options, "--out", out]
        subprocess.run(study, check=True, stdout=subprocess.DEVNULL)
        study_s = time.perf_counter() - begin
        experiments = (Path(out) / "results.jsonl").read_bytes().count(b"\n")
    data = f"{'all logs' if options else 'a generated log'}, {experiments:,} experiments"
    yield Measured("study of dynamic pricing, all tables", study_s, "s", BAR_S, False, data)


if __name__ == "__main__":
    print(machine())
    for measured in study_benchmarks():
        verdict = "reached" if measured.reached else "MISSED"
        print(f"{measured.what}: {measured.value:,.0f} s, target {measured.bar:,.0f} s {verdict} ({measured.data})")
