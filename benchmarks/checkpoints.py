"""What tiers of flexibility save on a log with a preemptible class: UniLu Gaia 2014, its `besteffort` queue.

The decisions are those of the agent: `choose_checkpoints` for running jobs, `BeginTimePlanner` before a start. All
other jobs run as logged. A job of the class starts as logged, unless its tier moves it; then it starts at its begin
time, or as soon as the processors suffice that the other jobs leave. A checkpoint takes 10 min, and so does the
restart: both are charged. Prices are day-ahead prices of a later year, known once they are published, at noon for the
next day.
"""

import argparse
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.logs import SHARED, price_file
from offpeak.model.arrays import Float64
from offpeak.model.constants import HOUR_S
from offpeak.model.flexibility import parse_user_hints
from offpeak.model.step_series import Series
from offpeak.plugin.queue_hook.checkpoints import MOST_REQUEUES, choose_checkpoints
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import NO_MARKS
from offpeak.plugin.queue_hook.start_times import BeginTimePlanner
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

LOG = SHARED / "modern" / "gaia" / "UniLu-Gaia-2014-2.swf.gz"
BESTEFFORT, PROCESSORS = 2, 2004
STEP_S, CHECKPOINT_S = 900, 600
WATTS_PER_CORE = 10.0
"""Shares of the cost do not depend on it."""
FIRST_DAY = datetime(2014, 5, 22, 8, 57, 59, tzinfo=UTC)
PUBLISHED_S, DAYS_S = 12 * HOUR_S, 24 * HOUR_S
"""Day-ahead prices are published at 12:00 UTC (13:00 in winter)."""
TIERS = {
    "T0: as logged": "",
    "T1: delay=12h": "offpeak:delay=12h",
    "T2: delay=2d": "offpeak:delay=2d",
    "T3: checkpoint=10min,delay=2d": "offpeak:checkpoint=10min,delay=2d",
}


@dataclass
class Run:
    """A job of the class in a replay: work that is left, whether it runs, and the earliest start."""

    number: int
    submit_s: int
    begin_s: int
    work_s: float
    limit_s: int
    cores: int
    started_s: int | None = None
    requeues: int = 0
    decided: bool = False
    pieces: list[tuple[float, float]] = field(default_factory=list)

    def job(self, comment: str, run_s: int) -> Job:
        """Return the job as an adapter shows it."""
        state = JobState.PENDING if self.started_s is None else JobState.RUNNING
        texts = ("ann", "", "job", comment, ("besteffort",), None, "", "")
        numbers = (0, 0, 1, self.cores, False, run_s, self.submit_s, None, self.started_s, None, "", True)
        return Job(str(self.number), state, "", "", *texts, *numbers)  # type: ignore[arg-type]


def read_log(path: Path) -> Float64:
    """Return the columns of the log, a row for each job."""
    with gzip.open(path, "rt", errors="replace") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith(";")]
    return np.array(rows, np.float64)


