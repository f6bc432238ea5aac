"""The demo's jobs and prices, and what its story makes of a cluster's logs."""

import re
import time
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
from powered_fixtures import StartPowered

from benchmarks.demo_slurm import JOBS, OFF_PEAK, ON_PEAK, Story, energy_drawn, job_arrivals, price_fall_s, write_prices
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import value_at
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout
from offpeak.prices.peak import Peak, parse_peak_rule
from offpeak.settings.replay import FeedSettings, PriceSettings
from predictors.price_forecast import price_curve
from predictors.site_sources import build_price_source


def test_the_same_jobs_come_each_time() -> None:
    assert job_arrivals() == job_arrivals()
    assert sum(job.tasks for job in job_arrivals()) == JOBS
    assert {job.job_class.name for job in job_arrivals()} == {"render", "archive", "train", "solver"}
    assert {job.gpus for job in job_arrivals()} == {0, 1, 2}
    assert len({job.memory_mib for job in job_arrivals()}) > 3
    assert [job.options[-1] for job in job_arrivals() if job.tasks > 1] == ["--array=1-6%3"]


def test_the_price_falls_at_a_full_minute(tmp_path: Path) -> None:
    file, fall_s = tmp_path / "prices_eur_per_mwh.csv", price_fall_s(1_800_000_001.0)
    assert (fall_s % 60, 45 <= fall_s - 1_800_000_001 <= 105) == (0, True)
    write_prices(file, fall_s)
    prices = read_series(file, PriceFileLayout())
    assert value_at(prices, np.array([fall_s - 1, fall_s], dtype=np.int64)).tolist() == [ON_PEAK, OFF_PEAK]


@pytest.mark.parametrize("begin_s", [1_800_000_001.0, 1_799_971_130.0, 1_799_971_190.0])
def test_the_agent_sees_the_price_fall_at_that_minute(tmp_path: Path, begin_s: float) -> None:
    """The last two fall at a midnight and shortly after one."""
    file, fall_s = tmp_path / "prices_eur_per_mwh.csv", int(price_fall_s(begin_s))
    write_prices(file, fall_s)
    source, _ = build_price_source(FeedSettings(cache=tmp_path), PriceSettings(file=file))
    curve = price_curve(source, parse_peak_rule("day-mean", zone=UTC), UTC, now_s=int(begin_s), ahead_s=DAY_S)
    assert curve.peak_at(int(begin_s)) is curve.peak_at(fall_s - 1) is Peak.ON_PEAK
    assert curve.peak_until_s(int(begin_s)) == fall_s
    assert curve.peak_at(fall_s) is Peak.OFF_PEAK
    assert curve.peak_until_s(fall_s) >= fall_s + 3600
    assert curve.basis[curve.at(fall_s)] == "published"


def test_nodes_jobs_and_the_queue_are_reported(start_powered: StartPowered) -> None:
    cluster = start_powered(PoweredPlan(nodes=1, shutdown_s=0.2))
    story, begin_s = Story(cluster, time.time()), time.monotonic()
    ids = cluster.jobs.submit("--job-name=render", seconds=60, count=3, watts=320)
    cluster.wait(lambda: cluster.nodes["node1"].watts == 320, what="the draw to rise")
    first, *_ = lines = story.news()
    assert (len(lines), "job 1 (render) starts on node1" in first) == (1, True)
    assert "1 of 1 nodes on, 320 W; 2 jobs wait, 1 run or start, 0 done" in story.summary()
    cluster.run("scontrol", "top", ids[2])
    (line,) = story.news()
    assert "the queue is in another order: 3, 2; it was 2, 3" in line
    cluster.nodes["node1"].pull_the_plug()
    cluster.wait(lambda: cluster.nodes["node1"].asleep_s > 0, what="the node to be off")
    assert re.fullmatch(
        r"The outlets delivered [\d.]+ Wh; a node slept \d+ % of the time\.",
        energy_drawn(cluster, time.monotonic() - begin_s),
    )
