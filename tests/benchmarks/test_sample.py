"""The bundled sample is what the generators make, and what the documents say of it."""

import gzip
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sample import make_sample
from offpeak.model.job_power import MeasuredPower, default_power_model
from sim_backend.sample import MONDAY, SAMPLE_LOG, SAMPLE_PRICES, SAMPLE_SACCT
from sim_backend.traces.read import read_log
from sim_backend.traces.swf.read import read_swf


def test_the_bundled_files_are_what_the_generators_make(tmp_path: Path) -> None:
    make_sample(tmp_path)
    for bundled in (SAMPLE_LOG, SAMPLE_SACCT, SAMPLE_PRICES):
        # Unpacked: builds of zlib differ in how they pack.
        assert gzip.decompress((tmp_path / bundled.name).read_bytes()) == gzip.decompress(bundled.read_bytes())


def test_bundled_sample_is_reproducible_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    for folder in (tmp_path, tmp_path / "again"):
        make_sample(folder)
    for bundled in (SAMPLE_LOG, SAMPLE_SACCT, SAMPLE_PRICES):
        assert (tmp_path / bundled.name).read_bytes() == (tmp_path / "again" / bundled.name).read_bytes()


def test_the_log_is_a_spring_on_a_busy_cluster() -> None:
    trace = read_swf(SAMPLE_LOG)
    jobs = trace.jobs
    assert (len(jobs), trace.processors, trace.time_zone) == (4500, 128, "Europe/Berlin")
    assert (trace.rejected, trace.notes, trace.skipped_lines) == ((), (), 0)
    assert 60 <= jobs.submit_s[-1] / 86_400 <= 90
    assert (jobs.size * jobs.runtime_s).sum() / (128 * (jobs.submit_s[-1] - jobs.submit_s[0])) == pytest.approx(0.75)
    assert default_power_model(jobs) == MeasuredPower()


def test_the_accounting_is_of_the_same_jobs() -> None:
    log, accounting = read_swf(SAMPLE_LOG).jobs, read_log(str(SAMPLE_SACCT), lenient=False, zone=MONDAY.tzinfo or UTC)
    assert accounting.units_per_node == 1
    assert (np.sort(accounting.jobs.job_id) == log.job_id).all()
    assert (accounting.jobs.size == log.size).all()
    # The first job to end begins the log: of what it and those beside it ran before, nothing is left.
    assert (accounting.jobs.runtime_s != log.runtime_s).sum() < 10


def test_the_sample_is_small() -> None:
    assert sum(bundled.stat().st_size for bundled in (SAMPLE_LOG, SAMPLE_SACCT, SAMPLE_PRICES)) < 300_000
