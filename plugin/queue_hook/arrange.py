"""One competition's window: who stands in it, who keeps the place, and which order the others get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offpeak.prices.peak import Peak
from plugin.knapsack import MOST_JOBS
from plugin.queue_hook.facts import QueueFacts, QueueRules, competition
from plugin.queue_hook.order import free_behind, greedy_order, knapsack_order, planned_order
from plugin.queue_hook.planned import PLAN
from plugin.queue_hook.standing import Standing
from plugin.queue_hook.values import Arrangement, dealt

KNAPSACK = "knapsack"


@dataclass(frozen=True)
class Arranged:
    """A window in the site's order, its positions in the wanted one, and each position's wanted priority.

    `kept` says why a job keeps its place, by position; `since_s` since when jobs have been passed; `knapsack_free` how
    many nodes were to be filled.
    """

    window: Sequence[Standing]
    wanted: Sequence[int]
    values: Sequence[int]
    kept: Mapping[int, str]
    since_s: Mapping[str, int]
    knapsack_free: int | None


@dataclass(frozen=True)
class Places:
    """Who of a window keeps the place, and why, by position; to those that are `pinned` nothing may be written."""

    kept: Mapping[int, str]
    pinned: frozenset[int]


def window_size(rules: QueueRules) -> int:
    """Return how many jobs of a competition may be reordered."""
    return min(rules.window, MOST_JOBS) if rules.policy == KNAPSACK else rules.window


def arrange(
    line: Sequence[Standing], places: Places, since_s: Mapping[str, int], *, facts: QueueFacts, rules: QueueRules
) -> Arranged:
    """Return the wanted order of the first jobs of `line`, which is in the site's order.

    Where equal priorities leave no room beside a pinned job, only the jobs in front of the first such one are moved.
    """
    length = min(window_size(rules), len(line))
    for moved_until in (length, min(places.pinned, default=0), 0):
        window = line[:length]
        movable = [at for at in range(moved_until) if at not in places.kept]
        wanted, free = _wanted(window, movable, facts=facts, rules=rules)
        below = line[length] if length < len(line) else None
        values = dealt(Arrangement(window, wanted, places.pinned, below), facts.ranking)
        if values is not None:
            return Arranged(window, wanted, values, places.kept, since_s, free)
    raise AssertionError("the site's own order always fits")


def _wanted(
    window: Sequence[Standing], movable: Sequence[int], *, facts: QueueFacts, rules: QueueRules
) -> tuple[list[int], int | None]:
    nodes = [window[at].job.nodes for at in movable]
    node_power_w = [facts.node_power_w[window[at].job.job_id] for at in movable]
    off_peak, free = facts.peak == Peak.OFF_PEAK, None
    if rules.policy == KNAPSACK:
        kept = [each.job.nodes for at, each in enumerate(window) if at not in set(movable)]
        free = free_behind(facts.free_nodes.get(competition(window[0].job), 0), kept)
        order = knapsack_order(nodes, node_power_w, free=free, off_peak=off_peak)
    elif rules.policy == PLAN and facts.planned is not None:
        order = planned_order([facts.planned.start_s[window[at].job.job_id] for at in movable])
    else:
        order = greedy_order(node_power_w, off_peak=off_peak)
    wanted = list(range(len(window)))
    for rank, chosen in zip(movable, order, strict=True):
        wanted[rank] = movable[chosen]
    return wanted, free
