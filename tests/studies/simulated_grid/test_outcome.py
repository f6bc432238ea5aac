"""What a grid's schedule comes to, by hand and by adding up."""

from dataclasses import replace

import numpy as np
import pytest
from small_grids import jobs_of, log_of, site_of

from offpeak.model.facility import facility_named
from offpeak.plugin.federation.sites import SiteRoom
from offpeak_studies.simulated_grid.broker import StayHome, run_grid
from offpeak_studies.simulated_grid.grid import SimulatedGrid
from offpeak_studies.simulated_grid.sites import fairness, load_at, mean_power_w, outcome_of, utilizations

HOUR_S = 3600
KWH_J = 3.6e6


def two_sites() -> SimulatedGrid:
    """Return two jobs of an hour at site 0, and one of two hours at site 1, whose electricity is dear and clean."""
    jobs = jobs_of([(0, HOUR_S, 0, 6), (0, HOUR_S, 0, 6), (0, 2 * HOUR_S, 0, 3)])
    sites = (site_of(price=100.0, carbon=500.0), site_of(name="away", price=300.0, carbon=10.0, pue=1.5))
    return SimulatedGrid(sites, log_of(jobs, home=[0, 0, 1]))


def test_energy_cost_and_co2_of_each_job() -> None:
    grid = two_sites()
    out = outcome_of(grid, run_grid(grid, StayHome()))
    assert (out.energy_j / KWH_J).tolist() == pytest.approx([0.6, 0.6, 0.9])
    assert out.cost.tolist() == pytest.approx([0.06, 0.06, 0.27])
    assert out.co2_g.tolist() == pytest.approx([300, 300, 9])
    assert out.response_s.tolist() == [HOUR_S, 2 * HOUR_S, 2 * HOUR_S]


def test_the_machine_room_counts_at_the_load_of_each_moment() -> None:
    """Summed up second by second: draw times the PUE at what runs then."""
    rng = np.random.default_rng(2)
    jobs = jobs_of(
        [(int(rng.integers(0, 900)), int(rng.integers(1, 900)), 9, int(rng.integers(1, 5))) for _ in range(20)]
    )
    plain = site_of(price=100.0, carbon=500.0)
    room = SiteRoom(facility_named("air", full_power_w=1000.0), outside_c=28.0, idle_w=30.0)
    grid = SimulatedGrid((replace(plain, site=replace(plain.site, room=room)),), log_of(jobs))
    schedule = run_grid(grid, StayHome())
    out = outcome_of(grid, schedule)
    second = np.arange(int(schedule.end_s.max()))[:, None]
    runs = (schedule.start_s <= second) & (second < schedule.end_s)
    units = grid.units(np.arange(20), 0)
    pue = grid.sites[0].site.pue_at(runs @ units)
    energy_j = pue @ (runs * units * plain.site.unit_w * grid.log.power_factor)
    assert pue.max() > pue.min() > 1
    assert out.energy_j.tolist() == pytest.approx(energy_j.tolist())
    assert out.cost.tolist() == pytest.approx((energy_j / KWH_J * 0.1).tolist())
    assert out.co2_g.tolist() == pytest.approx((energy_j / KWH_J * 500).tolist())


def test_load_and_draw_by_the_hour_and_utilization() -> None:
    grid = two_sites()
    schedule = run_grid(grid, StayHome())
    power_w = outcome_of(grid, schedule).power_w
    edge_s = HOUR_S * np.arange(4)
    assert load_at(grid, schedule, 0, edge_s).tolist() == [2.0, 1.0, 0.0, 0.0]
    assert mean_power_w(schedule, power_w, 0, edge_s).tolist() == pytest.approx([600, 600, 0])
    assert mean_power_w(schedule, power_w, 1, edge_s).tolist() == pytest.approx([450, 450, 0])
    assert utilizations(grid, schedule, np.ones(3, np.bool_)).tolist() == pytest.approx([1.0, 0.5])


def test_hours_add_up_to_the_jobs_energy() -> None:
    rng = np.random.default_rng(1)
    jobs = jobs_of([(int(rng.integers(0, 9000)), int(rng.integers(1, 9000)), 9, 2) for _ in range(50)])
    grid = SimulatedGrid((site_of(),), log_of(jobs))
    schedule = run_grid(grid, StayHome())
    out = outcome_of(grid, schedule)
    edge_s = HOUR_S * np.arange(int(schedule.end_s.max()) // HOUR_S + 2)
    hours = mean_power_w(schedule, out.power_w, 0, edge_s)
    assert hours.sum() * HOUR_S == pytest.approx(out.energy_j.sum())


def test_fairness_is_above_one_where_users_are_served_faster() -> None:
    ratio = fairness(np.array([0, 0, 1]), np.array([50, 200, 30]), np.array([100, 100, 60]), 3)
    assert ratio[:2].tolist() == pytest.approx([1.0, 2.0])
    assert np.isnan(ratio[2])
