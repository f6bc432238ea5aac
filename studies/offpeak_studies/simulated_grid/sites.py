"""The running sites of a grid: engines that take further jobs, and the map of their rows to jobs of the grid.

The engine reads a job only when its submission is due. So the workload has rows for all possible jobs with submissions
that never come, and a submission fills in the next row. The outcome of a schedule: energy, cost and CO2 by job; by site
its use and the users that the grid served.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH
from offpeak.model.schedule_metrics import response_ratio
from offpeak.model.step_integrals import StepIntegral, integrals, integrate_constant, integrate_steps, multiply
from offpeak.plugin.federation.sites import Site
from offpeak.sim_backend.engine.case import case_of_units, unit_workload
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET, USER_ESTIMATE
from offpeak.sim_backend.engine.running import expect_end, push, unlist
from offpeak.sim_backend.engine.state import SLOTS, State
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.replay import Replay, unit_rules_of
from offpeak_studies.simulated_grid.grid import SimulatedGrid, SimulatedSite


@dataclass(frozen=True, eq=False)
class GridSubmission:
    """Jobs at a site, as columns in seconds, units and W per unit; `data_s` is the arrival of their data."""

    submit_s: Int64
    data_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    size: Int64
    unit_w: Float64


class OpenSite:
    """A running site. `workload` and `state` are to be read only; rows beyond `count` are empty.

    `size` are the units of all jobs that may come.
    """

    def __init__(self, site: SimulatedSite, size: Int64, *, begin_s: int) -> None:
        self.site = site
        self.count = 0
        self._replay = _begun(site, np.minimum(size, site.site.units), begin_s)
        self.workload = self._replay.workload
        self._data_s = np.zeros(len(size), dtype=np.int64)
        self._late = np.empty(0, dtype=np.int64)

    @property
    def state(self) -> State:
        """The state of the engine."""
        return self._replay.state

    def submit(self, jobs: GridSubmission) -> None:
        """Add jobs behind those that came before; none is submitted before the second that was advanced to."""
        rows, workload = slice(self.count, self.count + len(jobs.size)), self.workload
        workload.submit_s[rows], workload.estimate_s[rows] = jobs.submit_s, jobs.estimate_s
        workload.runtime_s[rows] = jobs.runtime_s
        if self.site.policy.kill_at_estimate:
            workload.runtime_s[rows] = np.minimum(jobs.runtime_s, jobs.estimate_s)
        workload.size[rows], workload.node_power_w[rows] = jobs.size, jobs.unit_w
        workload.request_class[rows] = np.searchsorted(self._replay.tables.units, jobs.size)
        self._data_s[rows] = jobs.data_s
        self._late = np.append(self._late, self.count + np.flatnonzero(jobs.data_s > jobs.submit_s))
        self.count = rows.stop
        following = int(self.state.scalars["next_job"][0])
        self.state.scalars["next_submit_s"] = workload.submit_s[following] if following < self.count else NEVER

    def advance(self, until_s: int) -> None:
        """Handle all events up to and including that second."""
        if until_s < self.state.scalars["now_s"][0]:
            return
        while len(self._late) and (next_s := self._next_event_s()) <= until_s:
            self._replay.go_on(next_s)
            waits = self.held_s[self._late] == NOT_YET
            begun, self._late = self._late[~waits], self._late[waits]
            hold_until(self.state, begun, self._data_s[begun])
        if not len(self._late):
            self._replay.go_on(until_s)

    def _next_event_s(self) -> int:
        """Return the time of the next event; where data moves, no node sleeps."""
        now = self.state.scalars[0]
        wanted_pass_s = now["wanted_pass_s"] if now["waiting"] else NEVER
        return int(min(now["next_submit_s"], now["next_end_s"], wanted_pass_s))

    @property
    def held_s(self) -> Int64:
        """Since when each job holds its units, by row; NOT_YET of those that wait."""
        return self.state.start_s[: self.count]

    def start_s(self, first: int = 0) -> Int64:
        """Return when each job starts to run, from the row `first` on: with its units and its data; NOT_YET of those
        that wait."""
        held_s = self.held_s[first:]
        return np.where(held_s == NOT_YET, NOT_YET, np.maximum(held_s, self._data_s[first : self.count]))

    def end_s(self, first: int = 0) -> Int64:
        """Return when each job that has started will have ended, from that row on, NOT_YET of those that wait."""
        start_s = self.start_s(first)
        return np.where(start_s == NOT_YET, NOT_YET, start_s + self.workload.runtime_s[first : self.count])

    @property
    def idle_units(self) -> int:
        """Units without a job, asleep ones too where jobs wake nodes."""
        return int(self.state.free[SLOTS, 0])

    @property
    def is_idle(self) -> bool:
        """Whether no job runs or waits."""
        now = self.state.scalars[0]
        return bool(now["running"] == 0 and now["waiting"] == 0 and now["next_submit_s"] == NEVER)

    @property
    def waiting(self) -> int:
        """The length of the queue."""
        return int(self.state.scalars["waiting"][0])

    def node_log(self) -> NodeLog | None:
        """Return the node log, None if no node can sleep. Call it once, at the end."""
        return self._replay.schedule().node_logs[0] if self.site.nodes else None


@in_place
def hold_until(state: State, begun: Int64, data_s: Int64) -> None:
    """Delay the jobs `begun`, which have started in this second, until the arrival of their data [Unix s].

    They hold their nodes meanwhile. Eq. (7) of Murali and Vadhiyar 2018: response = max(transfer, queue wait) + run
    time; the transfer starts when the job is submitted.
    """
    now = state.scalars[0]
    slots = state.slots
    for rank in range(now.running):
        slot = int(state.ends[index(rank)])
        for at in range(len(begun)):
            late_s = data_s[index(at)] - state.start_s[index(begun[index(at)])]
            if slots.job[index(slot)] == begun[index(at)] and late_s > 0:
                unlist(state, 0, slot)
                slots.end_s[index(slot)] += late_s
                slots.expected_end_s[index(slot)] += late_s
                expect_end(state, 0, slot)
    # Pushing the entries one after the other makes the array a heap again.
    for rank in range(now.running):
        push(state.ends, rank, slots, int(state.ends[index(rank)]))
    if now.running > 0:
        now.next_end_s = slots.end_s[index(state.ends[0])]


def _begun(site: SimulatedSite, size: Int64, begin_s: int) -> Replay:
    """Return the replay of a site to which no job has been submitted yet."""
    count = len(size)
    submit_s = np.full(count, begin_s)
    tables, workload = unit_workload(
        (submit_s, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)), size.copy(), site.site.units
    )
    machine = site.nodes.machine if site.nodes else None
    # The estimates are those of the rows that are submitted.
    policy = replace(site.policy, rules=site.policy.rules._replace(estimates=USER_ESTIMATE), kill_at_estimate=False)
    if site.nodes:
        policy = replace(policy, capacity=(site.nodes.capacity,))
    case = case_of_units(tables, workload, machine.nodes if machine else site.site.units)
    replay = Replay(case, policy, unit_rules_of(site.policy), machine.sleeping() if machine else None)
    replay.rest_until(NEVER - 1)
    submit_s[:] = NEVER
    replay.state.scalars["now_s"], replay.state.scalars["next_submit_s"] = begin_s, NEVER
    return replay


NO_SITE = -1


@dataclass(frozen=True, eq=False)
class GridSchedule:
    """Where and when each job of the grid ran, by index: `queued_s` is when it entered the queue of `site`.

    It held its units from `held_s` on and ran from `start_s`, later where its data was. `node_log` is by site.
    """

    site: Int64
    queued_s: Int64
    held_s: Int64
    start_s: Int64
    end_s: Int64
    node_log: tuple[NodeLog | None, ...]


class RunningGrid:
    """All sites at one instant; local users' jobs are submitted to their homes as time passes."""

    def __init__(self, grid: SimulatedGrid) -> None:
        jobs = grid.log.jobs
        begin_s = int(jobs.submit_s[0]) if len(jobs) else 0
        self._grid = grid
        self.sites = tuple(
            OpenSite(site, grid.units(np.arange(len(jobs)), number), begin_s=begin_s)
            for number, site in enumerate(grid.sites)
        )
        self._jobs: list[list[int]] = [[] for _ in grid.sites]
        self._local = np.flatnonzero(~grid.log.brokered)

    def advance_to(self, now_s: int) -> None:
        """Let everything happen that comes before that second."""
        self._submit_each(self._locals_before(now_s))
        for site in self.sites:
            site.advance(now_s - 1)

    def submit(self, now_s: int, job: Int64, site: Int64) -> None:
        """Submit the placed jobs, and the local users' jobs of that second, in the order of the grid's jobs."""
        local = self._locals_before(now_s + 1)
        every = np.concatenate([job, local])
        where = np.concatenate([site, self._grid.log.home[local]])
        order = np.argsort(every, kind="stable")
        self._submit(np.full(len(every), now_s), every[order], where[order])

    def finish(self) -> None:
        """Submit all remaining jobs, and run all sites to the end."""
        self._submit_each(self._locals_before(NEVER))
        for site in self.sites:
            site.advance(NEVER - 1)

    @property
    def is_empty(self) -> bool:
        """Whether no site runs or queues a job, nor will."""
        return not len(self._local) and all(site.is_idle for site in self.sites)

    def schedule(self) -> GridSchedule:
        """Return where and when each job ran."""
        site_of, queued_s, held_s, start_s, end_s = np.full((5, len(self._grid.log)), NO_SITE)
        for number, (site, jobs) in enumerate(zip(self.sites, self._jobs, strict=True)):
            site_of[jobs], queued_s[jobs] = number, site.workload.submit_s[: site.count]
            held_s[jobs], start_s[jobs], end_s[jobs] = site.held_s, site.start_s(), site.end_s()
        logs = tuple(site.node_log() for site in self.sites)
        return GridSchedule(site_of, queued_s, held_s, start_s, end_s, logs)

    def _locals_before(self, before_s: int) -> Int64:
        """Take out the local users' jobs that are submitted before that second."""
        count = int(np.searchsorted(self._grid.log.jobs.submit_s[self._local], before_s, side="left"))
        job, self._local = self._local[:count], self._local[count:]
        return job

    def _submit_each(self, job: Int64) -> None:
        self._submit(self._grid.log.jobs.submit_s[job], job, self._grid.log.home[job])

    def _submit(self, submit_s: Int64, job: Int64, site: Int64) -> None:
        for number in np.unique(site).tolist():
            self._submit_to(number, submit_s[site == number], job[site == number])

    def _submit_to(self, number: int, submit_s: Int64, job: Int64) -> None:
        grid, jobs = self._grid, self._grid.log.jobs
        self._check(job, number)
        self.sites[number].submit(
            GridSubmission(
                submit_s,
                submit_s + grid.data_s(job, number),
                grid.at_site_s(jobs.runtime_s[job], job, number),
                grid.at_site_s(jobs.estimate_s[job], job, number),
                grid.units(job, number),
                grid.sites[number].site.unit_w * grid.log.power_factor[job],
            )
        )
        self._jobs[number] += job.tolist()

    def _check(self, job: Int64, number: int) -> None:
        site = self._grid.sites[number].site
        too_wide = job[self._grid.units(job, number) > site.units]
        if len(too_wide):
            raise OffpeakError(
                f"job {self._grid.log.jobs.job_id[too_wide[0]]} does not fit on {site.name}",
                hint="the chooser sent it there; it must keep to the sites that accept a job",
            )


