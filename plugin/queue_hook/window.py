"""The window of each group: the first jobs that could start now, their new order, and its priorities.

The order comes from the day plan or from a window policy: each sees the jobs that may be moved as the engine shows them
(offpeak.plugin.window_order.order_view), one from outside in a process of its own. Jobs then go back into the bands of
offpeak.plugin.priority_bands, which keep the site's rights. The new priorities are the site's own values, assigned in
another order, so that no job outside the window is passed.

Starvation bound: a job that later submissions have been passing for too long keeps its place, as in the simulator. See
docs/decisions/0003-starvation-bound.md. The scheduler forgets jobs that have ended, so the first passing is marked.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.ledger.rows import JobMark
from offpeak.model.constants import DAY_S
from offpeak.plugin.priority_bands import (
    ALONE,
    NO_BANDS,
    WHOLE_PERCENT,
    BandStart,
    BandWidths,
    band_widths,
    begins_band,
    number_bands,
    ranks_in_bands,
    right_of,
)
from offpeak.plugin.queue_hook.facts import NO_GROUP, PLAN, CompetitionGroup, QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import (
    LEAST_PRIORITY,
    NO_MARKS,
    PASSED,
    JobMarks,
    MarksByJob,
    QueuePosition,
    QueuePositions,
    job_number,
)
from offpeak.plugin.queue_hook.start_times import latest_start_s
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.window_order import count_kept, free_behind, free_until, order_view
from offpeak.plugin.window_policy import BUILT_IN_BY_NAME, NO_POLICY, OrderWindows, WindowView

NO_EQUALS = "no job next to it has the same QOS or queue, and a priority and a fair share within {} % of the range"

HAS_STARTED = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS, JobState.ENDED})

StartedJobs = list[tuple[int, int, int]]
"""Submission, number and start of each job that has started."""

OrderMovable = Callable[[Sequence[int]], tuple[Sequence[int], int | None]]
"""Returns the movable ranks in the desired order, and the number of nodes that the knapsack filled."""

DOUBT = 1
"""A displayed priority of 1 may be 0 or 1, so an offset may move the job by one less."""

NO_LIMIT_S = 365 * DAY_S
"""The estimate of a job without a time limit whose run time is not predicted either."""

MOST_UNITS, UNITS_PER_NODE = 4096, 64
"""Shares of nodes are weighed in units of a node: so many in all, and so many of each node, at most."""


@dataclass(frozen=True)
class GroupWindow:
    """The first jobs of a group, in the site's order; `below` is the first job behind them.

    By rank in the window: `kept` is why a job keeps its place; jobs of `pinned` ranks are not changed. By job:
    `passed_since_s` is when later submissions began to pass it. Jobs change places within the bands of `rights` only.
    """

    jobs: Sequence[QueuePosition]
    below: QueuePosition | None
    kept: Mapping[int, str]
    pinned: frozenset[int]
    passed_since_s: Mapping[str, int]
    rights: "WindowRights"

    @cached_property
    def band(self) -> list[int]:
        """The number of the band of each rank."""
        return [self.rights.band[position.job.job_id] for position in self.jobs]

    @cached_property
    def alone(self) -> dict[int, str]:
        """By rank why a job is alone in its band."""
        alone = self.rights.alone
        return {rank: why for rank, each in enumerate(self.jobs) if (why := alone.get(each.job.job_id))}

    def movable(self, until: int) -> list[int]:
        """Return the ranks below `until` of the jobs that may be moved."""
        return [rank for rank in range(until) if rank not in self.kept]

    def passed_marks(self, marks: MarksByJob, now_s: int) -> Iterator[JobMark]:
        """Yield the marks of the jobs that were passed and have no such mark yet."""
        for job in (each.job for each in self.jobs):
            since_s = self.passed_since_s.get(job.job_id)
            if since_s is not None and PASSED not in marks.get(job.job_id, NO_MARKS):
                yield JobMark(job.job_id, job.submit_s, PASSED, since_s, since_s, now_s)


def find_windows(
    waiting: Sequence[QueuePosition],
    delayed: Collection[str],
    marks: MarksByJob,
    admin_overrides: Collection[str],
    *,
    facts: QueueFacts,
    rules: QueueRules,
) -> list[GroupWindow]:
    """Return the window of each group of the jobs that could start now; `waiting` are all pending ones in order."""
    policy = BUILT_IN_BY_NAME.get(rules.policy, NO_POLICY)
    size = min(rules.window, policy.most_jobs or rules.window)
    started = _started_jobs(facts)
    windows = []
    pending = group_positions(waiting, facts)
    for group, members in group_positions(startable_positions(waiting, delayed, facts), facts).items():
        members = [each for each in members if each.job.plain]
        if group == NO_GROUP or not members:
            continue
        jobs = members[:size]
        since_s = {
            position.job.job_id: passed_s
            for position in jobs
            if (passed_s := _first_passed_s(position, started.get(group, []), marks.get(position.job.job_id, NO_MARKS)))
            is not None
        }
        kept, pinned = _kept_ranks(jobs, since_s, admin_overrides, facts=facts, rules=rules)
        below = members[size] if size < len(members) else None
        rights = find_rights(pending[group], jobs[-1], facts, rules)
        windows.append(GroupWindow(jobs, below, kept, pinned, since_s, rights))
    return windows


class WindowRights(NamedTuple):
    """By job the number of its band, and why it is alone in its band; the widths of the bands."""

    band: Mapping[str, int]
    alone: Mapping[str, str]
    widths: BandWidths


def find_rights(
    members: Sequence[QueuePosition], last: QueuePosition, facts: QueueFacts, rules: QueueRules
) -> WindowRights:
    """Return the rights of all pending jobs of a group, in the site's order, up to the last one of its window.

    A job that cannot start yet counts, too: it may be able to before the next cycle, and keeps its place then.
    """
    widths = NO_BANDS
    if rules.priority_band_percent < WHOLE_PERCENT:
        priorities = np.array([position.site_priority for position in members], np.int64)
        widths = band_widths(rules.priority_band_percent, facts.cluster, priorities)
    # With the next one, to know whether the last one is alone.
    counted = members[: bisect_right(members, site_place(last), key=site_place) + 1]
    levels: dict[Hashable, int] = {}
    alone: dict[str, str] = {}
    starts = []
    for job, site_priority in ((position.job, position.site_priority) for position in counted):
        right = right_of(facts.cluster, qos=job.qos, reservation=job.reservation)
        if why := right.alone or _close_deadline(job, facts, rules):
            alone[job.job_id] = why
        level = levels.setdefault((right.level, job.priority_class), len(levels))
        starts.append(BandStart(ALONE if why else level, site_priority, job.fair_share))
    numbers = number_bands(starts, widths)
    sizes = Counter(numbers)
    for position, number in zip(counted, numbers, strict=True):
        if sizes[number] == 1 and len(members) > 1:
            alone.setdefault(position.job.job_id, NO_EQUALS.format(rules.priority_band_percent))
    bands = {each.job.job_id: number for each, number in zip(counted, numbers, strict=True)}
    return WindowRights(bands, alone, widths)


def _close_deadline(job: Job, facts: QueueFacts, rules: QueueRules) -> str:
    """Return why the job's deadline is close, "" if it is not: others may pass a job for as long as the rules allow.

    Without a time limit its latest start is not known, so that each deadline is close.
    """
    deadlines_s = [at_s for at_s in (job.deadline_s, rules.hints(job).deadline_s) if at_s is not None]
    if not deadlines_s:
        return ""
    why = f"its deadline is {rules.clock(min(deadlines_s), facts.now_s)}"
    if not job.limit_s:
        return f"{why}, and it has no time limit"
    return "" if min(deadlines_s) - job.limit_s > facts.now_s + rules.max_postponement_s else why


def group_positions(
    positions: Iterable[QueuePosition], facts: QueueFacts
) -> dict[CompetitionGroup, list[QueuePosition]]:
    """Return the jobs of each group."""
    groups: dict[CompetitionGroup, list[QueuePosition]] = {}
    for position in positions:
        groups.setdefault(facts.competition.group(position.job), []).append(position)
    return groups


def startable_positions(
    positions: Iterable[QueuePosition], delayed: Collection[str], facts: QueueFacts
) -> list[QueuePosition]:
    """Return the jobs that wait for nodes only; others may be passed until they could start."""
    return [each for each in positions if _could_start(each.job, delayed, facts)]


def site_place(position: QueuePosition) -> tuple[int, int]:
    """Return what the site's order goes by: the larger priority first, then the smaller number."""
    return -position.site_priority, position.number


