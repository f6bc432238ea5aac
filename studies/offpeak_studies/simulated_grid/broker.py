"""Runs a grid: all sites advance together, and in cycles the broker chooses a site for each of its jobs.

The policies of offpeak.plugin.federation choose: a `Decider` shows them a cycle and takes their decisions. The waits
that they see are none, learned, the longest, or have an error. Learned: each site has a predictor of its own. Longest:
all jobs run for all of their estimates, and none overtakes. Majanen et al., "Energy and Carbon Aware Scheduling in
Supercomputing", section III-B.2: "it is possible to calculate only the maximum wait times"; from the status of running
jobs and the walltimes of each queued job.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import GridCycle, GridRules, SiteStates
from offpeak.plugin.federation.policies import GridPolicy
from offpeak.predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions
from offpeak.predictors.waits.registry import WaitPredictor
from offpeak.predictors.waits.states import FEATURES, JobColumns, SubmittedJob, write_row
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET
from offpeak_studies.simulated_grid.grid import SimulatedGrid
from offpeak_studies.simulated_grid.sites import NO_SITE, GridSchedule, OpenSite, RunningGrid


@dataclass(frozen=True, eq=False)
class Moment:
    """What a choice is made from: pending jobs of the grid by index, in order, and the sites before this second."""

    now_s: int
    job: Int64
    grid: SimulatedGrid
    sites: tuple[OpenSite, ...]


class Chooser(Protocol):
    """Chooses a site for each pending job of a cycle, NOBODY for those that wait for the next one."""

    def choose(self, moment: Moment) -> Int64:
        """Return int64[jobs]."""


class StayHome:
    """The baseline: every job runs where it was submitted."""

    def choose(self, moment: Moment) -> Int64:
        """Return the home of each job."""
        return moment.grid.log.home[moment.job]


def run_grid(grid: SimulatedGrid, chooser: Chooser, *, period_s: int = 0) -> GridSchedule:
    """Return the schedule of all jobs. Cycles are at multiples of `period_s`; 0: whenever a job is submitted.

    Raises OffpeakError if the chooser sends a job where it cannot run, or leaves all sites empty and jobs waiting.
    """
    running = RunningGrid(grid)
    pending = np.empty(0, dtype=np.int64)
    brokered = np.flatnonzero(grid.log.brokered)
    submit_s = grid.log.jobs.submit_s[brokered]
    first = now_s = 0
    while first < len(brokered) or len(pending):
        now_s = _next_cycle_s(submit_s[first:], period_s, now_s if len(pending) else None)
        last = int(np.searchsorted(submit_s, now_s, side="right"))
        running.advance_to(now_s)
        pending = np.concatenate([pending, brokered[first:last]])
        chosen = chooser.choose(Moment(now_s, pending, grid, running.sites))
        running.submit(now_s, pending[chosen != NO_SITE], chosen[chosen != NO_SITE])
        pending, first = pending[chosen == NO_SITE], last
        if len(pending) and first == len(brokered) and running.is_empty:
            job_id = grid.log.jobs.job_id[pending[0]]
            raise OffpeakError(
                f"job {job_id} waits in an empty grid", hint="no site accepts it, or the policy holds it"
            )
    running.finish()
    return running.schedule()


def _next_cycle_s(coming_s: Int64, period_s: int, waits_since_s: int | None) -> int:
    """Return when the next cycle is; jobs left over by the last one wait for the next period."""
    step_s = max(period_s, 1)
    due_s = NEVER if waits_since_s is None else waits_since_s + step_s
    return min(due_s, -(-int(coming_s[0]) // step_s) * step_s) if len(coming_s) else due_s


class WaitEstimator(Protocol):
    """Says how long jobs would wait."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return the expected wait [s] of each pending job at each site, alone and submitted now: float64[n, m]."""