@dataclass(frozen=True, eq=False)
class GridOutcome:
    """The outcome of each job of the grid, by index: `response_s` from its submission by the user, and its run.

    Energy is at the site's meter (PUE included, at the load of each moment) while the job runs; `power_w` is its mean
    draw there. Cost is in the currency of the prices.
    """

    response_s: Int64
    power_w: Float64
    energy_j: Float64
    cost: Float64
    co2_g: Float64


def outcome_of(grid: SimulatedGrid, schedule: GridSchedule) -> GridOutcome:
    """Return the outcome of each job at its site and time."""
    count = len(grid.log)
    energy_j, cost, co2_g = np.zeros((3, count))
    for number, site in enumerate(grid.sites):
        job = np.flatnonzero(schedule.site == number)
        units, run = grid.units(job, number), (schedule.start_s[job], schedule.end_s[job])
        it_w = units * site.site.unit_w * grid.log.power_factor[job]
        pue = pue_over_time(site.site, units, *run)
        energy_j[job] = it_w * integrals(pue, *run)
        cost[job] = it_w * integrals(multiply(pue, site.price), *run) / J_PER_MWH
        co2_g[job] = it_w * integrals(multiply(pue, site.carbon), *run) / J_PER_KWH
    power_w = energy_j / np.maximum(schedule.end_s - schedule.start_s, 1)
    return GridOutcome(schedule.end_s - grid.log.jobs.submit_s, power_w, energy_j, cost, co2_g)