def _could_start(job: Job, delayed: Collection[str], facts: QueueFacts) -> bool:
    waits_for_time = job.job_id in delayed or (job.begin_s is not None and job.begin_s > facts.now_s)
    waits_for_tasks = job.is_array and not facts.startable_tasks(job)
    return job.lacks_only_nodes and not (waits_for_time or waits_for_tasks)


def _started_jobs(facts: QueueFacts) -> dict[CompetitionGroup, StartedJobs]:
    """Return each group's started jobs by submission, without those cancelled before; a task has its array's number."""
    found: dict[CompetitionGroup, StartedJobs] = {}
    for job in facts.jobs:
        if job.state in HAS_STARTED and job.start_s is not None and job.hosts:
            start = job.submit_s, job_number(job.array_id or job.job_id), job.start_s
            for group in facts.competition.groups(job):
                found.setdefault(group, []).append(start)
    for started in found.values():
        started.sort()
    return found


def _first_passed_s(each: QueuePosition, started: StartedJobs, marks: JobMarks) -> int | None:
    """Return when a later submission was first started while this job could have been; None if none was."""
    if not started and PASSED not in marks:
        return None
    job = each.job
    waiting_s = max(job.submit_s, job.begin_s or 0)
    later = started[bisect_right(started, (job.submit_s, each.number, 1 << 62)) :]
    passed_s = [start_s for _, _, start_s in later if start_s >= waiting_s]
    if PASSED in marks:
        passed_s.append(marks[PASSED].was)
    return min(passed_s, default=None)


