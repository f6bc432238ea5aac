"""The six schedulers on one cluster."""

import numpy as np
import pytest

from studies.energy_carbon.paper import JOBS
from studies.energy_carbon.run import Simulation, SimulationResult, SingleSiteExperiment, draw_jobs, node_class_of, run


def result_of(discipline: str, load: float) -> SimulationResult:
    result = run(SingleSiteExperiment(Simulation(30, discipline, load), 1, 0))
    assert isinstance(result, SimulationResult)
    return result


def test_the_jobs_are_those_of_table_ii() -> None:
    case = Simulation(40, "fcfs", 0.5)
    node_class = node_class_of("dune", "off")
    jobs, power_w = draw_jobs(case, node_class, np.random.default_rng(1))
    assert len(jobs) == JOBS
    assert (jobs.size.min(), jobs.size.max()) == (1, 20)
    assert 600 <= jobs.runtime_s.min() < jobs.runtime_s.max() <= 86_400
    assert node_class.running_w(0.3 / 4) <= power_w.min() < power_w.max() <= node_class.running_w(0.99)
    load = np.dot(jobs.size, jobs.runtime_s) / (case.servers * jobs.submit_s[-1])
    assert jobs.submit_s[0] == 0
    assert load == pytest.approx(case.load)


@pytest.mark.parametrize("discipline", ["fcfs", "first-fit", "best-fit"])
def test_the_more_idle_the_more_is_saved(discipline: str) -> None:
    results = [result_of(discipline, load) for load in (0.2, 0.5, 0.8, 1.2)]
    saved = [result.saved_pct for result in results]
    assert saved[:3] == sorted(saved[:3], reverse=True)
    assert min(saved) > 0
    assert results[0].utilization == pytest.approx(0.2, rel=0.02)


def test_where_nodes_are_idle_a_job_waits_for_little_more_than_a_boot() -> None:
    result = result_of("first-fit", 0.2)
    assert 0 < result.sleep_delay_s < 180
    assert result.aware_wait_s - result.wait_s < 300


def test_fifo_leaves_most_idle_and_so_saves_most_under_full_load() -> None:
    fifo, bff, bbf = (result_of(discipline, 1.2) for discipline in ("fcfs", "first-fit", "best-fit"))
    assert fifo.saved_pct > 2 * max(bff.saved_pct, bbf.saved_pct)
    assert fifo.utilization < min(bff.utilization, bbf.utilization)