def pue_over_time(site: Site, units: Int64, start_s: Int64, end_s: Int64) -> StepIntegral:
    """Return the meter of the site's PUE while these jobs run there."""
    if site.room is None or not len(units):
        return integrate_constant(site.pue)
    at_s, at = np.unique(np.concatenate([start_s, end_s]), return_inverse=True)
    busy = np.cumsum(np.bincount(at, weights=np.concatenate([units, -units]), minlength=len(at_s)))
    return integrate_steps(at_s, site.pue_at(busy))


def fairness(home: Int64, response_s: Int64, baseline_s: Int64, sites: int) -> Float64:
    """Return by home the geometric mean of baseline response over response, float64[sites]; NaN if none is at home.

    Above 1, users of that site are served faster than without the grid: Murali and Vadhiyar 2018, section 4.6.
    """
    ratio = np.full(sites, np.nan)
    for site in np.unique(home).tolist():
        ratio[site] = response_ratio(response_s[home == site], baseline_s[home == site])
    return ratio


def utilizations(grid: SimulatedGrid, schedule: GridSchedule, counted: NDArray[np.bool_]) -> Float64:
    """Return by site the share of unit-seconds, from the first counted submission to the last counted end, in use."""
    begin_s = int(grid.log.jobs.submit_s[counted].min())
    until_s = int(schedule.end_s[counted].max())
    run_s = np.minimum(schedule.end_s, until_s) - np.maximum(schedule.start_s, begin_s)
    busy = np.zeros(len(grid.sites))
    for number, site in enumerate(grid.sites):
        job = np.flatnonzero(schedule.site == number)
        busy[number] = (grid.units(job, number) * np.maximum(run_s[job], 0)).sum() / site.site.units
    return busy / max(until_s - begin_s, 1)


def load_at(grid: SimulatedGrid, schedule: GridSchedule, site: int, at_s: Int64) -> Float64:
    """Return the instantaneous load of a site [h]: unit-hours of running and queued jobs over its units.

    Section 4.6: "the sum of the CPU hours of both the running and queued jobs divided by the total processors".
    """
    job = np.flatnonzero(schedule.site == site)
    unit_h = grid.units(job, site) * (schedule.end_s - schedule.start_s)[job] / HOUR_S
    present = (schedule.queued_s[job] <= at_s[:, None]) & (schedule.end_s[job] > at_s[:, None])
    return np.asarray(present @ unit_h / grid.sites[site].site.units)


def mean_power_w(schedule: GridSchedule, power_w: Float64, site: int, edge_s: Int64) -> Float64:
    """Return the mean draw of a site's jobs between neighbouring edges [W], float64[len(edge_s) - 1]."""
    job = np.flatnonzero(schedule.site == site)
    run_s = np.clip(edge_s[:, None] - schedule.start_s[job], 0, (schedule.end_s - schedule.start_s)[job])
    return np.asarray(np.diff(run_s @ power_w[job]) / np.diff(edge_s))
