"""What an operator is to know of a plan besides its starts."""

from collections import Counter
from collections.abc import Iterator

from offpeak.plural import counted
from plugin.day_plan.day_plan import DayPlan
from plugin.day_plan.sight import Sight
from plugin.queue_hook.words import clock

NAMED = 5


def remarks_of(sight: Sight, plan: DayPlan) -> tuple[str, ...]:
    """Return the sentences."""
    return tuple(_remarks(sight, plan))


def _remarks(sight: Sight, plan: DayPlan) -> Iterator[str]:
    said = sight.room.facility.beyond_table(plan.course.temperature_c)
    if said:
        yield said
    yield from _broken_caps(sight, plan)
    for why, count in Counter(plan.left_out.values()).most_common():
        yield f"{counted(count, 'job')} left as they are: {why}"
    unplaced = sum(job.start_s is None for job in plan.jobs)
    if unplaced:
        until = clock(plan.until_s, plan.at_s, sight.rules.zone)
        yield f"{counted(unplaced, 'job')} without a place before {until}, when the plan ends"


def _broken_caps(sight: Sight, plan: DayPlan) -> Iterator[str]:
    """Name the running jobs that keep a cap from being held: nobody stops them."""
    for cap in plan.caps:
        from_s = max(cap.from_s, plan.at_s)
        loads = sorted((load for load in plan.loads if load.until_s > from_s), key=lambda load: -load.power_w)
        drawn_w = sum(load.power_w for load in loads)
        if cap.until_s <= plan.at_s or drawn_w <= cap.cap_w:
            continue
        named = ", ".join(f"{load.job_id} ({load.power_w:,.0f} W)" for load in loads[:NAMED])
        more = f" and {len(loads) - NAMED} more" if len(loads) > NAMED else ""
        begin = clock(from_s, plan.at_s, sight.rules.zone)
        yield (
            f"the cap of {cap.cap_w:,} W from {begin} ({cap.reason}) cannot hold at first: running jobs draw"
            f" {drawn_w:,.0f} W, and are not stopped: {named}{more}"
        )
