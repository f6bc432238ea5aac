"""The begin time of one consenting job: the cheapest start that its owner allows, if that is worth it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.ledger.rows import Inputs
from plugin.queue_hook.consent import Consent
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.latest import Leeway, leeway
from plugin.queue_hook.planned import SAME_S, Bound
from plugin.queue_hook.standing import BEGIN, BY_HAND, Marked, ours
from plugin.queue_hook.starts import Start, Starts, money
from plugin.queue_hook.words import clock
from plugin.scheduler.job import Job

WORTH_IT = 0.03
"""A delay, or another begin time, has to save this share: for less nobody waits, and forecasts move by as much."""
NOW = 0
"""What Scheduler.defer takes for a begin without delay."""

StartsOf = Callable[[int], Starts | None]
"""All starts of a job that runs for so many seconds; None where no price is to be trusted."""


@dataclass(frozen=True)
class Choice:
    """When the job may start, and why; `begin_s` is NOW to let it go, None to leave its begin time to its owner."""

    begin_s: int | None
    decided: str
    reason: str
    inputs: Inputs = ()


def choose_begin(
    job: Job, consent: Consent, marked: Marked, *, facts: QueueFacts, rules: QueueRules, starts_of: StartsOf
) -> Choice | None:
    """Return what is to become of the job's begin time; None where it stays as it is."""
    if BEGIN + BY_HAND in marked:
        return None
    held_s = _ahead(job, facts.now_s)
    bound = facts.planned.bound.get(job.job_id) if facts.planned and not consent.now else None
    if held_s is not None:
        mine = ours(marked, BEGIN, held_s) if BEGIN in marked else False
        if mine is None:
            return Choice(None, "left alone", "its begin time was set by hand")
        if mine and bound:
            return None if abs(bound.begin_s - held_s) <= SAME_S else _kept_back(bound, facts, rules)
        return _revised(job, consent, held_s, facts=facts, rules=rules, starts_of=starts_of) if mine else None
    if bound:
        return _kept_back(bound, facts, rules)
    if _was_let_go(job, marked, facts.now_s) or _gains_nothing(job, facts):
        return None
    return _delayed(job, consent, facts=facts, rules=rules, starts_of=starts_of)


def _kept_back(bound: Bound, facts: QueueFacts, rules: QueueRules) -> Choice:
    reason = f"not before {clock(bound.begin_s, facts.now_s, rules.zone)}: {bound.why}"
    return Choice(bound.begin_s, "kept back", reason, (("begin_s", float(bound.begin_s)),))


def _gains_nothing(job: Job, facts: QueueFacts) -> bool:
    return facts.planned is not None and job.job_id in facts.planned.not_held


def _ahead(job: Job, now_s: int) -> int | None:
    return job.begin_s if job.begin_s is not None and job.begin_s > now_s else None


def _was_let_go(job: Job, marked: Marked, now_s: int) -> bool:
    """Whether a delay of ours has ended: by itself, by us, or by somebody who gave it another begin time since."""
    mark = marked.get(BEGIN)
    return mark is not None and (mark.to <= now_s or (job.begin_s or 0) >= mark.at_unix_s)


def _delayed(job: Job, consent: Consent, *, facts: QueueFacts, rules: QueueRules, starts_of: StartsOf) -> Choice | None:
    room = leeway(job, consent, facts, rules)
    starts = starts_of(room.run_s) if room and room.begin_s > facts.now_s else None
    if room is None or starts is None:
        return None
    now, best = starts.at(facts.now_s), starts.cheapest(facts.now_s, room.begin_s)
    if best is None or best.at_s == facts.now_s or not _is_worth_it(best, now):
        return None
    return _waits(job, best, now, room, facts=facts, rules=rules)


def _revised(
    job: Job, consent: Consent, held_s: int, *, facts: QueueFacts, rules: QueueRules, starts_of: StartsOf
) -> Choice | None:
    room = leeway(job, consent, facts, rules)
    if room is None:
        capless = "" if facts.planned is None else "no cap on power keeps it back, and "
        return Choice(NOW, "let go", f"{capless}its owner allows no delay any more")
    if _gains_nothing(job, facts):
        return Choice(NOW, "let go", "by the plan it would come to start in no cheaper hour")
    if room.begin_s <= facts.now_s:
        return Choice(NOW, "let go", f"it may be kept back until {clock(room.start_s, facts.now_s, rules.zone)} only")
    starts = starts_of(room.run_s)
    best = starts.cheapest(facts.now_s, room.begin_s) if starts else None
    if starts is None or best is None:
        # It was chosen by prices that were known then, and ends by itself.
        return None if held_s <= room.begin_s else Choice(NOW, "let go", "no price is known up to its latest start")
    held = starts.at(held_s)
    if held_s <= room.begin_s and not _is_worth_it(best, held):
        return None
    if best.at_s == facts.now_s:
        return Choice(NOW, "let go", "no later start is cheaper by now")
    return _waits(job, best, starts.at(facts.now_s), room, facts=facts, rules=rules)


def _is_worth_it(best: Start, other: Start) -> bool:
    """Whether the start saves its share; what is not known beside it is never worth a bet."""
    return other.per_watt - best.per_watt > WORTH_IT * abs(other.per_watt)


def _waits(job: Job, best: Start, now: Start, room: Leeway, *, facts: QueueFacts, rules: QueueRules) -> Choice:
    mean, mean_now = best.per_watt / room.run_s, now.per_watt / room.run_s
    begin, latest = (clock(each, facts.now_s, rules.zone) for each in (best.at_s, room.start_s))
    against = "" if np.isnan(mean_now) else f" against {mean_now:.2f} now"
    unit = facts.prices.unit if facts.prices else ""
    reason = (
        f"not before {begin}: {mean:.2f} {unit} over its run{against}{_rests_on(best.at_s, facts)};"
        f" kept back until {latest} at the latest"
    )
    inputs: Inputs = (
        ("begin_s", float(best.at_s)),
        ("latest_start_s", float(room.start_s)),
        ("run_s", float(room.run_s)),
        ("price_per_mwh", mean),
        ("price_now_per_mwh", mean_now),
    )
    node_power_w = facts.node_power_w.get(job.job_id)
    if node_power_w is not None:
        inputs += (("saved", money(now.per_watt - best.per_watt, node_power_w * job.nodes)),)
    return Choice(best.at_s, "delayed", reason, tuple(each for each in inputs if each[1] == each[1]))


def _rests_on(at_s: int, facts: QueueFacts) -> str:
    if facts.prices is None or not facts.basis:
        return ""
    interval = int(np.searchsorted(facts.prices.start_s, at_s, side="right")) - 1
    return f" ({facts.basis[interval]})" if 0 <= interval < len(facts.basis) else ""
