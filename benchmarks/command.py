"""The whole command, cold process: time, peak memory, first run ever, size of the install, speed of reading logs."""

import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.bars import Measured
from benchmarks.engine import best_s
from benchmarks.logs import REBUILT, price_file, trace_file
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak_studies.workloads.generate import lublin_jobs

OFFPEAK = Path(sys.executable).with_name("offpeak")
ROUNDS = 5
NOTHING_MORE: Mapping[str, str] = {}
MEASURE = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def command_benchmarks() -> Iterator[Measured]:
    """Measure what a user waits for."""
    with tempfile.TemporaryDirectory() as folder:
        log, prices, data = _large_log(Path(folder))
        arguments = ["simulate", str(log), "--prices", str(prices), "--policy", "easy,greedy,knapsack", "--json"]
        runs = [run_cold(*arguments) for _ in range(ROUNDS + 1)][1:]
        yield Measured("simulate, three policies, cold process", median(run[0] for run in runs), "s", 4.0, False, data)
        yield Measured("its peak memory", median(run[1] for run in runs), "MiB", 400.0, False, data)
        sample = ["simulate", str(SAMPLE_LOG), "--prices", str(SAMPLE_PRICES), "--json"]
        first_s, _ = run_cold(*sample, environment={"NUMBA_CACHE_DIR": str(Path(folder) / "cache")})
        yield Measured("simulate, first run ever, nothing compiled", first_s, "s", 20.0, False, "bundled sample")
        estimated = [run_cold("estimate", *arguments[1:4], "--time-zone", "Europe/Berlin") for _ in range(ROUNDS + 1)][
            1:
        ]
        yield Measured("estimate, all levers, cold", median(run[0] for run in estimated), "s", 10.0, False, data)
        plain_s = median(run[0] for run in runs)
        report = [run_cold(*arguments, "--report", str(Path(folder) / "report.html")) for _ in range(ROUNDS)]
        written_s = median(run[0] for run in report) - plain_s
        yield Measured("writing its report, beyond that", written_s, "s", 3.0, False, data)
        size_mb = (Path(folder) / "report.html").stat().st_size / 1e6
        yield Measured("the report's size", size_mb, "MB", 8.0, False, data)
        yield from _reading(Path(folder))
    yield Measured("default install, .venv", _default_install_mb(), "MB", 700.0, False, "make install, fresh")


def _large_log(folder: Path) -> tuple[Path, Path, str]:
    """Return a log of a large site, prices, and what they are."""
    if trace_file("SDSC-BLUE").exists():
        return trace_file("SDSC-BLUE"), price_file(), "SDSC-BLUE, DE-LU prices"
    log = folder / "generated.swf.gz"
    jobs = lublin_jobs(230_000, machine_size=1152, seed=1, load=0.8)
    write_swf(jobs, log, processors=1152, unix_start_s=1_680_000_000, zone="Europe/Berlin")
    return log, SAMPLE_PRICES, "generated log of 230,000 jobs"


def run_cold(*arguments: str, environment: Mapping[str, str] = NOTHING_MORE) -> tuple[float, float]:
    """Return wall time [s] and peak memory [MiB] of one run of `offpeak`."""
    # A process begins with its parent's peak memory: the parent must be a small one.
    measure = [sys.executable, "-ISc", MEASURE, str(OFFPEAK), *arguments]
    answer = subprocess.run(measure, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    wall_s, kib = answer.stderr.split()[-2:]
    return float(wall_s), float(kib) / 1024


def _reading(folder: Path) -> Iterator[Measured]:
    names = [name for name in (*REBUILT, "LCG-2005") if trace_file(name).exists()]
    for name in names or ["generated"]:
        plain = folder / f"{name}.swf"
        packed = trace_file(name) if names else folder / "generated.swf.gz"
        plain.write_bytes(gzip.decompress(packed.read_bytes()))
        lines = plain.read_bytes().count(b"\n")
        if lines > 100_000:
            rate = lines / best_s(partial(read_swf, plain), ROUNDS)
            yield Measured(f"reading {name}", rate / 1e6, "million lines/s", 1.0, True, "plain text")


def _default_install_mb() -> float:
    """Return the size of a virtualenv with the package and what it needs, without the tools of development."""
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", str(root)], check=True, stderr=subprocess.DEVNULL)
        used = subprocess.run(["du", "-sk", folder], check=True, capture_output=True, text=True).stdout
    return int(used.split()[0]) / 1000
