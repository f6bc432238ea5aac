"""Grids of random sites and jobs: with one site they are the ordinary replay, and no job is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_grids import UNITS, jobs_of, log_of, site_of

from offpeak.errors import BadInput, OffpeakError
from offpeak.model.node_class_file import bundled_node_class
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.federation.sites import Link
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay, replay_powered
from offpeak_studies.simulated_grid.broker import Moment, StayHome, run_grid
from offpeak_studies.simulated_grid.grid import SimulatedGrid, SiteNodes
from offpeak_studies.simulated_grid.sites import NO_SITE

DUNE = bundled_node_class("dune")
DISCIPLINES = ("fcfs", "easy", "first-fit", "best-fit", "conservative")


def energy_aware() -> CapacityPolicy:
    return make_capacity_policy(
        "energy-aware", Fleet(UNITS, 1, DUNE), CapacitySettings(depths=("off",), wake_ahead_s=0)
    )


class Anywhere:
    """Sends each job somewhere, or makes it wait, by chance."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def choose(self, moment: Moment):
        lowest = 0 if all(site.is_idle for site in moment.sites) else NO_SITE
        return self._rng.integers(lowest, len(moment.sites), len(moment.job))


rows = st.tuples(st.integers(0, 60), st.integers(0, 50), st.integers(0, 30), st.integers(1, UNITS))
logs = st.lists(rows, min_size=1, max_size=25)


@given(
    log=logs, discipline=st.sampled_from(DISCIPLINES), seed=st.integers(0, 9), share=st.sampled_from([0.0, 0.5, 1.0])
)
def test_a_grid_of_one_site_is_the_ordinary_replay(log, discipline, seed, share) -> None:
    jobs = jobs_of(log)
    brokered = np.random.default_rng(seed).random(len(jobs)) < share
    site = site_of(discipline)
    alone = replay(jobs, np.ones(len(jobs)), machine_size=UNITS, policy=site.policy)
    schedule = run_grid(SimulatedGrid((site,), log_of(jobs, brokered)), StayHome())
    assert schedule.start_s.tolist() == alone.start_s.tolist()
    assert schedule.end_s.tolist() == alone.end_s.tolist()


@given(log=logs, discipline=st.sampled_from(DISCIPLINES))
def test_so_it_is_where_nodes_sleep(log, discipline) -> None:
    jobs = jobs_of([(60 * row[0], 60 * row[1] + 1, row[2], row[3]) for row in log])
    machine, capacity = PoweredMachine(UNITS, 1, DUNE), energy_aware()
    site = site_of(discipline, nodes=SiteNodes(machine, capacity))
    alone = replay_powered(jobs, np.ones(len(jobs)), machine, site.policy, capacity)
    schedule = run_grid(SimulatedGrid((site,), log_of(jobs)), StayHome())
    assert schedule.start_s.tolist() == alone.start_s.tolist()
    (log_,) = schedule.node_log
    until = alone.node_log.at_s <= alone.end_s.max()
    assert log_.state[: until.sum()].tolist() == alone.node_log.state[until].tolist()


@given(log=logs, seed=st.integers(0, 99), period_s=st.sampled_from([0, 7, 30]))
def test_every_job_runs_once_on_nodes_that_are_there(log, seed, period_s) -> None:
    jobs = jobs_of(log)
    sites = (site_of("easy"), site_of("fcfs", 8, 2.0, name="fast"), site_of("best-fit", 7, 0.5, name="slow"))
    rng = np.random.default_rng(seed)
    home = rng.integers(0, len(sites), len(jobs))
    grid = SimulatedGrid(sites, log_of(jobs, rng.random(len(jobs)) < 0.7, home))
    schedule = run_grid(grid, Anywhere(seed), period_s=period_s)
    assert (schedule.site >= 0).all()
    assert (schedule.start_s >= schedule.queued_s).all()
    assert (schedule.queued_s >= jobs.submit_s).all()
    speed = np.array([site.site.core_gflops for site in sites])
    took_s = schedule.end_s - schedule.start_s
    assert np.abs(took_s - jobs.runtime_s * speed[home] / speed[schedule.site]).max() <= 1
    local = ~grid.log.brokered
    assert (schedule.site[local] == home[local]).all()
    for number, site in enumerate(sites):
        here = schedule.site == number
        for second in schedule.start_s[here]:
            runs = here & (schedule.start_s <= second) & (schedule.end_s > second)
            assert jobs.size[runs].sum() <= site.site.units