def read_hourly(first_s: int, hours: int, year: int) -> Float64:
    """Return the prices of a year from the same weekday and hour on."""
    with gzip.open(price_file(), "rt") as file:
        rows = [line.strip().split(",") for line in file][1:]
    by_hour = {int(datetime.fromisoformat(row[0]).timestamp()) // HOUR_S: float(row[1]) for row in rows if row[1]}
    weeks_s = 7 * DAYS_S
    later_s = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) - int(datetime(2014, 1, 1, tzinfo=UTC).timestamp())
    shift = round(later_s / weeks_s) * weeks_s // HOUR_S
    return np.array([by_hour.get(first_s // HOUR_S + shift + hour, np.nan) for hour in range(hours)])


def known_prices(hourly: Float64, first_s: int, now_s: int) -> Series:
    """Return the prices that are published by then: until midnight, from noon on until the next."""
    day_s = (first_s + now_s) // DAYS_S * DAYS_S - first_s
    until_s = day_s + (2 if first_s + now_s - (day_s + first_s) >= PUBLISHED_S else 1) * DAYS_S
    begin, end = max(now_s // HOUR_S - 1, 0), min(until_s // HOUR_S, len(hourly))
    start_s = np.arange(begin, end, dtype=np.int64) * HOUR_S
    return Series(start_s, int(end * HOUR_S), hourly[begin:end], "EUR/MWh", "day-ahead")


def replay(log: Float64, hourly: Float64, first_s: int, comment: str, *, by_limit: bool) -> list[Run]:
    """Return the runs of the class under that hint."""
    of_class = log[:, 14] == BESTEFFORT
    runs = [_run(row) for row in log[of_class] if row[3] > 0 and row[4] > 0]
    others = log[~of_class & (log[:, 3] > 0)]
    end_s = int(log[:, [1, 2, 3]].sum(axis=1).max()) + 4 * DAYS_S
    used = np.zeros(end_s // STEP_S + 2)
    np.add.at(used, (others[:, 1] + others[:, 2]).astype(int) // STEP_S, others[:, 4])
    np.add.at(used, (others[:, 1] + others[:, 2] + others[:, 3]).astype(int) // STEP_S + 1, -others[:, 4])
    free = PROCESSORS - np.cumsum(used)
    rules = QueueRules("greedy", 20, DAYS_S, 100, 3 * DAYS_S, UTC)
    hints, waiting, running = parse_user_hints(comment, UTC), sorted(runs, key=lambda run: run.begin_s), list[Run]()
    for step in range(end_s // STEP_S):
        now_s = step * STEP_S
        still = [run for run in running if not _advance(run, now_s)]
        busy, running = sum(run.cores for run in still), still
        prices = known_prices(hourly, first_s, now_s)
        if hints.may_be_requeued and running:
            busy -= sum(run.cores for run in _stop(running, waiting, prices, now_s, comment, rules, by_limit))
            running = [run for run in running if run.started_s is not None]
        later = []
        for run in waiting:
            if run.begin_s > now_s + STEP_S:
                later.append(run)
                continue
            if hints.allows_delay and not run.decided:
                run.decided = True
                run.begin_s = _begin(run, prices, now_s, comment, rules, by_limit)
            is_logged = run.requeues == 0 and not hints.allows_delay
            if run.begin_s < now_s + STEP_S and (is_logged or busy + run.cores <= max(free[step], 0)):
                run.started_s = max(run.begin_s, now_s)
                running.append(run)
                busy += run.cores
            else:
                later.append(run)
        waiting = later
        if not waiting and not running:
            break
    return runs


def _run(row: Float64) -> Run:
    number, submit_s, wait_s, run_s, cores, limit_s = (int(row[at]) for at in (0, 1, 2, 3, 4, 8))
    return Run(number, submit_s, submit_s + max(wait_s, 0), run_s, max(limit_s, run_s), cores)


def _advance(run: Run, now_s: int) -> bool:
    """Book the run if it has ended by now; return whether it has."""
    started_s = run.started_s or 0
    if started_s + run.work_s > now_s:
        return False
    run.pieces.append((started_s, started_s + run.work_s))
    run.started_s, run.work_s = None, 0.0
    return True


def _facts(run: list[Run], prices: Series, now_s: int, comment: str, *, by_limit: bool) -> QueueFacts:
    jobs, run_s = [], {}
    for each in run:
        expected_s = int(each.limit_s if by_limit else each.work_s)
        jobs.append(each.job(comment, expected_s))
        run_s[str(each.number)] = expected_s
    return QueueFacts(
        now_s, tuple(jobs), Ranking.VALUE, peak=Peak.OFF_PEAK, prices=prices, expected_run_s=run_s, cycle_s=STEP_S
    )


def _stop(
    running: list[Run],
    waiting: list[Run],
    prices: Series,
    now_s: int,
    comment: str,
    rules: QueueRules,
    by_limit: bool,
) -> Iterator[Run]:
    """Requeue the running jobs that the agent would stop now."""
    choices = choose_checkpoints(_facts(running, prices, now_s, comment, by_limit=by_limit), rules)
    stopped = []
    for run in running:
        choice = choices.get(str(run.number))
        started_s = run.started_s or 0
        if choice is None or run.requeues >= MOST_REQUEUES or run.work_s - (now_s - started_s) <= CHECKPOINT_S:
            continue
        run.pieces.append((started_s, now_s + CHECKPOINT_S))
        run.work_s += CHECKPOINT_S - (now_s - started_s)
        run.limit_s = max(run.limit_s - (now_s - started_s), CHECKPOINT_S)
        # Slurm counts it as submitted anew.
        run.submit_s, run.begin_s, run.started_s, run.requeues = now_s, choice.begin_s, None, run.requeues + 1
        stopped.append(run)
    waiting.extend(stopped)
    return iter(stopped)


def _begin(run: Run, prices: Series, now_s: int, comment: str, rules: QueueRules, by_limit: bool) -> int:
    """Return the begin time that the agent would set when the job could start."""
    facts = _facts([run], prices, now_s, comment, by_limit=by_limit)
    (job,) = facts.jobs
    choice = BeginTimePlanner(facts, rules).choose_begin(job, rules.hints(job), NO_MARKS)
    return run.begin_s if choice is None or not choice.begin_s else max(choice.begin_s, run.begin_s)


def cost(runs: list[Run], hourly: Float64) -> tuple[float, float]:
    """Return the cost of the class [EUR] and its core-hours."""
    paid = np.concatenate(([0.0], np.cumsum(np.nan_to_num(hourly))))
    at = np.arange(len(paid)) * float(HOUR_S)
    money = core_s = 0.0
    for run in runs:
        for begin_s, end_s in run.pieces:
            spent = np.interp(end_s, at, paid) - np.interp(begin_s, at, paid)
            money += spent * WATTS_PER_CORE * run.cores / 1e6
            core_s += (end_s - begin_s) * run.cores
    return float(money), core_s / HOUR_S


def main() -> None:
    """Print a line for each tier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--year", type=int, default=2023, help="year of the prices")
    parser.add_argument("--by-limit", action="store_true", help="expect the time limit, not the run time")
    options = parser.parse_args()
    log, first_s = read_log(LOG), int(FIRST_DAY.timestamp())
    hours = int(log[:, [1, 2, 3]].sum(axis=1).max()) // HOUR_S + 10 * 24
    hourly = read_hourly(first_s, hours, options.year)
    logged = None
    print("| tier | cost EUR | saved | core-hours | requeued jobs | ends later: median of moved, longest |")
    for name, comment in TIERS.items():
        began_s = time.perf_counter()
        runs = replay(log, hourly, first_s, comment, by_limit=options.by_limit)
        money, core_h = cost(runs, hourly)
        ends = {run.number: run.pieces[-1][1] for run in runs if run.pieces}
        base, logged_ends = logged or (money, ends)
        logged = logged or (money, ends)
        later_h = np.array([(end - logged_ends[number]) / HOUR_S for number, end in ends.items()])
        moved_h = later_h[later_h > 0.5]
        requeued, unfinished = sum(run.requeues > 0 for run in runs), sum(run.work_s > 0 for run in runs)
        print(
            f"| {name} | {money:,.2f} | {1 - money / base:.1%} | {core_h:,.0f} | {requeued:,} of {len(runs):,}"
            f" | {np.median(moved_h) if len(moved_h) else 0:.1f} h of {len(moved_h):,}, {later_h.max():.1f} h |"
            f" {unfinished} unfinished, {time.perf_counter() - began_s:.0f} s"
        )


if __name__ == "__main__":
    main()
