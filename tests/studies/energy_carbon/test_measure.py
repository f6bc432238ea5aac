"""A workload under both schedulers: what it draws, and what sleeping saves of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.energy_carbon.paper import DUNE, JUGGLE
from studies.energy_carbon.run import (
    BatchWorkload,
    Measurement,
    SingleSiteExperiment,
    busy_node_w,
    draw_workload,
    measured,
    node_class_of,
    run,
)
from studies.energy_carbon.tables import ceiling_pct
from studies.logs import make_jobs

OFF_AT_80 = Measurement("dune", "off", 80, "easy")
ROW = DUNE.rows["off"][80]
DUNE_NODE = node_class_of("dune", "off")


def made_workload(sizes: list[int], runtimes_s: list[int], default_s: int) -> BatchWorkload:
    runtime_s = np.array(runtimes_s)
    return BatchWorkload(
        make_jobs(np.zeros_like(runtime_s), np.array(sizes), runtime_s, runtime_s), default_s, default_s
    )


def test_the_default_run_has_the_papers_power() -> None:
    busy_w = busy_node_w(ROW, DUNE_NODE, 4, 3.2)
    assert 3.2 * busy_w + 0.8 * DUNE_NODE.idle_w == pytest.approx(ROW.default.power_w)


def test_nodes_without_a_job_are_shut_down_once() -> None:
    result = measured(OFF_AT_80, made_workload([3], [1000], 1000))
    jobs_j = 3 * 1000 * busy_node_w(ROW, DUNE_NODE, 4, 3.0)
    aware_j = jobs_j + 30 * 85.85 + 970 * 1
    assert result.saved_pct == pytest.approx(100 * (1 - aware_j / (1000 * ROW.default.power_w)))
    assert result.power_saved_pct == pytest.approx(result.saved_pct)
    assert (result.elapsed_ratio, result.order_ratio, result.wakes) == (1, 1, 0)
    assert result.default_share == 0.75


def test_a_job_that_has_to_wait_for_a_boot_costs_more_than_sleep_saves() -> None:
    """The second job cannot start before the first ends, 200 s later: off and on again takes 180 s of them."""
    workload = made_workload([2, 4], [200, 200], 400)
    kept, at_once = (measured(replace(OFF_AT_80, keeps=keeps), workload) for keeps in (True, False))
    assert (kept.elapsed_ratio, kept.wakes) == (1, 0)
    assert at_once.elapsed_ratio == pytest.approx(550 / 400)
    assert at_once.wakes == 2
    assert at_once.saved_pct < kept.saved_pct == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["standby", "powersave", "both"]), st.booleans())
def test_no_workload_saves_more_than_the_ceiling(seed: int, way: str, keeps: bool) -> None:
    case = Measurement("juggle", way, 80, "first-fit", keeps=keeps)
    workload = draw_workload(case, np.random.default_rng(seed))
    result = measured(case, workload)
    row = JUGGLE.rows[way][80]
    ceiling = ceiling_pct(row, node_class_of("juggle", way), way, JUGGLE.nodes, result.default_share)
    # A node that is woken for a job may move a later, smaller job before a wide one: a workload can end earlier.
    if result.elapsed_ratio >= 1:
        assert result.saved_pct <= ceiling + 1e-9
    assert result.busy_w > node_class_of("juggle", way).idle_w


def test_the_same_seed_gives_the_same_result_and_another_does_not() -> None:
    one, same, other = (run(SingleSiteExperiment(OFF_AT_80, 1, replay)) for replay in (0, 0, 1))
    assert one == same != other


def test_the_papers_savings_at_high_load() -> None:
    saved = np.mean([run(SingleSiteExperiment(OFF_AT_80, 1, replay)).saved_pct for replay in range(3)])
    assert saved == pytest.approx(ROW.saved_pct, abs=3)
