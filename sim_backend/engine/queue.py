"""The waiting jobs of each competition group in order, and the window of them that a policy orders.

A group's positions are sorted by rank: partition tier, then priority, then submission. Jobs that left are holes until
the positions are compacted; a hole keeps its job, so that the order stays complete.

Where the order of a policy lasts for several passes, it is written into `place`: the records of a window exchange the
ranks of their places, as the agent exchanges priorities in Slurm. Later submissions find their own place between them.
"""

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from offpeak.plugin.priority_bands import ALONE, BandStart, begins_band_part, keep_bands_part
from offpeak.plugin.window_order import free_until_part
from offpeak.plugin.window_policy import GREEDY_SLIDE
from offpeak.predictors.run_times import predict_run_time
from offpeak.sim_backend.engine.fitting import (
    BLOCK,
    StartLimits,
    fits_beside,
    forget,
    next_fitting,
    next_fitting_of_many,
)
from offpeak.sim_backend.engine.limits import most_more
from offpeak.sim_backend.engine.rules import (
    EXACT_RUNTIME,
    FORESEEN_RUNTIME,
    NEVER,
    NOT_YET,
    PREDICTED_RUNTIME,
    EngineRules,
)
from offpeak.sim_backend.engine.state import RANKS_SEVERAL, REQUEUED, SLOTS, State, Tables, Workload
from offpeak.sim_backend.engine.window import entry

MOST_HOLES = 64


@apart
def next_startable(request_class: Int64, hold_s: Int64, longest_s: Int64, first: int, last: int) -> int:
    """Return the first position in [first, last) whose job may start as far as is known of its class, or `last`."""
    for at in range(first, last):
        if hold_s[index(at)] <= longest_s[index(request_class[index(at)])]:
            return at
    return last


@part
def is_hole(tables: Tables, state: State, position: int) -> bool:
    """Tell whether no job waits at the position any more."""
    return bool(state.waiting.request_class[index(position)] == len(tables.class_group))


@part
def copy_position(tables: Tables, state: State, target: int, source: int) -> None:
    """Copy a position of the queue."""
    waiting = state.waiting
    waiting.job[index(target)] = waiting.job[index(source)]
    waiting.request_class[index(target)] = waiting.request_class[index(source)]
    waiting.hold_s[index(target)] = waiting.hold_s[index(source)]
    waiting.passed_over_s[index(target)] = waiting.passed_over_s[index(source)]
    if tables.need is None:
        waiting.size[index(target)] = waiting.size[index(source)]
    if state.promises is not None:
        state.promises.start_s[index(target)] = state.promises.start_s[index(source)]


@part
def forget_blocked(state: State, group: int) -> None:
    """Let the next pass look for the first blocked job again."""
    here = state.groups[group]
    here.blocked = NOT_YET
    here.seen = here.first


