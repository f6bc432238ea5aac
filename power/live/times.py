"""How long nodes take to come up and to go down: as learned, else as their class or the inventory says."""

import math

from offpeak.machines.inventory import SleepMethod
from offpeak.model.node_class import SleepDepth
from offpeak.model.node_states import DEPTHS, OFF, POWERSAVE, STANDBY
from power.lifecycle.learned_times import NOTHING_LEARNED
from power.live.site import ORDER_OF, PowerSite, Sight

WAKING = {STANDBY: "resume", OFF: "boot"}
GOING = {STANDBY: "suspend", OFF: "shutdown"}
SPARE = 1.2
"""Nodes are woken ahead by this much more than they take."""
HANDED_ON_S = 10
"""By then a scheduler has handed a wake on to its resume program: it looks at power saving every so often only."""


def wake_s(site: PowerSite, sight: Sight, node: str, depth: int) -> int:
    """Return how long a node takes from that depth until jobs can run there, 0 where nobody knows."""
    known = _learned_s(site, sight, node, WAKING.get(depth, ""))
    sleep = _depth(site, node, depth)
    rung = _rung(site, node, depth)
    if known is not None:
        return known
    return sleep.leave.duration_s if sleep else rung.wake_patience_s if rung else 0


def enter_s(site: PowerSite, sight: Sight, node: str, depth: int) -> int:
    """Return how long a node takes to fall into that depth, 0 where nobody knows."""
    known = _learned_s(site, sight, node, GOING.get(depth, ""))
    sleep = _depth(site, node, depth)
    if known is not None:
        return known
    return sleep.enter.duration_s if sleep else 0


def lead_s(site: PowerSite, sight: Sight, node: str) -> int:
    """Return how long before it is needed a sleeping node has to be told to wake, a cycle of the agent included.

    What comes up just after a look is seen at the next, and carried out by the end of that cycle; the scheduler hands
    it on in its own time.
    """
    longest_s = max(wake_s(site, sight, node, depth) for depth in WAKING)
    cycle_s = max(site.agent.cycle_s, sight.cycle_took_s) + sight.cycle_took_s
    return math.ceil(SPARE * longest_s + cycle_s) + HANDED_ON_S


def waking_s(site: PowerSite, sight: Sight, node: str) -> tuple[int, ...]:
    """Return how long such nodes take to wake, by depth number."""
    return tuple(0 if depth == POWERSAVE else wake_s(site, sight, node, depth) for depth in range(len(DEPTHS)))


def duration_text(seconds: float) -> str:
    """Return a duration for people: "40 s", "14 min", "3.5 h", "2 days"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def _learned_s(site: PowerSite, sight: Sight, node: str, change: str) -> int | None:
    machine = site.machines.get(node)
    if machine is None:
        return None
    expected_s = sight.lives.times.get(machine.hardware.name, NOTHING_LEARNED).expected_s(change)
    return None if expected_s is None else math.ceil(expected_s)


def _depth(site: PowerSite, node: str, depth: int) -> SleepDepth | None:
    node_class = site.node_class(node)
    return node_class.find_depth(depth) if node_class else None


def _rung(site: PowerSite, node: str, depth: int) -> SleepMethod | None:
    machine = site.machines.get(node)
    return machine.hardware.rung(ORDER_OF[depth]) if machine and depth in ORDER_OF else None
