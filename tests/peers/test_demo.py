"""The demo's jobs and prices, and what its story makes of a cluster's logs."""

import time
from pathlib import Path

import numpy as np
from demo_plan import CHEAP, DEAR, JOBS, jobs_to_come, next_edge, write_prices
from demo_story import Story, saved
from powered_fixtures import StartPowered
from powered_plan import PoweredPlan

from offpeak.prices.file import read_series
from offpeak.prices.layout import Layout
from offpeak.prices.series import value_at


def test_the_same_jobs_come_each_time() -> None:
    assert jobs_to_come() == jobs_to_come()
    assert len(jobs_to_come()) == JOBS
    assert {job.kind.name for job in jobs_to_come()} == {"render", "archive"}


def test_the_price_falls_at_a_full_minute(tmp_path: Path) -> None:
    file, edge_s = tmp_path / "prices_eur_per_mwh.csv", next_edge(1_800_000_001.0)
    assert (edge_s % 60, 45 <= edge_s - 1_800_000_001 <= 105) == (0, True)
    write_prices(file, edge_s)
    prices = read_series(file, Layout())
    assert value_at(prices, np.array([edge_s - 1, edge_s], dtype=np.int64)).tolist() == [DEAR, CHEAP]


def test_nodes_jobs_and_the_queue_are_told_of(start_powered: StartPowered) -> None:
    cluster = start_powered(PoweredPlan(nodes=1, shutdown_s=0.2))
    story, begin_s = Story(cluster, time.time()), time.monotonic()
    ids = cluster.jobs.submit("--job-name=render", seconds=60, count=3, watts=320)
    cluster.wait(lambda: cluster.nodes["node1"].watts == 320, what="the draw to rise")
    first, *_ = told = story.news()
    assert (len(told), "job 1 (render) starts on node1" in first) == (1, True)
    assert "1 of 1 nodes on, 320 W; 2 jobs wait, 1 run or start, 0 done" in story.picture()
    cluster.run("scontrol", "top", ids[2])
    (line,) = story.news()
    assert "the queue is in another order: 3, 2; it was 2, 3" in line
    cluster.nodes["node1"].pull_the_plug()
    cluster.wait(lambda: cluster.nodes["node1"].asleep_s > 0, what="the node to be off")
    assert "less than with all nodes left on" in saved(cluster, time.monotonic() - begin_s, 100.0)