class Electricity(Protocol):
    """Returns the known electricity series at an instant: published, else forecast."""

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return a series per MWh for each site, from now on or before."""

    def carbon(self, now_s: int) -> tuple[Series, ...]:
        """Return a series in g/kWh for each site."""


class Decider:
    """A policy with its rules, waits and electricity, as the broker calls it."""

    def __init__(self, policy: GridPolicy, rules: GridRules, waits: WaitEstimator, electricity: Electricity) -> None:
        self._policy, self._rules, self._waits, self._electricity = policy, rules, waits, electricity
        self._turn = 0

    def choose(self, moment: Moment) -> Int64:
        """Return the site of each pending job, NOBODY for those that wait for the next cycle."""
        cycle = GridCycle(
            now_s=moment.now_s,
            grid=moment.grid.federation,
            jobs=moment.grid.as_requested.take(moment.job),
            states=self._states(moment),
            wait_s=self._waits.wait_s(moment),
            rules=self._rules,
            turn=self._turn,
        )
        decision = self._policy.decide(cycle)
        self._turn = decision.turn
        return decision.site

    def _states(self, moment: Moment) -> SiteStates:
        return SiteStates(
            idle_units=np.array([site.idle_units for site in moment.sites], np.int64),
            queued=np.array([site.waiting for site in moment.sites], np.int64),
            stale=np.zeros(len(moment.sites), np.bool_),
            price=self._electricity.price(moment.now_s),
            carbon=self._electricity.carbon(moment.now_s),
            left_core_s=moment.grid.federation.allocated_core_s,
        )


class SiteJobs(NamedTuple):
    """The free units of a site, the running jobs by expected end, and the queue in order; a hole has size NEVER."""

    free: int
    held: Int64
    end_s: Int64
    size: Int64
    estimate_s: Int64


@kernel
def room_after_s(jobs: SiteJobs, now_s: int, units: Int64) -> Float64:
    """Start the queue in its order as soon as there is room; return after which wait [s] so many units are free."""
    free, held, end_s, size, estimate_s = jobs
    most = len(held) + len(size)
    ends, holds = np.empty(most, np.int64), np.empty(most, np.int64)
    ends[: len(held)], holds[: len(held)] = end_s, held
    listed, first, at_s = len(held), 0, now_s
    for job in range(len(size)):
        if size[job] == NEVER:
            continue
        while free < size[job]:
            at_s = max(at_s, ends[first])
            free += holds[first]
            first += 1
        free -= size[job]
        place = listed
        while place > first and ends[place - 1] > at_s + estimate_s[job]:
            ends[place], holds[place] = ends[place - 1], holds[place - 1]
            place -= 1
        ends[place], holds[place] = at_s + estimate_s[job], size[job]
        listed += 1
    wait_s = np.empty(len(units))
    for number in range(len(units)):
        room, event, from_s = free, first, at_s
        while room < units[number] and event < listed:
            room += holds[event]
            from_s = max(from_s, ends[event])
            event += 1
        wait_s[number] = from_s - now_s
    return wait_s


@kernel
def rows_as_submitted(known: tuple[JobColumns, Int64], alive: int, units: int, row: Int64, at_s: Int64) -> Float64:
    """Return the features of jobs of the site as they were submitted, float64[n, len(FEATURES)]."""
    jobs, end_s = known
    rows = np.zeros((len(row), len(FEATURES)))
    for number in range(len(row)):
        job = row[number]
        running, queued = _present(jobs, end_s, alive, job, at_s[number])
        write_row(
            rows[number], SubmittedJob(at_s[number], units, jobs.size[job], jobs.estimate_s[job]), jobs, running, queued
        )
    return rows


@kernel
def rows_if_submitted_now(
    known: tuple[JobColumns, Int64], alive: int, units: int, now_s: int, size: Int64, estimate_s: Int64
) -> Float64:
    """Return the features of jobs that would be submitted now."""
    jobs, end_s = known
    rows = np.zeros((len(size), len(FEATURES)))
    running, queued = _present(jobs, end_s, alive, len(jobs.size), now_s)
    for number in range(len(size)):
        write_row(rows[number], SubmittedJob(now_s, units, size[number], estimate_s[number]), jobs, running, queued)
    return rows


@kernel
def _present(jobs: JobColumns, end_s: Int64, alive: int, behind: int, now_s: int) -> tuple[Int64, Int64]:
    """Return which of the jobs [alive, behind) run at that second, by expected end, and which wait."""
    running, queued = np.empty(behind - alive, np.int64), np.empty(behind - alive, np.int64)
    runs = waits = 0
    for job in range(alive, behind):
        if jobs.start_s[job] >= now_s:
            queued[waits] = job
            waits += 1
        elif end_s[job] > now_s:
            running[runs] = job
            runs += 1
    running = running[:runs]
    return running[np.argsort(jobs.expected_end_s[running], kind="mergesort")], queued[:waits]


class ZeroGridWaits:
    """Every job starts at once."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return zeros, float64[n, m]."""
        return np.zeros((len(moment.job), len(moment.sites)))


class NoisyWaits:
    """Adds a random time of up to so many hours to each wait.

    Murali and Vadhiyar 2018, section 5.3: a random value from 1 to P, here any from 0 to P.
    """

    def __init__(self, waits: WaitEstimator, most_h: float, seed: int) -> None:
        self._waits, self._most_s = waits, most_h * HOUR_S
        self._rng = np.random.default_rng(seed)

    def wait_s(self, moment: Moment) -> Float64:
        """Return the waits, each longer by its own chance."""
        estimated_s = self._waits.wait_s(moment)
        return np.asarray(estimated_s + self._rng.uniform(0.0, self._most_s, estimated_s.shape))


