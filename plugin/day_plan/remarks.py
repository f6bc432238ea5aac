"""What an operator is to know of a plan besides its starts."""

from collections import Counter
from collections.abc import Iterator, Sequence

from offpeak.text import counted
from plugin.day_plan.day_plan import DayPlan, Load, PlannedJob
from plugin.day_plan.sight import Sight
from plugin.queue_hook.words import clock

NAMED = 5
NEGATIVE_PRICES = "some prices are negative: in those hours energy earns money, and so does cooling"
NOTHING_EARNS = "no job earns anything: the plan that starts nothing may be the cheapest, and jobs still run"


def remarks_of(sight: Sight, plan: DayPlan) -> tuple[str, ...]:
    """Return the sentences."""
    return tuple(_remarks(sight, plan))


def _remarks(sight: Sight, plan: DayPlan) -> Iterator[str]:
    said = sight.room.facility.beyond_table(plan.course.temperature_c)
    if said:
        yield said
    if (plan.course.price_per_kwh < 0).any():
        yield NEGATIVE_PRICES
    if plan.jobs and sight.room.revenue_per_core_h == 0 and not any(each.per_core_h for each in sight.room.revenues):
        yield NOTHING_EARNS
    yield from _broken_caps(sight, plan)
    yield from _above_caps(sight, plan)
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
        loads = [load for load in plan.loads if load.until_s > from_s]
        drawn_w = sum(load.power_w for load in loads)
        if cap.until_s <= plan.at_s or drawn_w <= cap.cap_w:
            continue
        begin = clock(from_s, plan.at_s, sight.rules.zone)
        yield (
            f"the cap of {cap.cap_w:,} W from {begin} ({cap.reason}) cannot hold at first: running jobs draw"
            f" {drawn_w:,.0f} W, and are not stopped: {_named(loads)}"
        )


def _above_caps(sight: Sight, plan: DayPlan) -> Iterator[str]:
    """Name the waiting jobs that could not start under a cap if they had the machine to themselves."""
    for cap in plan.caps:
        alone = [job for job in plan.jobs if job.power_w > cap.cap_w]
        if cap.until_s <= plan.at_s or not alone:
            continue
        until = clock(cap.until_s, plan.at_s, sight.rules.zone)
        yield (
            f"{counted(len(alone), 'job')} by itself above the cap of {cap.cap_w:,} W ({cap.reason}), and not to run"
            f" before {until}: {_named(alone)}"
        )


def _named(jobs: Sequence[Load | PlannedJob]) -> str:
    """Return the hungriest ones by number and draw, and how many there are besides."""
    first = sorted(jobs, key=lambda job: -job.power_w)[:NAMED]
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return ", ".join(f"{job.job_id} ({job.power_w:,.0f} W)" for job in first) + more
