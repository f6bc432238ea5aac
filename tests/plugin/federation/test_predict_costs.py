"""What jobs take at sites, by the papers' formulas."""

from collections.abc import Callable

import numpy as np
import pytest

from offpeak.errors import BadPrices
from offpeak.model.facility import Facility, facility_named
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import GridCycle, Predictions
from offpeak.plugin.federation.jobs import grid_jobs
from offpeak.plugin.federation.placement_costs import CostModel
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Grid, Link, Site, SiteRoom

pytestmark = pytest.mark.quick

Make = Callable[..., GridCycle]
# Murali and Vadhiyar, Table 1: W/core and Gflops/core.
MASON = Site("mason", 576, 39.95, core_gflops=7.43)
GORDON = Site("gordon", 16_160, 22.17, core_gflops=21.10)


def predict_costs(cycle: GridCycle) -> Predictions:
    return CostModel(cycle).predict(cycle.wait_s)


def test_run_times_scale_with_the_speed_of_a_core_and_power_with_cores(make: Make) -> None:
    jobs = grid_jobs(job_id=[1, 2], cores=[64, 1], estimate_s=[36_000, 60], home=[0, 1])
    found = predict_costs(make(Grid((MASON, GORDON)), jobs))
    assert found.runtime_s[0].tolist() == pytest.approx([36_000, 36_000 * 7.43 / 21.10])
    assert found.runtime_s[1].tolist() == pytest.approx([60 * 21.10 / 7.43, 60])
    assert found.energy_j[0].tolist() == pytest.approx([64 * 39.95 * 36_000, 64 * 22.17 * 36_000 * 7.43 / 21.10])
    assert found.cost[0].tolist() == pytest.approx((found.energy_j[0] / 3.6e9 * 50.0).tolist())
    assert found.co2_g[0].tolist() == pytest.approx((found.energy_j[0] / 3.6e6 * 400.0).tolist())


def test_the_pue_and_the_job_s_own_draw_count(make: Make) -> None:
    grid = Grid((Site("a", 10, 100.0, pue=1.5),))
    found = predict_costs(make(grid, grid_jobs(job_id=[1], cores=2, estimate_s=3600, power_factor=0.6)))
    assert found.energy_j.tolist() == [[pytest.approx(2 * 100.0 * 0.6 * 1.5 * 3600)]]


def test_the_pue_is_that_of_the_site_s_load_and_temperature(make: Make) -> None:
    """By hand: 10 units of 100 W, idle ones 20 W. With 4 in use the site draws 520 W, a PUE of 1.4, and full 1.2."""
    pue = np.array([[1.6], [1.4], [1.2]]) * [1.0, 1.1]
    table = Facility("table", np.array([0.0, 500.0, 1000.0]), np.array([0.0, 20.0]), pue)
    rooms = [SiteRoom(table, outside_c, idle_w=20.0) for outside_c in (0.0, 20.0)]
    cold, warm = (Site(f"at {room.outside_c:g} C", 10, 100.0, room=room) for room in rooms)
    jobs = grid_jobs(job_id=[1], cores=2, estimate_s=3600)
    idle = predict_costs(make(Grid((cold, warm)), jobs, idle_units=[6, 6]))
    full = predict_costs(make(Grid((cold, warm)), jobs, idle_units=[0, 0]))
    it_j = 2 * 100.0 * 3600
    assert (idle.energy_j / it_j).tolist() == [pytest.approx([1.4, 1.4 * 1.1])]
    assert (full.energy_j / it_j).tolist() == [pytest.approx([1.2, 1.2 * 1.1])]
    assert (full.co2_g / idle.co2_g).tolist() == [pytest.approx([1.2 / 1.4, 1.2 / 1.4])]


def test_the_energy_and_co2_aware_choice_follows_the_load(make: Make) -> None:
    """An idle room's fans make the fuller of two equal sites the cleaner one."""
    room = SiteRoom(facility_named("air", full_power_w=10_000.0), outside_c=10.0, idle_w=0.0)
    grid = Grid((Site("empty", 100, 100.0, room=room), Site("busy", 100, 100.0, room=room)))
    jobs = grid_jobs(job_id=[1], cores=2, estimate_s=3600)
    chosen = grid_policy("eca-queue").decide(make(grid, jobs, idle_units=[100, 20]))
    assert chosen.site.tolist() == [1]


def test_nodes_are_given_whole(make: Make) -> None:
    grid = Grid((Site("a", 10, 100.0, cores_per_unit=48), Site("b", 480, 2.0)))
    found = predict_costs(make(grid, grid_jobs(job_id=[1, 2], cores=[48, 49], estimate_s=3600)))
    assert found.units.tolist() == [[1, 48], [2, 49]]


def test_ranks_come_before_the_speed_of_a_core(make: Make) -> None:
    fast, slow = {"gromacs": 2.0}, {"gromacs": 1.0, "hpl": 1.0}
    grid = Grid((Site("a", 9, 1.0, core_gflops=10, ranks=fast), Site("b", 9, 1.0, core_gflops=10, ranks=slow)))
    gromacs, hpl = (grid.applications.index(name) for name in ("gromacs", "hpl"))
    jobs = grid_jobs(job_id=[1, 2, 3], cores=1, estimate_s=100, application=[gromacs, hpl, -1])
    assert predict_costs(make(grid, jobs)).runtime_s.tolist() == [[100, 200], [100, 100], [100, 100]]


def test_data_are_on_their_way_while_the_job_waits(make: Make) -> None:
    grid = Grid((Site("a", 9, 1.0), Site("b", 9, 1.0), Site("c", 9, 1.0)), (Link(("a", "b"), 0.5, 100.0),))
    jobs = grid_jobs(job_id=[1, 2, 3], cores=1, estimate_s=1000, data_mb=[10_000, 0, 10_000], home=[0, 0, 1])
    found = predict_costs(make(grid, jobs, [[0, 30, 0], [0, 30, 0], [200, 7, 0]]))
    assert found.delay_s.tolist() == [[0, 100.5, 0], [0, 30, 0], [200, 7, 0]]
    assert found.response_s[0].tolist() == [1000, 1100.5, 1000]


def test_the_price_is_that_of_the_hours_in_which_it_runs(make: Make, constant: Callable[..., Series]) -> None:
    now_s = int(constant(1.0).start_s[0])
    stairs = Series(now_s + 3600 * np.arange(3), now_s + 3 * 3600, np.array([10.0, 20.0, -30.0]), "EUR/MWh", "stairs")
    grid = Grid((Site("a", 9, 1e6),))
    jobs = grid_jobs(job_id=[1, 2], cores=1, estimate_s=[3600, 7200])
    found = predict_costs(make(grid, jobs, [[1800.0], [3600.0]], price=(stairs,)))
    assert found.cost.tolist() == [[pytest.approx(15.0)], [pytest.approx(-10.0)]]


def test_one_currency(make: Make, constant: Callable[..., Series]) -> None:
    grid = Grid((Site("a", 9, 1.0), Site("b", 9, 1.0)))
    jobs = grid_jobs(job_id=[1], cores=1, estimate_s=60)
    with pytest.raises(BadPrices, match="in EUR/MWh and USD/MWh"):
        predict_costs(make(grid, jobs, price=(constant(1.0), constant(1.0, "USD/MWh"))))