def _kept_ranks(
    jobs: Sequence[QueuePosition],
    since_s: Mapping[str, int],
    admin_overrides: Collection[str],
    *,
    facts: QueueFacts,
    rules: QueueRules,
) -> tuple[dict[int, str], frozenset[int]]:
    """Return why jobs keep their place, by rank, and the pinned ranks.

    No job before one that was passed for too long, or that is past its latest start, is moved either.
    """
    pinned, kept = {}, {}
    split = facts.split_arrays if any(position.job.is_array for position in jobs) else frozenset()
    for rank, position in enumerate(jobs):
        job_id = position.job.job_id
        if job_id in split:
            pinned[rank] = "some of its tasks were changed alone"
        elif job_id in admin_overrides:
            pinned[rank] = "its priority was set by hand"
        elif rules.hints(position.job).now:
            pinned[rank] = "its owner set offpeak:now"
        elif position.has_offset:
            pinned[rank] = "a nice value was set for it"
        elif job_id not in facts.node_power_w:
            kept[rank] = "its power is not known"
        elif facts.planned is not None and job_id not in facts.planned.start_s:
            kept[rank] = "the plan has no start for it"
    if since_s:
        passed_s = np.array([since_s.get(position.job.job_id, facts.now_s) for position in jobs], np.int64)
        # A job before an overdue one keeps its place too.
        passed_s = np.minimum.accumulate(passed_s[::-1])[::-1].copy()
        overdue = count_kept(passed_s, np.arange(len(jobs)), len(jobs), facts.now_s, rules.max_postponement_s)
        for rank in range(overdue):
            since = since_s.get(jobs[rank].job.job_id)
            why = "a job behind it was passed for too long"
            if since is not None:
                why = f"later submissions have been passing it since {rules.clock(since, facts.now_s)}"
            kept.setdefault(rank, why)
    due = {rank: start_s for rank, position in enumerate(jobs) if (start_s := _due_start_s(position.job, facts, rules))}
    for rank in range(max(due, default=-1) + 1):
        why = "a job behind it is past its latest start"
        if rank in due:
            why = f"its latest start was {rules.clock(due[rank], facts.now_s)}"
        kept.setdefault(rank, why)
    return kept | pinned, frozenset(pinned)


def _due_start_s(job: Job, facts: QueueFacts, rules: QueueRules) -> int | None:
    """Return the latest start of a job whose owner allowed a delay and whose latest start is past; else None."""
    start_s = latest_start_s(job, rules.hints(job), rules)
    return start_s if start_s is not None and start_s <= facts.now_s else None


@dataclass(frozen=True)
class ReorderedWindow:
    """A window, its ranks in the desired order, their priorities, and how many nodes the knapsack filled, if it did."""

    window: GroupWindow
    desired: Sequence[int]
    priorities: Sequence[int]
    free_nodes: int | None


