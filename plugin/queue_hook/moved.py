"""What is told of a window whose order is written anew: who was moved behind whom, who was not, and why."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from offpeak.ledger.rows import DecisionRecord, Inputs
from plugin.queue_hook.arrange import Arranged
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.planned import PLAN
from plugin.queue_hook.words import clock, peak_text
from plugin.scheduler.job import Job

BACK, FORWARD = "moved back", "moved forward"
MOVES = frozenset({BACK, FORWARD})


def told_of(
    arranged: Iterable[Arranged], written: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> list[DecisionRecord]:
    """Return a decision for each job of the windows in which something is written, in the wanted order."""
    changed = [each for each in arranged if any(one.job.job_id in written for one in each.window)]
    return [decision for each in changed for decision in _told(each, facts, rules)]


def _told(arranged: Arranged, facts: QueueFacts, rules: QueueRules) -> Iterator[DecisionRecord]:
    why = _why(arranged, facts, rules)
    movable = [position for position in arranged.wanted if position not in arranged.kept]
    for position in arranged.wanted:
        subject = f"job {arranged.window[position].job.job_id}"
        if position in arranged.kept:
            yield DecisionRecord(facts.now_s, subject, "keeps its place", arranged.kept[position])
            continue
        beside = _beside(movable, position)
        if beside is not None:
            yield _moved(arranged, position, beside, why, facts=facts, rules=rules)


def _beside(wanted: Sequence[int], position: int) -> int | None:
    """Return the nearest position that changed sides with this one: if any does, one that now stands before it."""
    rank = wanted.index(position)
    before = [each for each in wanted[:rank] if each > position]
    behind = [each for each in wanted[rank + 1 :] if each < position]
    return before[-1] if before else (behind[0] if behind else None)


def _moved(
    arranged: Arranged, position: int, beside: int, why: str, *, facts: QueueFacts, rules: QueueRules
) -> DecisionRecord:
    job, other = arranged.window[position].job, arranged.window[beside].job
    back = beside > position
    said, inputs = _compared(job, other, why, facts=facts, rules=rules)
    reason = f"{'behind' if back else 'before'} {other.job_id}: {said}"
    if back:
        until_s = arranged.since_s.get(job.job_id, facts.now_s) + rules.max_postponement_s
        reason += f"; nobody is put before it after {clock(until_s, facts.now_s, rules.zone)}"
        inputs += (("keeps_place_from_s", float(until_s)),)
    return DecisionRecord(facts.now_s, f"job {job.job_id}", BACK if back else FORWARD, reason, inputs)


def _compared(job: Job, other: Job, why: str, *, facts: QueueFacts, rules: QueueRules) -> tuple[str, Inputs]:
    """Return what tells the two jobs apart."""
    if rules.policy == PLAN and facts.planned is not None:
        start_s, other_s = (facts.planned.start_s[each.job_id] for each in (job, other))
        at, other_at = (clock(each, facts.now_s, rules.zone) for each in (start_s, other_s))
        starts: Inputs = (("planned_start_s", float(start_s)), ("other_planned_start_s", float(other_s)))
        return f"planned for {at}, the other for {other_at}", (*starts, ("beside", other.job_id))
    power_w, other_w = (facts.node_power_w[each.job_id] for each in (job, other))
    draws: Inputs = (("node_power_w", power_w), ("other_node_power_w", other_w), ("beside", other.job_id))
    return f"{why}, {power_w:.0f} W/node against {other_w:.0f} W/node", draws


def _why(arranged: Arranged, facts: QueueFacts, rules: QueueRules) -> str:
    why = peak_text(facts.peak, facts.peak_until_s, facts.now_s, rules.zone)
    return why if arranged.knapsack_free is None else f"{why}, {arranged.knapsack_free} free nodes are best filled so"
