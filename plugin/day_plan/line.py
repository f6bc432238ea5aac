"""The jobs that wait in the site's order, and which of them may change places with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Int64
from plugin.day_plan.sight import Sight
from plugin.queue_hook.arrange import window_size
from plugin.queue_hook.lines import lines_of, pending, standings_of
from plugin.queue_hook.passed import passed_since, started_in
from plugin.queue_hook.places import places_of
from plugin.queue_hook.standing import BEGIN, NO_MARKS, MarkedJobs, marks_by_job, ours
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class Line:
    """All jobs that wait, the first to start first as the site has them, and the movable ones of each window."""

    ordered: tuple[Job, ...]
    windows: tuple[frozenset[str], ...]


def line_of(sight: Sight) -> Line:
    """Return the line; windows and who keeps the place in them are the queue hook's."""
    facts, rules = sight.queue, sight.rules
    marked = marks_by_job(facts.marks, facts.jobs)
    waiting = pending(facts.jobs)
    # Whom only we keep back may change places in the plan as if we did not.
    kept_back = {job.job_id for job in waiting if job.begin_s and _is_ours(job, marked)}
    standings = standings_of(waiting, marked, facts)
    at_once = [
        each._replace(job=each.job._replace(begin_s=None)) if each.job.job_id in kept_back else each
        for each in standings.all
    ]
    ordered = sorted(standings.all, key=lambda each: (-each.site, each.number))
    started, windows = started_in(facts.jobs), []
    for competition, line in lines_of(at_once, now_s=facts.now_s, later=()).items():
        window = line[: window_size(rules)]
        passed = {
            each.job.job_id: passed_since(each, started.get(competition, []), marked.get(each.job.job_id, NO_MARKS))
            for each in window
        }
        since_s = {job: since for job, since in passed.items() if since is not None}
        kept = places_of(window, facts=facts, rules=rules, by_hand=standings.by_hand, since_s=since_s).kept
        windows.append(frozenset(each.job.job_id for at, each in enumerate(window) if at not in kept))
    return Line(tuple(each.job for each in ordered), tuple(windows))


def _is_ours(job: Job, marked: MarkedJobs) -> bool:
    return ours(marked.get(job.job_id, NO_MARKS), BEGIN, job.begin_s or 0) is True


def within_windows(order: Int64, windows: Sequence[Int64]) -> Int64:
    """Return 0, 1, 2 ... with each window's positions in the sequence that `order` has them in."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    dealt = np.arange(len(order))
    for window in windows:
        dealt[window] = window[np.argsort(rank[window], kind="stable")]
    return dealt