NO_STATES: Sequence[Snapshot] = ()


class LearnedWaits:
    """One predictor a site, made by `fresh`; it learns of a job in the first cycle after the job has started.

    Predictors that plan with snapshots are given none.
    """

    def __init__(self, fresh: Callable[[], WaitPredictor]) -> None:
        self._fresh = fresh
        self._sites: dict[int, _Learner] = {}

    def wait_s(self, moment: Moment) -> Float64:
        """Return the predicted median wait [s] of each pending job at each site, float64[n, m]."""
        columns = []
        for number, site in enumerate(moment.sites):
            learner = self._sites.setdefault(number, _Learner(self._fresh()))
            learner.learn(site, moment.now_s)
            units = moment.grid.units(moment.job, number)
            estimate_s = moment.grid.at_site_s(moment.grid.log.jobs.estimate_s[moment.job], moment.job, number)
            columns.append(learner.predict(site, moment.now_s, units, estimate_s))
        return np.stack(columns, axis=1)


class _Learner:
    """A site's predictor, and which of the site's rows it has not learned yet."""

    def __init__(self, predictor: WaitPredictor) -> None:
        self._predictor = predictor
        self._waiting = np.empty(0, np.int64)
        self._seen = self._alive = 0

    def learn(self, site: OpenSite, now_s: int) -> None:
        """Let the predictor learn of the jobs that have started since."""
        self._waiting = np.concatenate([self._waiting, np.arange(self._seen, site.count)])
        self._seen = site.count
        started = site.held_s[self._waiting] != NOT_YET
        row, self._waiting = self._waiting[started], self._waiting[~started]
        if len(row):
            submit_s = site.workload.submit_s[row]
            rows = rows_as_submitted(_columns(site, 0), 0, site.site.site.units, row, submit_s)
            self._predictor.learn(WaitOutcomes(_questions(rows), site.held_s[row] - submit_s), now_s)

    def predict(self, site: OpenSite, now_s: int, units: Int64, estimate_s: Int64) -> Float64:
        """Return the predicted waits of jobs that would be submitted now, NaN-free, float64[n]."""
        ended = site.held_s[self._alive :] != NOT_YET
        ended &= site.end_s(self._alive) <= now_s
        self._alive += int(np.argmin(np.append(ended, False)))
        rows = rows_if_submitted_now(_columns(site, self._alive), 0, site.site.site.units, now_s, units, estimate_s)
        return self._predictor.predict(_questions(rows), now_s).point


def _questions(rows: Float64) -> WaitQuestions:
    unknown = np.full(len(rows), NO_JOB)
    return WaitQuestions(unknown, unknown, unknown, rows, np.zeros(len(rows), np.int64), NO_STATES)


def _columns(site: OpenSite, first: int) -> tuple[JobColumns, Int64]:
    """Return the site's jobs from the row `first` on, and their ends, NEVER if unknown."""
    rows, jobs = slice(first, site.count), site.workload
    waits = site.held_s[first:] == NOT_YET
    held_s, end_s = (np.where(waits, NEVER, each) for each in (site.held_s[first:], site.end_s(first)))
    # A waiting job has no expected end, and no kernel reads one.
    expected_s = np.where(waits, NEVER, held_s + jobs.estimate_s[rows])
    return JobColumns(jobs.size[rows], jobs.submit_s[rows], jobs.estimate_s[rows], held_s, expected_s), end_s


class LongestWaits:
    """Uses only the data that sites publish."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return the longest wait [s] of each pending job at each site; if too wide, until that is empty."""
        columns = [
            longest_wait_s(site, moment.now_s, moment.grid.units(moment.job, number))
            for number, site in enumerate(moment.sites)
        ]
        return np.stack(columns, axis=1)


def longest_wait_s(site: OpenSite, now_s: int, units: Int64) -> Float64:
    """Return the longest wait [s] of jobs of so many units at a site, each alone behind its queue."""
    queue, slots, waiting = site.state.groups[0], site.state.slots, site.state.waiting
    runs = site.state.expected[: queue["listed"]]
    waits = slice(int(queue["head"]), int(queue["tail"]))
    free = site.site.site.units - int(slots.pieces[runs].sum())
    jobs = SiteJobs(free, slots.pieces[runs], slots.expected_end_s[runs], waiting.size[waits], waiting.hold_s[waits])
    return room_after_s(jobs, now_s, units)