@part
def submit_next(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> None:
    """Put the next submitted job into its group's queue."""
    now = state.scalars[0]
    enqueue(tables, workload, state, rules, int(now.next_job))
    now.next_job += 1
    now.next_submit_s = workload.submit_s[index(now.next_job)] if now.next_job < len(workload.submit_s) else NEVER


@part
def next_requeue_s(state: State, rules: EngineRules) -> int:
    """Return when the next job that was stopped waits again, NEVER if there is none."""
    now = state.scalars[0]
    if now.requeued == now.stops:
        return NEVER
    return int(state.stops.rows[index(now.requeued), index(2)] + rules.requeue_s)


@apart
def requeue_next(tables: Tables, workload: Workload, state: State, rules: EngineRules) -> bool:
    """Put the next job that was stopped back into its queue and return True, unless it was cancelled."""
    now = state.scalars[0]
    row = index(now.requeued)
    now.requeued += 1
    if state.stops.rows[row, index(3)] != REQUEUED:
        return False
    enqueue(tables, workload, state, rules, int(state.stops.rows[row, index(0)]))
    return True


@part
def expected_run_s(workload: Workload, recent_s: Int64, estimates: int, job: int) -> int:
    """Return how long the scheduler expects a job to run when it is submitted."""
    at = index(job)
    estimate_s = workload.estimate_s[at]
    if estimates == EXACT_RUNTIME:
        return int(workload.runtime_s[at])
    if estimates == PREDICTED_RUNTIME:
        return int(predict_run_time(recent_s, workload.user[at], estimate_s))
    return int(workload.foreseen_s[at] if estimates == FORESEEN_RUNTIME else estimate_s)


@part
def enqueue(tables: Tables, workload: Workload, state: State, rules: EngineRules, job: int) -> int:
    """Put a job into its group's queue, by rank, and return its position."""
    now = state.scalars[0]
    waiting = state.waiting
    own_class = workload.request_class[index(job)]
    group = tables.class_group[index(own_class)]
    here = state.groups[group]
    # Requeued jobs use positions too.
    if here.tail == here.behind:
        make_space(tables, state, group)
    at = here.tail
    while at > here.head and workload.rank[index(waiting.job[index(at - 1)])] > workload.rank[index(job)]:
        copy_position(tables, state, at, at - 1)
        at -= 1
    waiting.job[index(at)] = job
    waiting.request_class[index(at)] = own_class
    run_s = expected_run_s(workload, state.recent_s, rules.estimates, job)
    waiting.hold_s[index(at)] = run_s + rules.completing_s
    waiting.passed_over_s[index(at)] = NOT_YET
    if tables.need is None:
        waiting.size[index(at)] = tables.units[index(own_class)]
    if state.promises is not None:
        state.promises.start_s[index(at)] = NOT_YET
    if here.is_simple == 0 and workload.record[index(job)] == job:
        state.place[index(job)] = workload.rank[index(job)]
    if at < here.tail:
        here.passed_over = min(here.passed_over, at)
        forget_blocked(state, group)
        if tables.need is None:
            forget(waiting, here.tail)
    here.tail += 1
    here.waiting += 1
    waiting.of_class[index(own_class)] += 1
    here.hopeful += 1 - waiting.misfit[index(own_class)]
    here.ranking_several += tables.ranking[index(own_class)] == RANKS_SEVERAL
    here.is_due = 1
    here.is_backfill_due = 1
    now.waiting += 1
    return int(at)


@apart
def wait_again(tables: Tables, workload: Workload, state: State, rules: EngineRules, job: int, hold_s: int) -> None:
    """Let a job wait again that was to hold its nodes for `hold_s`; later jobs may have passed its place already."""
    waiting = state.waiting
    at = enqueue(tables, workload, state, rules, job)
    waiting.hold_s[index(at)] = hold_s
    here = state.groups[tables.class_group[index(workload.request_class[index(job)])]]
    behind = at + 1
    while behind < here.tail and is_hole(tables, state, behind):
        behind += 1
    if behind < here.tail and waiting.passed_over_s[index(behind)] != NOT_YET:
        waiting.passed_over_s[index(at)] = state.scalars[0].now_s


@part
def limits_beside(state: State, rules: EngineRules) -> StartLimits:
    """Return the limits of jobs beside the reservation, if there is one."""
    here = state.groups[0]
    free = state.free[SLOTS, 0]
    if here.reserved == 0:
        return StartLimits(free, free, NEVER)
    longest_s = longest_before_s(rules, state.holds.start_s[0]) - state.scalars[0].now_s
    return StartLimits(free, -1 if rules.ends_before else here.extra, longest_s)


@part
def longest_before_s(rules: EngineRules, start_s: int) -> int:
    """Return the last second at which a job may end for which a reservation from `start_s` does not count."""
    return start_s - start_s % rules.bf_resolution_s - 1 if rules.bf_resolution_s > 0 else start_s


@part
def may_start(state: State, position: int) -> bool:
    """Tell whether the waiting job may start as far as is known of its class."""
    waiting = state.waiting
    return bool(waiting.hold_s[index(position)] <= waiting.longest_s[index(waiting.request_class[index(position)])])


@part
def next_startable_entry(tables: Tables, state: State, rules: EngineRules, group: int) -> int:
    """Return the position of the next job of this pass that may start, or NOT_YET."""
    if tables.need is not None:
        return next_entry(tables, state, group, True)
    now = state.scalars[0]
    waiting = state.waiting
    limits = limits_beside(state, rules)
    while now.cursor < min(now.window, now.considered):
        position = entry(state, now.cursor)
        now.cursor += 1
        if fits_beside(waiting.size, waiting.hold_s, position, limits):
            return position
    if now.considered <= now.window:
        return NOT_YET
    position = entry(state, now.cursor)
    last = state.groups[group].tail
    if last - position <= 2 * BLOCK:
        position = next_fitting(waiting.size, waiting.hold_s, position, last, limits)
    else:
        position = next_fitting_of_many(waiting.size, waiting.hold_s, waiting.bounds, position, last, limits)
    now.cursor = now.window + position + 1 - now.behind_window
    return position if position < last else NOT_YET


@part
def next_entry(tables: Tables, state: State, group: int, only_startable: bool) -> int:
    """Return the position of the next job of this pass, or NOT_YET: of all, or of those that may start."""
    now = state.scalars[0]
    waiting = state.waiting
    while now.cursor < min(now.window, now.considered):
        position = entry(state, now.cursor)
        now.cursor += 1
        longest_s = waiting.longest_s[index(waiting.request_class[index(position)])]
        if not is_hole(tables, state, position) and (
            not only_startable or waiting.hold_s[index(position)] <= longest_s
        ):
            return position
    if now.considered <= now.window:
        return NOT_YET
    position = entry(state, now.cursor)
    last = state.groups[group].tail
    if only_startable:
        position = next_startable(waiting.request_class, waiting.hold_s, waiting.longest_s, position, last)
    else:
        while position < last and is_hole(tables, state, position):
            position += 1
    now.cursor = now.window + position + 1 - now.behind_window
    return position if position < last else NOT_YET


@apart
def widest_entry(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> int:
    """Return the position of the widest job left in this pass that may start, of several the first; else NOT_YET."""
    now = state.scalars[0]
    waiting = state.waiting
    limits = limits_beside(state, rules)
    found = NOT_YET
    widest = 0
    found_rank = NOT_YET
    for rank in range(now.cursor, min(now.considered, now.window + state.groups[group].tail - now.behind_window)):
        position = entry(state, rank)
        if tables.need is None:
            is_startable = fits_beside(waiting.size, waiting.hold_s, position, limits)
        else:
            is_startable = may_start(state, position)
        if not is_startable or is_hole(tables, state, position):
            continue
        size = workload.size[index(waiting.job[index(position)])]
        was_tried = size > now.tried_size or (size == now.tried_size and rank <= now.tried_rank)
        if size > widest and not was_tried:
            found = position
            widest = size
            found_rank = rank
    now.tried_size = widest
    now.tried_rank = found_rank
    return int(found)


@part
def open_window(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int, most: int) -> None:
    """Gather the first `most` waiting jobs of the group in order; all its jobs are considered."""
    now = state.scalars[0]
    here = state.groups[group]
    window = state.window
    position = int(here.head)
    gathered = 0
    while gathered < most and position < here.tail:
        if not is_hole(tables, state, position):
            at = index(gathered)
            job = index(state.waiting.job[index(position)])
            window.position[at] = position
            window.size[at] = workload.size[job]
            window.node_power_w[at] = workload.node_power_w[job]
            window.order[at] = gathered
            gathered += 1
        position += 1
    now.window = gathered
    now.behind_window = position
    now.considered = gathered + here.tail - position
    now.cursor = 0
    # Greedy weighs no units.
    now.free = free_units(tables, state, group) if rules.policy > GREEDY_SLIDE else 0


@apart
def free_units(tables: Tables, state: State, group: int) -> int:
    """Return the free units of the group, as policies weigh them."""
    found = 0
    for at in range(tables.group_cell_first[index(group)], tables.group_cell_first[index(group + 1)]):
        cell = tables.group_cell[index(at)]
        column = tables.window_column[index(cell)]
        found += tables.window_weight[index(cell)] * state.free[index(column), index(cell)]
    return found


@part
def count_startable(workload: Workload, state: State, job: int) -> int:
    """Return how many tasks of the job's array could start now beside the limits; 1 for a job of no array."""
    if workload.tasks[index(workload.record[index(job)])] == 1:
        return 1
    return most_more(workload.limits, state.limit_used, workload.limits.demand[index(job)])


@part
def restore_places(workload: Workload, state: State, group: int) -> None:
    """Give each record that a policy has ordered the place of its first waiting job."""
    here = state.groups[group]
    position = here.head
    while position < here.tail and workload.rank[index(state.waiting.job[index(position)])] <= here.ordered:
        position += 1
    for back in range(position - here.head):
        job = state.waiting.job[index(position - 1 - back)]
        state.place[index(workload.record[index(job)])] = workload.rank[index(job)]
    here.ordered = NOT_YET


@part
def gather_records(tables: Tables, workload: Workload, state: State, group: int, number: int, most: int) -> None:
    """Gather the first `most` records of a window of the group that could start, with their waiting tasks in `order`.

    Throttled arrays are left out. The tasks of an array follow one another in the site's order.
    """
    now = state.scalars[0]
    here = state.groups[group]
    window = state.window
    gathered = 0
    for position in range(here.head, here.tail):
        job = index(state.waiting.job[index(position)])
        if is_hole(tables, state, position) or tables.class_window[index(workload.request_class[job])] != number:
            continue
        record = workload.record[job]
        listed = state.entry[index(record)]
        if (
            listed < gathered
            and workload.record[index(state.waiting.job[index(window.position[index(listed)])])] == record
        ):
            window.order[index(listed)] += 1
        elif gathered == most:
            break
        elif count_startable(workload, state, int(job)) > 0:
            at = index(gathered)
            state.entry[index(record)] = gathered
            window.position[at] = position
            window.size[at] = workload.size[job]
            window.node_power_w[at] = workload.node_power_w[job]
            window.order[at] = 1
            gathered += 1
        else:
            continue
        here.ordered = max(here.ordered, workload.rank[job])
    now.window = gathered


@part
def weigh_records(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int) -> None:
    """Find the free units that the policy weighs, and multiply the size of each record by the tasks that fit these."""
    now = state.scalars[0]
    window = state.window
    now.free = free_units(tables, state, group)
    if rules.order_interval_s > 0:
        here = state.groups[group]
        freed = state.freed
        least = NEVER
        for at in range(now.window):
            least = min(least, window.size[index(at)])
        for at in range(here.listed):
            slot = index(state.expected[index(here.first + at)])
            freed.end_s[index(at)] = state.slots.expected_end_s[slot]
            freed.units[index(at)] = workload.size[index(state.slots.job[slot])]
        most = len(window.fillings.weight[0]) - 1
        until_s = now.now_s + rules.order_interval_s
        now.free = min(
            most, free_until_part(now.free, least, until_s, freed.end_s[: here.listed], freed.units[: here.listed])
        )
    for at in range(now.window):
        job = state.waiting.job[index(window.position[index(at)])]
        startable = min(window.order[index(at)], count_startable(workload, state, job))
        window.size[index(at)] *= max(1, min(startable, now.free // max(1, window.size[index(at)])))


@part
def open_records(tables: Tables, workload: Workload, state: State, rules: EngineRules, group: int, number: int) -> None:
    """Open a window of the group for the policy, in the site's order."""
    now = state.scalars[0]
    gather_records(tables, workload, state, group, number, rules.window)
    # Greedy weighs no units.
    if rules.policy > GREEDY_SLIDE:
        weigh_records(tables, workload, state, rules, group)
    for at in range(now.window):
        state.window.order[index(at)] = at


@part
def keep_rights(workload: Workload, state: State, rules: EngineRules) -> None:
    """Put the window's order back into the bands of its jobs, see offpeak.plugin.priority_bands."""
    if len(workload.level) == 0:
        return
    window = state.window
    jobs = state.scalars[0].window
    start = BandStart(ALONE, 0, 0)
    band = 0
    for rank in range(jobs):
        job = index(state.waiting.job[index(window.position[index(rank)])])
        found = BandStart(workload.level[job], workload.priority[job], workload.fair_share[job])
        if begins_band_part(start, found, rules.widths):
            band += 1
            start = found
        else:
            start = BandStart(start.level, start.priority, max(start.fair_share, found.fair_share))
        state.band[index(rank)] = band
    keep_bands_part(window.order, state.band, jobs)


@part
def write_places(workload: Workload, state: State) -> None:
    """Let the records of the window exchange places as the policy orders."""
    window = state.window
    waiting = state.waiting
    for at in range(state.scalars[0].window):
        job = waiting.job[index(window.position[index(window.order[index(at)])])]
        place = workload.rank[index(waiting.job[index(window.position[index(at)])])]
        state.place[index(workload.record[index(job)])] = place


@part
def open_places(tables: Tables, workload: Workload, state: State, group: int) -> None:
    """Gather the waiting jobs up to the last one that a policy has ordered, sorted by their places."""
    now = state.scalars[0]
    here = state.groups[group]
    window = state.window
    position = here.head
    gathered = 0
    while position < here.tail and workload.rank[index(state.waiting.job[index(position)])] <= here.ordered:
        if not is_hole(tables, state, position):
            place = state.place[index(workload.record[index(state.waiting.job[index(position)])])]
            window.position[index(gathered)] = position
            window.size[index(gathered)] = place
            at = gathered
            while at > 0 and window.size[index(window.order[index(at - 1)])] > place:
                window.order[index(at)] = window.order[index(at - 1)]
                at -= 1
            window.order[index(at)] = gathered
            gathered += 1
        position += 1
    now.window = gathered
    now.behind_window = position
    now.considered = gathered + here.tail - position
    now.cursor = 0


@part
def note_passed_over(tables: Tables, state: State, group: int) -> None:
    """Note the time on each waiting job that a later one has just overtaken for the first time."""
    here = state.groups[group]
    waiting = state.waiting
    for position in range(max(here.passed_over, here.head), here.furthest):
        if waiting.passed_over_s[index(position)] == NOT_YET and not is_hole(tables, state, position):
            waiting.passed_over_s[index(position)] = state.scalars[0].now_s
    here.passed_over = max(here.passed_over, here.furthest)


@part
def compact(tables: Tables, state: State, group: int) -> None:
    """Move the waiting jobs of the group to the front of its positions, without holes."""
    here = state.groups[group]
    waiting = state.waiting
    write = int(here.first)
    passed_over = write
    blocked = NOT_YET
    if tables.need is None:
        forget(waiting, here.tail)
    for read in range(here.head, here.tail):
        if is_hole(tables, state, read):
            continue
        if read == here.blocked:
            blocked = write
        copy_position(tables, state, write, read)
        write += 1
        passed_over += read < here.passed_over
    here.head = here.first
    here.tail = write
    here.passed_over = passed_over
    here.blocked = blocked


@apart
def make_space(tables: Tables, state: State, group: int) -> None:
    """Compact the group's positions outside of a pass."""
    compact(tables, state, group)
    forget_blocked(state, group)


@part
def close_pass(tables: Tables, state: State, group: int) -> None:
    """Tidy up behind a pass: skip the holes at the front, compact when there are more holes than jobs."""
    here = state.groups[group]
    while here.head < here.tail and is_hole(tables, state, here.head):
        here.head += 1
    if here.tail - here.first > 2 * here.waiting + MOST_HOLES:
        compact(tables, state, group)
    here.seen = here.tail
    here.furthest = here.first
