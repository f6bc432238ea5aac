"""The agent's predictor of run times in a replay, for the what-if simulations of capacity policies.

The agent predicts each job when it is submitted, learns it when it ends, and predicts all jobs again whenever it plans
(offpeak.predictors.run_times.chosen_run_time). Here the same kernels do so for the jobs of a log: before each
decision they catch up with the submissions and the ends since the last one, in their order. A decision is made once in
thousands of events, so a replay without one loses nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from offpeak.compiled import in_place, index, part
from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import ASSUMED_RUN_S, QueuedJobs, RunningJobs
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.predictors.choice import NAIVE, USED, ChoiceMemory, ChoiceRule, learn_errors, new_choice
from offpeak.predictors.job_history import add_outcome, closest_kind
from offpeak.predictors.port import LEVELS, MEDIAN
from offpeak.predictors.recent_errors import LENGTH, ErrorWindow, error_factor, new_windows
from offpeak.predictors.run_times import KINDS, RunTimeQuantity, learn_run_time, predict_run_time
from offpeak.predictors.trees.boosted import categories
from offpeak.predictors.trees.running_statistics import CategoryTable, RunningStatistics, remember_row
from offpeak.sim_backend.engine.case import NO_LIMIT, SubmittedJobs
from offpeak.sim_backend.engine.rules import NOT_YET, USER_ESTIMATE
from offpeak.sim_backend.replay.policy import Policy

LAST_TWO, SIMILAR = 1, 2
"""The candidates after the naive one, the time limit."""
CANDIDATES = 3

SUBMITTED, AWAITED = range(2)

_expected_run, _expected_end = part(QueuedJobs.expected_run), part(RunningJobs.expected_end)


class PredictedJobs(NamedTuple):
    """The jobs of a replay, and what was predicted when they were submitted.

    `counts[SUBMITTED]` jobs have been submitted; the first `counts[AWAITED]` of `awaited` have not ended, and `ended`
    has room for those that have since. `user` is numbered from 0. `limit_s` is what the predictor assumes and
    `expected_limit_s` what a plan assumes. A run time lies between `least_s` and `most_s`, and similar jobs have
    similar shares of `scale_s`. The first answers are `predicted_s`, float64[n, CANDIDATES], the candidate `used`, and
    the `kind` and `share` of similar jobs.
    """

    counts: Int64
    awaited: Int64
    ended: Int64
    submit_s: Int64
    user: Int64
    category: Int64
    limit_s: Int64
    expected_limit_s: Int64
    scale_s: Float64
    least_s: Float64
    most_s: Float64
    predicted_s: Float64
    used: Int64
    kind: Int64
    share: Float64


class Learned(NamedTuple):
    """What the candidates have learned, and the choice among them; `target` is float64[1]."""

    rule: ChoiceRule
    recent_s: Int64
    table: CategoryTable
    errors: ErrorWindow
    choice: ChoiceMemory
    target: Float64


@part
def predict_similar(learned: Learned, jobs: PredictedJobs, job: int) -> tuple[int, float, float]:
    """Return the closest kind of jobs that have ended, their mean share, and the run time [s] that follows."""
    at = index(job)
    kind, share = closest_kind(learned.table, jobs.category[at])
    if kind == len(learned.table.kinds):
        share = 1.0
    factor = error_factor(learned.errors.rising[kind], learned.errors.counts[kind, LENGTH], LEVELS[MEDIAN])
    return kind, share, min(max(share * factor * jobs.scale_s[at], jobs.least_s[at]), jobs.most_s[at])


@part
def note_submission(learned: Learned, jobs: PredictedJobs, job: int) -> None:
    """Predict a job by all candidates."""
    at = index(job)
    jobs.kind[at], jobs.share[at], similar_s = predict_similar(learned, jobs, job)
    jobs.predicted_s[at, index(NAIVE)] = jobs.limit_s[at]
    jobs.predicted_s[at, index(LAST_TWO)] = predict_run_time(learned.recent_s, jobs.user[at], jobs.limit_s[at])
    jobs.predicted_s[at, index(SIMILAR)] = similar_s
    jobs.used[at] = learned.choice.counts[USED]


@part
def learn_end(learned: Learned, jobs: PredictedJobs, job: int, runtime_s: int) -> int:
    """Learn the run time of a job and the errors of its first predictions; return how many kinds of jobs are new."""
    at = index(job)
    errors_s = jobs.predicted_s[at]
    for candidate in range(CANDIDATES):
        errors_s[index(candidate)] -= runtime_s
    learn_errors(learned.choice, learned.rule, errors_s, jobs.used[at])
    share = min(max(float(runtime_s), jobs.least_s[at]), jobs.most_s[at]) / jobs.scale_s[at]
    add_outcome(learned.errors, jobs.kind[at], jobs.share[at], share)
    learn_run_time(learned.recent_s, jobs.user[at], runtime_s)
    learned.target[0] = share
    return int(remember_row(learned.table, jobs.category[at], learned.target))


@part
def take_ended(jobs: PredictedJobs, start_s: Int64, runtime_s: Int64, now_s: int) -> int:
    """Move the awaited jobs that have ended by now to `ended`, in the order of their ends, and return their number."""
    awaited, ended = jobs.awaited, jobs.ended
    kept, count = 0, 0
    for at in range(jobs.counts[AWAITED]):
        job = awaited[index(at)]
        end_s = start_s[index(job)] + runtime_s[index(job)]
        if start_s[index(job)] == NOT_YET or end_s > now_s:
            awaited[index(kept)] = job
            kept += 1
            continue
        place = count
        while place > 0:
            before = ended[index(place - 1)]
            if start_s[index(before)] + runtime_s[index(before)] <= end_s:
                break
            ended[index(place)] = before
            place -= 1
        ended[index(place)] = job
        count += 1
    jobs.counts[AWAITED] = kept
    return count


@in_place
def catch_up(
    learned: Learned, jobs: PredictedJobs, start_s: Int64, runtime_s: Int64, submitted: int, now_s: int
) -> int:
    """Predict the jobs that have been submitted since the last call, and learn those that have ended, by time.

    In a second ends come first. Return how many kinds of jobs are new.
    """
    following, added = jobs.counts[SUBMITTED], 0
    for job in range(following, submitted):
        jobs.awaited[index(jobs.counts[AWAITED])] = job
        jobs.counts[AWAITED] += 1
    for row in range(take_ended(jobs, start_s, runtime_s, now_s)):
        job = jobs.ended[index(row)]
        end_s = start_s[index(job)] + runtime_s[index(job)]
        while following < submitted and (following <= job or jobs.submit_s[index(following)] < end_s):
            note_submission(learned, jobs, following)
            following += 1
        added += learn_end(learned, jobs, job, runtime_s[index(job)])
    while following < submitted:
        note_submission(learned, jobs, following)
        following += 1
    jobs.counts[SUBMITTED] = submitted
    return added


class RunningSince(NamedTuple):
    """Jobs that run at `now_s`, and since when."""

    job: Int64
    start_s: Int64
    now_s: int


@part
def expect_run_time(learned: Learned, jobs: PredictedJobs, job: int) -> int:
    """Return how long a job is expected to run, by the candidate in use."""
    at = index(job)
    used = learned.choice.counts[USED]
    predicted_s = float(jobs.limit_s[at])
    if used == LAST_TWO:
        predicted_s = float(predict_run_time(learned.recent_s, jobs.user[at], jobs.limit_s[at]))
    elif used == SIMILAR:
        _, _, predicted_s = predict_similar(learned, jobs, job)
    return int(_expected_run(int(np.rint(predicted_s)), jobs.expected_limit_s[at]))


@in_place
def expect(
    learned: Learned, jobs: PredictedJobs, running: RunningSince, end_s: Int64, queued: Int64, run_s: Int64
) -> None:
    """Write when the running jobs are expected to end, and how long the queued ones are expected to run."""
    for row in range(len(end_s)):
        job = running.job[index(row)]
        expected_s = expect_run_time(learned, jobs, job)
        limit_s = jobs.expected_limit_s[index(job)]
        end_s[index(row)] = _expected_end(running.start_s[index(row)], expected_s, limit_s, running.now_s)
    for row in range(len(run_s)):
        run_s[index(row)] = expect_run_time(learned, jobs, queued[index(row)])


def predicts_run_times(policy: Policy, capacity: Iterable[CapacityPolicy]) -> bool:
    """Tell whether run times are predicted in a replay: for decisions of capacity policies that plan with them.

    Where the scheduler itself knows other run times than the limits, a decision is made with these.
    """
    return policy.rules.estimates == USER_ESTIMATE and any(
        each.decide is not None and not each.by_limits for each in capacity
    )


class ReplayedRunTimes:
    """Predicts the run times of jobs during a replay from the jobs that have ended so far."""

    def __init__(self, jobs: SubmittedJobs, submit_s: Int64) -> None:
        rule, self._running = ChoiceRule(), RunningStatistics(tuple(kind.columns for kind in KINDS), targets=1)
        users, user = np.unique(jobs.user, return_inverse=True)
        questions, quantity = jobs.as_questions(), RunTimeQuantity()
        no_answer = np.zeros(len(submit_s), dtype=np.int64)
        least_s, most_s = (
            quantity.bounded(np.full((len(submit_s), 1), bound), questions)[:, 0] for bound in (-np.inf, np.inf)
        )
        self._jobs = PredictedJobs(
            counts=np.zeros(2, dtype=np.int64),
            awaited=np.empty_like(submit_s),
            ended=np.empty_like(submit_s),
            submit_s=submit_s,
            user=user.astype(np.int64),
            category=categories(questions),
            limit_s=questions.estimate_s,
            expected_limit_s=np.where(jobs.limit_s == NO_LIMIT, ASSUMED_RUN_S, jobs.limit_s),
            scale_s=quantity.scale(questions),
            least_s=least_s,
            most_s=most_s,
            predicted_s=np.zeros((len(submit_s), CANDIDATES)),
            used=no_answer,
            kind=no_answer.copy(),
            share=np.zeros(len(submit_s)),
        )
        self._learned = Learned(
            rule=rule,
            recent_s=np.full(2 * len(users), NOT_YET, dtype=np.int64),
            table=self._running.table,
            errors=new_windows(len(KINDS) + 1),
            choice=new_choice(CANDIDATES, rule),
            target=np.empty(1),
        )

    def catch_up(self, start_s: Int64, runtime_s: Int64, submitted: int, now_s: int) -> None:
        """Learn what has happened up to `now_s`: the first jobs, so many, are submitted, and began at `start_s`.

        Of the run times only those of jobs that have ended by then are learned.
        """
        jobs = self._jobs
        self._running.make_room(int(jobs.counts[AWAITED]) + submitted - int(jobs.counts[SUBMITTED]))
        if self._running.table.seen is not self._learned.table.seen:
            self._learned = self._learned._replace(table=self._running.table)
        self._running.note_keys(catch_up(self._learned, jobs, start_s, runtime_s, submitted, now_s))

    def expected(self, running: RunningSince, queued: Int64) -> tuple[Int64, Int64]:
        """Return when running jobs are expected to end, and how long queued ones are expected to run."""
        end_s, run_s = np.empty(len(running.job), dtype=np.int64), np.empty(len(queued), dtype=np.int64)
        expect(self._learned, self._jobs, running, end_s, queued, run_s)
        return end_s, run_s