def reorder_windows(
    positions: QueuePositions, marks: MarksByJob, delayed: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> list[ReorderedWindow]:
    """Return the window of each group in the desired order. Raises OffpeakError if a policy from outside gives none."""
    waiting = sorted(positions.all, key=site_place)
    windows = find_windows(waiting, delayed, marks, positions.admin_overrides, facts=facts, rules=rules)
    others = WaitingJobs(waiting, delayed, facts, rules)
    if rules.own_policy is None:
        order = partial(policy_order, facts=facts, rules=rules)
        return [reorder_window(window, partial(order, window), others) for window in windows]
    own = own_orders(windows, rules.own_policy, facts)
    return [
        reorder_window(window, partial(_keep_order, ranks), others) for window, ranks in zip(windows, own, strict=True)
    ]


def reorder_window(window: GroupWindow, order: OrderMovable, others: "WaitingJobs") -> ReorderedWindow:
    """Return the window in the desired order.

    Where equal priorities leave no room beside a pinned job, only the jobs before the first pinned one are moved. Where
    they leave none beside a job outside the window, only the jobs before that one are moved.
    """
    moved_until = len(window.jobs)
    while True:
        movable = window.movable(moved_until)
        ranks, free_nodes = order(movable)
        desired = list(range(len(window.jobs)))
        for place, rank in zip(movable, ranks_in_bands(ranks, window.band), strict=True):
            desired[place] = rank
        priorities = assign_priorities(window, desired, others.facts.ranking)
        if priorities is None:
            moved_until = min(moved_until - 1, min(window.pinned))
        elif (passed := others.first_passed(window, desired, priorities)) is not None:
            moved_until = min(moved_until - 1, passed)
        else:
            return ReorderedWindow(window, desired, priorities, free_nodes)


class WaitingJobs:
    """The pending jobs in the site's order, to see whether new priorities pass one outside the windows.

    One that could not start now may be passed by jobs of its own band.
    """

    def __init__(
        self, positions: Sequence[QueuePosition], delayed: Collection[str], facts: QueueFacts, rules: QueueRules
    ) -> None:
        self.facts, self._rules = facts, rules
        self._positions, self._delayed = positions, delayed

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        return [site_place(position) for position in self._positions]

    @cached_property
    def _requests(self) -> tuple[list[Job], NDArray[np.intp]]:
        """One job of each request, and the index of each job's request."""
        jobs = [position.job for position in self._positions]
        one_of_request = {id(job.request): job for job in jobs}
        number = {request: at for at, request in enumerate(one_of_request)}
        return list(one_of_request.values()), np.array([number[id(job.request)] for job in jobs], np.intp)

    def first_passed(self, window: GroupWindow, desired: Sequence[int], priorities: Sequence[int]) -> int | None:
        """Return the rank in the window before which the first job stands that would be passed; None if none would be.

        Jobs at the places of the window pass one outside where equal priorities were raised, or have smaller numbers.
        Only jobs that could use the same nodes lose by it.
        """
        if desired == list(range(len(desired))):
            return None
        passed = np.zeros(len(self._places), np.bool_)
        moves = []
        for site, rank in zip(window.jobs, desired, strict=True):
            mover = window.jobs[rank]
            new = bisect_right(self._places, (-priorities[rank], mover.number))
            old, own = (bisect_left(self._places, site_place(each)) for each in (site, mover))
            moves.append((range(new, old), range(old, new), range(new, own), mover))
            passed[min(old, own, new) : max(old, own, new)] = True
        bands = window.rights.band
        inside = {position.job.job_id for position in window.jobs}
        for at in self._may_use(self.facts.competition.pools_of(position.job for position in window.jobs), passed):
            other = self._positions[at]
            if other.job.job_id in inside:
                continue
            band = bands.get(other.job.job_id)
            if band is None:
                # Of another group: the values of the window may stay in place, and another job have the larger one.
                is_crossed = any(
                    at in over and not self._have_equal_rights(window, other, by) for *_, over, by in moves
                )
            else:
                is_crossed = any(at in risen and bands[by.job.job_id] != band for risen, *_, by in moves)
            # A larger number puts a job behind others of the same priority, over which it may have a right.
            is_let_by = any(at in fallen and bands[by.job.job_id] != band for _, fallen, _, by in moves)
            is_passed = any(at in risen for risen, *_ in moves)
            if is_crossed or is_let_by or (is_passed and _could_start(other.job, self._delayed, self.facts)):
                return sum(site_place(position) < site_place(other) for position in window.jobs)
        return None

    def _have_equal_rights(self, window: GroupWindow, other: QueuePosition, own: QueuePosition) -> bool:
        """Whether a job of the window and one of another group have the same rights, within the width of a band."""
        rights = {
            (right_of(self.facts.cluster, qos=each.job.qos, reservation=each.job.reservation), each.job.priority_class)
            for each in (other, own)
        }
        if len(rights) > 1 or any(right.alone for right, _ in rights):
            return False
        ahead, behind = (
            BandStart(0, each.site_priority, each.job.fair_share) for each in sorted((other, own), key=site_place)
        )
        is_due = bool(_close_deadline(other.job, self.facts, self._rules))
        return not (is_due or begins_band(ahead, behind, window.rights.widths))

    def _may_use(self, pools: frozenset[int], among: NDArray[np.bool_]) -> Sequence[int]:
        """Return the places of those jobs among some that could use one of the pools, in the site's order."""
        if not among.any():
            return ()
        one_of_request, request = self._requests
        usable = np.array([self.facts.competition.may_use(job, pools) for job in one_of_request])
        return [int(at) for at in np.flatnonzero(among & usable[request])]


def _keep_order(own: Sequence[int], movable: Sequence[int]) -> tuple[list[int], None]:
    """Return the movable ranks in the order of a policy from outside."""
    moved = set(movable)
    return [rank for rank in own if rank in moved], None


def assign_priorities(window: GroupWindow, desired: Sequence[int], ranking: Ranking) -> list[int] | None:
    """Return the priority of each rank; None where equal priorities leave no room beside a pinned job.

    The site's values, largest first, go to the jobs in the desired order. Equal values among which the job number would
    decide otherwise are raised by the smallest steps, from below: no job falls below a job outside the window.
    """
    jobs, below = window.jobs, window.below
    priorities = [position.site_priority for position in jobs]
    floor = min(-1, jobs[-1].site_priority - 1)
    under, under_number = (below.site_priority, below.number) if below else (floor, 0)
    doubt = DOUBT if ranking is Ranking.OFFSET and jobs[-1].site_priority <= LEAST_PRIORITY else 0
    settled = True
    for place in reversed(range(len(jobs))):
        rank = desired[place]
        settled = settled and rank == place
        priority, number = jobs[place].site_priority, jobs[rank].number
        if not settled:
            # The least priority above the job below.
            least = under + doubt
            priority = max(priority, least if not doubt and number < under_number else least + 1)
        if rank in window.pinned and priority != jobs[place].site_priority:
            return None
        priorities[rank] = priority
        under, under_number = priority, number
    return priorities


def own_orders(windows: Sequence[GroupWindow], own_policy: OrderWindows, facts: QueueFacts) -> list[list[int]]:
    """Return each window's movable ranks by a policy from outside, which gets all at once. Raises OffpeakError."""
    movable = {at: ranks for at, window in enumerate(windows) if (ranks := window.movable(len(window.jobs)))}
    weights = {at: _weigh_jobs(windows[at], ranks, facts) for at, ranks in movable.items()}
    orders = own_policy([window_view(windows[at], ranks, weights[at], facts) for at, ranks in movable.items()])
    own = {at: [ranks[chosen] for chosen in order] for (at, ranks), order in zip(movable.items(), orders, strict=True)}
    return [own.get(at, []) for at in range(len(windows))]


def policy_order(
    window: GroupWindow, movable: Sequence[int], *, facts: QueueFacts, rules: QueueRules
) -> tuple[list[int], int | None]:
    """Return the movable ranks in the order of a built-in policy, and the number of nodes that the knapsack filled."""
    if rules.policy == PLAN and facts.planned is not None:
        start_s = facts.planned.start_s
        return sorted(movable, key=lambda rank: start_s[window.jobs[rank].job.job_id]), None
    policy = BUILT_IN_BY_NAME[rules.policy]
    if not policy.weighs_free:
        unweighed = JobWeights([position.job.nodes for position in window.jobs], (), 0, 1)
        return [movable[at] for at in order_view(policy, window_view(window, movable, unweighed, facts))], None
    weights = _weigh_jobs(window, movable, facts)
    # Jobs that cannot use the free pools follow behind all others.
    usable = [rank for rank in movable if weights.usable[rank]]
    order = order_view(policy, window_view(window, usable, weights, facts))
    ranks = [usable[at] for at in order] + [rank for rank in movable if not weights.usable[rank]]
    return ranks, weights.free // weights.units_per_node


def window_view(window: GroupWindow, ranks: Sequence[int], weights: "JobWeights", facts: QueueFacts) -> WindowView:
    """Return the jobs of these ranks as a window policy sees them; sizes are nodes where jobs have whole nodes."""
    jobs = [window.jobs[rank].job for rank in ranks]
    estimates_s = [
        facts.expected_run_s.get(job.job_id, NO_LIMIT_S) if job.limit_s is None else job.limit_s for job in jobs
    ]
    return WindowView(
        now_s=facts.now_s,
        peak=facts.peak,
        free=weights.free,
        job_id=np.array([window.jobs[rank].number for rank in ranks], np.int64),
        size=np.array([weights.sizes[rank] for rank in ranks], np.int64),
        estimate_s=np.array(estimates_s, np.int64),
        waited_s=np.array([max(0, facts.now_s - job.submit_s) for job in jobs], np.int64),
        node_power_w=np.array([full_node_w(job, facts) for job in jobs], np.float64),
    )


def full_node_w(job: Job, facts: QueueFacts) -> float:
    """Return the draw of a node that is full of such jobs [W]; without another figure jobs have whole nodes."""
    return facts.full_node_w.get(job.job_id, facts.node_power_w[job.job_id])


class JobWeights(NamedTuple):
    """The size of the job at each rank in units of a node, and the units that the jobs which keep their place leave.

    `usable`: whether the job at a rank could use one of the free pools.
    """

    sizes: Sequence[int]
    usable: Sequence[bool]
    free: int
    units_per_node: int


def _weigh_jobs(window: GroupWindow, movable: Sequence[int], facts: QueueFacts) -> JobWeights:
    """Weigh the jobs of the window against the nodes that any of them could use until the next decision."""
    competition = facts.competition
    jobs = [position.job for position in window.jobs]
    nodes, pools = _nodes_to_fill(jobs, facts)
    usable = [not pools.isdisjoint(competition.fit(job).pools) for job in jobs]
    filled = [_filled_nodes(job, nodes, facts) for job in jobs]
    units = 1
    if not all(number.is_integer() for number, is_usable in zip(filled, usable, strict=True) if is_usable):
        units = max(1, min(UNITS_PER_NODE, MOST_UNITS // max(math.ceil(nodes), 1)))
    sizes = [math.ceil(number * units) for number in filled]
    moved = set(movable)
    kept = [size if usable[rank] else 0 for rank, size in enumerate(sizes) if rank not in moved]
    return JobWeights(sizes, usable, free_behind(int(nodes * units), np.array(kept, np.int64), len(kept)), units)


def _nodes_to_fill(jobs: Sequence[Job], facts: QueueFacts) -> tuple[float, frozenset[int]]:
    """Return how many nodes the jobs may fill until the next decision, shares of nodes added up, and their pools.

    The engine decides by the same function, `free_until`.
    """
    competition = facts.competition
    within = competition.pools_of(jobs)
    free = {pool: count for pool, count in enumerate(facts.free_nodes) if count and pool in within}
    nodes, pools = sum(free.values()), frozenset(free)
    if not facts.cycle_s:
        return nodes, pools
    ends = sorted(_expected_ends(within, facts))
    end_s = np.array([end_s for end_s, _, _ in ends], np.int64)
    units = np.array([math.ceil(filled * UNITS_PER_NODE) for _, filled, _ in ends], np.int64)
    least = math.ceil(min(competition.filled_nodes(job) for job in jobs) * UNITS_PER_NODE)
    now_free = int(nodes * UNITS_PER_NODE)
    found = free_until(now_free, least, facts.now_s + round(facts.cycle_s), end_s, units)
    ended = int(np.searchsorted(np.cumsum(units), found - now_free, side="right")) if found > now_free else 0
    most = sum(facts.cluster.pools[pool].nodes for pool in within)
    return min(most, found / UNITS_PER_NODE), pools.union(*(of_job for _, _, of_job in ends[:ended]))


def _expected_ends(within: frozenset[int], facts: QueueFacts) -> Iterator[tuple[int, float, tuple[int, ...]]]:
    """Yield the expected end of each running job in these pools, the nodes that it fills, and its pools."""
    competition = facts.competition
    for job in facts.jobs:
        run_s = facts.expected_run_s.get(job.job_id, job.limit_s)
        pools = competition.fit(job).pools
        if job.state is JobState.RUNNING and job.start_s is not None and run_s and not within.isdisjoint(pools):
            yield job.start_s + run_s, competition.filled_nodes(job), pools


def _filled_nodes(job: Job, nodes: float, facts: QueueFacts) -> float:
    """Return how many of the nodes the job would fill; of an array, with all tasks that could start there."""
    filled = float(facts.competition.filled_nodes(job))
    return filled * max(1, min(facts.startable_tasks(job), int(nodes / filled)))
