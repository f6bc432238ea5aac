"""Waits of a job at each site, as a federation policy gets them: none, with an error, learned, and the longest.

Learned: each site has a predictor of its own, which learns from the jobs that were submitted there. Longest: all jobs
before it run for all of their estimates, and none overtakes. Majanen et al., "Energy and Carbon Aware Scheduling in
Supercomputing", section III-B.2: "it is possible to calculate only the maximum wait times"; from the status of running
jobs and the walltimes of each queued job.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.snapshot import Snapshot
from predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions
from predictors.waits.registry import WaitPredictor
from predictors.waits.states import FEATURES, JobColumns, SubmittedJob, write_row
from sim_backend.engine.state import NEVER, NOT_YET
from sim_backend.grid.broker import Moment, WaitEstimator
from sim_backend.grid.sites import OpenSite


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
        """Return the longest wait [s] of each pending job at each site, float64[n, m].

        Where it is too wide, until the site is empty."""
        columns = [
            longest_wait_s(site, moment.now_s, moment.grid.units(moment.job, number))
            for number, site in enumerate(moment.sites)
        ]
        return np.stack(columns, axis=1)


def longest_wait_s(site: OpenSite, now_s: int, units: Int64) -> Float64:
    """Return the longest wait [s] of jobs of so many units at a site, each alone behind its queue."""
    now, slots, queue = site.state.scalars[0], site.state.slots, site.state.queue
    runs = site.state.expected[: now["listed"]]
    waits = slice(int(now["head"]), int(now["tail"]))
    free = site.site.site.units - int(slots.size[runs].sum())
    jobs = SiteJobs(free, slots.size[runs], slots.expected_end_s[runs], queue.size[waits], queue.estimate_s[waits])
    return room_after_s(jobs, now_s, units)