def test_jobs_left_over_wait_for_the_next_period() -> None:
    class OneACycle:
        def choose(self, moment: Moment):
            return np.where(np.arange(len(moment.job)) == 0, 0, NO_SITE)

    jobs = jobs_of([(5, 10, 0, 1)] * 3)
    schedule = run_grid(SimulatedGrid((site_of(),), log_of(jobs)), OneACycle(), period_s=60)
    assert schedule.queued_s.tolist() == [60, 120, 180]


def test_a_job_that_nobody_takes_is_named() -> None:
    class Nobody:
        def choose(self, moment: Moment):
            return np.full(len(moment.job), NO_SITE)

    with pytest.raises(OffpeakError, match="job 1 waits in an empty grid"):
        run_grid(SimulatedGrid((site_of(),), log_of(jobs_of([(5, 10, 0, 1)]))), Nobody())


def test_a_job_sent_where_it_cannot_run_is_named() -> None:
    with pytest.raises(OffpeakError, match="job 1 does not fit on home"):
        run_grid(SimulatedGrid((site_of(units=2),), log_of(jobs_of([(5, 10, 0, 3)]))), StayHome())


def away(log, data_mb) -> tuple[SimulatedGrid, object]:
    """Send all jobs of a log from site 0 to site 1, over a link of 1 MB/s."""

    class Away:
        def choose(self, moment: Moment):
            return np.ones(len(moment.job), np.int64)

    jobs = jobs_of(log)
    links = (Link(("home", "away"), 0.0, 1.0),)
    grid = SimulatedGrid((site_of(), site_of(name="away")), log_of(jobs, data_mb=data_mb), links)
    return grid, run_grid(grid, Away())


def test_a_job_holds_its_nodes_until_its_data_is_there() -> None:
    _grid, schedule = away([(0, 10, 5, UNITS), (1, 10, 5, UNITS), (2, 3, 0, UNITS)], [100, 50, 120])
    assert schedule.held_s.tolist() == [0, 110, 120]
    assert schedule.start_s.tolist() == [100, 110, 122]
    assert schedule.end_s.tolist() == [110, 120, 125]


@given(log=logs, seed=st.integers(0, 99))
def test_response_is_the_longer_of_transfer_and_wait_and_the_run(log, seed) -> None:
    data_mb = np.random.default_rng(seed).integers(0, 80, len(log))
    grid, schedule = away([(row[0], row[1] + 1, row[2], row[3]) for row in log], data_mb)
    jobs = grid.log.jobs
    assert (schedule.start_s == np.maximum(schedule.held_s, jobs.submit_s + data_mb)).all()
    assert (schedule.end_s == schedule.start_s + jobs.runtime_s).all()
    for second in schedule.held_s:
        holds = (schedule.held_s <= second) & (schedule.end_s > second)
        assert jobs.size[holds].sum() <= UNITS


def test_data_and_nodes_that_sleep_do_not_go_together() -> None:
    nodes = SiteNodes(PoweredMachine(UNITS, 1, DUNE), energy_aware())
    links = (Link(("home", "away"), 0.0, 1.0),)
    with pytest.raises(BadInput, match="site home: jobs that wait for data need nodes that stay awake"):
        SimulatedGrid((site_of(nodes=nodes),), log_of(jobs_of([(0, 1, 0, 1)])), links)


def test_a_window_policy_cannot_run_in_a_grid() -> None:
    with pytest.raises(BadInput, match="site home: greedy cannot run in a grid"):
        site_of("greedy")
