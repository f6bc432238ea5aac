"""Who of a window keeps the place: who said so, whom an admin set, and who was passed for too long."""

from collections.abc import Collection, Mapping, Sequence

from plugin.queue_hook.arrange import Places
from plugin.queue_hook.consent import consent_of
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.standing import Standing
from plugin.queue_hook.words import clock


def places_of(
    window: Sequence[Standing],
    *,
    facts: QueueFacts,
    rules: QueueRules,
    by_hand: Collection[str],
    since_s: Mapping[str, int],
) -> Places:
    """Return who keeps the place. Nobody who stands before a job that was passed for too long is moved either."""
    pinned, kept = {}, {}
    for at, each in enumerate(window):
        why = _not_to_be_written(each, rules, by_hand)
        if why:
            pinned[at] = why
        elif each.job.job_id not in facts.node_power_w:
            kept[at] = "its draw is not known"
        elif facts.planned is not None and each.job.job_id not in facts.planned.start_s:
            kept[at] = "the plan has no start for it"
    for at in range(_overdue(window, facts.now_s, rules, since_s)):
        kept.setdefault(at, _passed_text(window[at], facts, rules, since_s))
    return Places(kept | pinned, frozenset(pinned))


def _not_to_be_written(each: Standing, rules: QueueRules, by_hand: Collection[str]) -> str:
    if each.job.job_id in by_hand:
        return "its priority was set by hand"
    if consent_of(each.job.comment, rules.zone).now:
        return "its owner said offpeak:now"
    return "a nice value was set for it" if each.niced else ""


def _overdue(window: Sequence[Standing], now_s: int, rules: QueueRules, since_s: Mapping[str, int]) -> int:
    """Return behind which rank jobs may be moved: that of the last job that was passed for longer than the bound."""
    overdue = [
        at for at, each in enumerate(window) if now_s - since_s.get(each.job.job_id, now_s) > rules.max_postponement_s
    ]
    return overdue[-1] + 1 if overdue else 0


def _passed_text(each: Standing, facts: QueueFacts, rules: QueueRules, since_s: Mapping[str, int]) -> str:
    since = since_s.get(each.job.job_id)
    if since is None:
        return "behind it stands one that was passed for too long"
    return f"later ones have been passing it since {clock(since, facts.now_s, rules.zone)}"
