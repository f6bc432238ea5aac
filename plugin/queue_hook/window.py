"""Reorders the window of one resource pool: who keeps the place, the new order, and the priorities that produce it.

The order comes from the kernels that the engine runs (plugin.window_order) or from the day plan. The new priorities are
the site's own values, assigned in another order, so that no job outside the window is passed.

Starvation bound: a job that later submissions have been passing for too long keeps its place, as in the simulator. See
docs/decisions/0003-starvation-bound.md. The scheduler forgets jobs that have ended, so the first passing is marked.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.ledger.rows import JobMark
from offpeak.prices.peak import Peak
from plugin.queue_hook.facts import PLAN, QueueFacts, QueueRules, ResourcePool, format_clock, job_number, resource_pool
from plugin.queue_hook.positions import LEAST_PRIORITY, PASSED, JobMarks, QueuePosition
from plugin.queue_hook.user_hints import parse_user_hints
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking
from plugin.window_order import MOST_JOBS, fill_nodes, put_first, scratch, sort_by_power


def greedy_order(node_power_w: Sequence[float], *, off_peak: bool) -> list[int]:
    """Return the positions in the order in which the jobs are to stand: the hungriest first off-peak, else last."""
    order = np.arange(len(node_power_w))
    sort_by_power(order, 0, np.array(node_power_w, np.float64), off_peak)
    return [int(position) for position in order]


def planned_order(start_s: Sequence[int]) -> list[int]:
    """Return the positions in the order of their planned starts."""
    return sorted(range(len(start_s)), key=start_s.__getitem__)


def knapsack_order(nodes: Sequence[int], node_power_w: Sequence[float], *, free: int, off_peak: bool) -> list[int]:
    """Return the positions, those first that fill the free nodes best. At most plugin.window_order.MOST_JOBS jobs."""
    order = np.arange(len(nodes))
    size, power_w = np.array(nodes, np.int64), np.array(node_power_w, np.float64)
    chosen = fill_nodes(scratch(free), 0, size, power_w, free, off_peak)
    put_first(order, 0, chosen, len(nodes))
    return [int(position) for position in order]


def free_behind(free: int, kept: Sequence[int]) -> int:
    """Return the nodes that are left when those of the kept jobs that fit, in order, have started."""
    for nodes in kept:
        if nodes > free:
            return free
        free -= nodes
    return free


DOUBT = 1
"""Where no less than 1 is shown, 0 or 1 may be underneath: an offset then does one less than it says."""


@dataclass(frozen=True)
class DesiredOrder:
    """A window in the site's order, and its positions in the wanted one. `below` is the first job behind the window.

    `pinned` are positions whose jobs are not written to; they stand at their own place in the wanted order too.
    """

    window: Sequence[QueuePosition]
    wanted: Sequence[int]
    pinned: frozenset[int]
    below: QueuePosition | None


def assign_priorities(arrangement: DesiredOrder, ranking: Ranking) -> list[int] | None:
    """Return each window position's priority; None where equal priorities leave no room beside a pinned job.

    The site's values, largest first, go to the jobs in the wanted order. Equal ones among which the job number would
    decide otherwise are raised by the smallest steps, from below: nobody comes to stand below a job outside.
    """
    window, wanted = arrangement.window, arrangement.wanted
    values = [each.site for each in window]
    below = arrangement.below
    under = (below.site, below.number) if below else (-1, 0)
    doubt = DOUBT if ranking is Ranking.OFFSET and window[-1].site <= LEAST_PRIORITY else 0
    settled = True
    for rank in reversed(range(len(window))):
        position = wanted[rank]
        settled = settled and position == rank
        value = window[rank].site
        if not settled:
            value = _least_priority_above(under, value, window[position].number, doubt)
        if position in arrangement.pinned and value != window[rank].site:
            return None
        values[position] = value
        under = (value, window[position].number)
    return values


def _least_priority_above(under: tuple[int, int], value: int, number: int, doubt: int) -> int:
    """Return the least priority from `value` on that stands above `under`, a priority and a job number."""
    least = under[0] + doubt
    return max(value, least if not doubt and number < under[1] else least + 1)


KNAPSACK = "knapsack"


@dataclass(frozen=True)
class ReorderedWindow:
    """A window in the site's order, its positions in the wanted one, and each position's wanted priority.

    `kept` says why a job keeps its place, by position; `since_s` since when jobs have been passed; `knapsack_free` how
    many nodes were to be filled.
    """

    window: Sequence[QueuePosition]
    wanted: Sequence[int]
    values: Sequence[int]
    kept: Mapping[int, str]
    since_s: Mapping[str, int]
    knapsack_free: int | None


@dataclass(frozen=True)
class KeptPositions:
    """Who of a window keeps the place, and why, by position; to those that are `pinned` nothing may be written."""

    kept: Mapping[int, str]
    pinned: frozenset[int]


def window_size(rules: QueueRules) -> int:
    """Return how many jobs of a competition may be reordered."""
    return min(rules.window, MOST_JOBS) if rules.policy == KNAPSACK else rules.window


def reorder_window(
    line: Sequence[QueuePosition],
    places: KeptPositions,
    since_s: Mapping[str, int],
    *,
    facts: QueueFacts,
    rules: QueueRules,
) -> ReorderedWindow:
    """Return the wanted order of the first jobs of `line`, which is in the site's order.

    Where equal priorities leave no room beside a pinned job, only the jobs in front of the first such one are moved.
    """
    length = min(window_size(rules), len(line))
    for moved_until in (length, min(places.pinned, default=0), 0):
        window = line[:length]
        movable = [at for at in range(moved_until) if at not in places.kept]
        wanted, free = _desired_order(window, movable, facts=facts, rules=rules)
        below = line[length] if length < len(line) else None
        values = assign_priorities(DesiredOrder(window, wanted, places.pinned, below), facts.ranking)
        if values is not None:
            return ReorderedWindow(window, wanted, values, places.kept, since_s, free)
    raise AssertionError("the site's own order always fits")


def _desired_order(
    window: Sequence[QueuePosition], movable: Sequence[int], *, facts: QueueFacts, rules: QueueRules
) -> tuple[list[int], int | None]:
    nodes = [window[at].job.nodes for at in movable]
    node_power_w = [facts.node_power_w[window[at].job.job_id] for at in movable]
    off_peak, free = facts.peak == Peak.OFF_PEAK, None
    if rules.policy == KNAPSACK:
        kept = [each.job.nodes for at, each in enumerate(window) if at not in set(movable)]
        free = free_behind(facts.free_nodes.get(resource_pool(window[0].job), 0), kept)
        order = knapsack_order(nodes, node_power_w, free=free, off_peak=off_peak)
    elif rules.policy == PLAN and facts.planned is not None:
        order = planned_order([facts.planned.start_s[window[at].job.job_id] for at in movable])
    else:
        order = greedy_order(node_power_w, off_peak=off_peak)
    wanted = list(range(len(window)))
    for rank, chosen in zip(movable, order, strict=True):
        wanted[rank] = movable[chosen]
    return wanted, free


def find_kept_positions(
    window: Sequence[QueuePosition],
    *,
    facts: QueueFacts,
    rules: QueueRules,
    by_hand: Collection[str],
    since_s: Mapping[str, int],
) -> KeptPositions:
    """Return who keeps the place. Nobody who stands before a job that was passed for too long is moved either."""
    pinned, kept = {}, {}
    for at, each in enumerate(window):
        why = _exclusion_reason(each, rules, by_hand)
        if why:
            pinned[at] = why
        elif each.job.job_id not in facts.node_power_w:
            kept[at] = "its draw is not known"
        elif facts.planned is not None and each.job.job_id not in facts.planned.start_s:
            kept[at] = "the plan has no start for it"
    for at in range(_overdue_rank(window, facts.now_s, rules, since_s)):
        kept.setdefault(at, _passed_reason(window[at], facts, rules, since_s))
    return KeptPositions(kept | pinned, frozenset(pinned))


def _exclusion_reason(each: QueuePosition, rules: QueueRules, by_hand: Collection[str]) -> str:
    if each.job.job_id in by_hand:
        return "its priority was set by hand"
    if parse_user_hints(each.job.comment, rules.zone).now:
        return "its owner said offpeak:now"
    return "a nice value was set for it" if each.niced else ""


def _overdue_rank(window: Sequence[QueuePosition], now_s: int, rules: QueueRules, since_s: Mapping[str, int]) -> int:
    """Return behind which rank jobs may be moved: that of the last job that was passed for longer than the bound."""
    overdue = [
        at for at, each in enumerate(window) if now_s - since_s.get(each.job.job_id, now_s) > rules.max_postponement_s
    ]
    return overdue[-1] + 1 if overdue else 0


def _passed_reason(each: QueuePosition, facts: QueueFacts, rules: QueueRules, since_s: Mapping[str, int]) -> str:
    since = since_s.get(each.job.job_id)
    if since is None:
        return "behind it stands one that was passed for too long"
    return f"later ones have been passing it since {format_clock(since, facts.now_s, rules.zone)}"


HAS_STARTED = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS, JobState.ENDED})

StartedJobs = list[tuple[int, int, int]]
"""Submission and number of each job that has started, and when it did."""


def started_jobs_by_pool(jobs: Iterable[Job]) -> dict[ResourcePool, StartedJobs]:
    """Return the jobs of each competition that have started, by submission; what was cancelled before is none."""
    found: dict[ResourcePool, StartedJobs] = {}
    for job in jobs:
        if job.state in HAS_STARTED and job.start_s is not None and job.hosts:
            found.setdefault(resource_pool(job), []).append((job.submit_s, job_number(job.job_id), job.start_s))
    for started in found.values():
        started.sort()
    return found


def first_passed_s(each: QueuePosition, started: StartedJobs, marked: JobMarks) -> int | None:
    """Return when a later submission was first started while this job could have been; None if none was."""
    if not started and PASSED not in marked:
        return None
    job = each.job
    waiting_s = max(job.submit_s, job.begin_s or 0)
    later = started[bisect_right(started, (job.submit_s, each.number, 1 << 62)) :]
    seen = [start_s for _, _, start_s in later if start_s >= waiting_s]
    if PASSED in marked:
        seen.append(marked[PASSED].was)
    return min(seen, default=None)


def passed_marks(since_s: Mapping[str, int], window: Iterable[QueuePosition], now_s: int) -> list[JobMark]:
    """Return what is to be remembered of jobs that were passed."""
    jobs = [each.job for each in window if each.job.job_id in since_s]
    return [JobMark(job.job_id, job.submit_s, PASSED, since_s[job.job_id], since_s[job.job_id], now_s) for job in jobs]
