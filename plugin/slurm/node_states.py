"""Slurm's words for a node's state, in ours: one base and any number of flags, which combine as they like."""

from functools import lru_cache
from typing import NamedTuple

from plugin.scheduler.node import NodePower, NodeUse

BASES = {
    "IDLE": NodeUse.FREE,
    "DOWN": NodeUse.FREE,
    "ALLOCATED": NodeUse.USED,
    "MIXED": NodeUse.USED,
}

# The first that a node has tells.
_POWERS = (
    ("POWERING_DOWN", NodePower.GOING_DOWN),
    ("POWERING_UP", NodePower.COMING_UP),
    ("POWER_DOWN", NodePower.ASKED_DOWN),
    ("POWER_UP", NodePower.ASKED_UP),
    ("POWERED_DOWN", NodePower.DOWN),
)
_FAILED = frozenset({"DOWN", "FAIL", "INVALID_REG"})
_RESERVED = frozenset({"RESERVED", "MAINT", "MAINTENANCE"})
_OTHERS = frozenset({"DRAIN", "NOT_RESPONDING", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM"})
_OTHERS |= {"DYNAMIC_FUTURE", "BLOCKED", "PERFCTRS", "RESUME", "EXTERNAL", "POWER_DRAIN"}
# REBOOT_REQUESTED and REBOOT_ISSUED are missing on purpose: somebody works on that node.
_KNOWN = _OTHERS | _RESERVED | _FAILED | {word for word, _ in _POWERS} | set(BASES)


class Condition(NamedTuple):
    """What a node's words say, as in plugin.scheduler.node.Node."""

    use: NodeUse
    power: NodePower
    closed: bool
    failed: bool
    responds: bool
    reserved: bool
    planned: bool


@lru_cache(maxsize=1024)
def condition(word: str, busy: bool) -> Condition:
    """Return what a word such as IDLE+DRAIN+POWERED_DOWN says; `busy`: processors of the node are given to jobs."""
    words = frozenset(word.split("+"))
    use = _use(words, busy)
    return Condition(
        use=use,
        power=_power(words, use),
        closed="DRAIN" in words,
        failed=bool(words & _FAILED),
        responds="NOT_RESPONDING" not in words,
        reserved=bool(words & _RESERVED),
        planned="PLANNED" in words,
    )


def _use(words: frozenset[str], busy: bool) -> NodeUse:
    if words - _KNOWN or not words & BASES.keys():
        return NodeUse.UNKNOWN
    if busy or "COMPLETING" in words:
        return NodeUse.USED
    return next(use for base, use in BASES.items() if base in words)


def _power(words: frozenset[str], use: NodeUse) -> NodePower:
    power = next((power for word, power in _POWERS if word in words), NodePower.UP)
    # A job has been given it: Slurm is about to wake it.
    return NodePower.ASKED_UP if power is NodePower.DOWN and use is NodeUse.USED else power
