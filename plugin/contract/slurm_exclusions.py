"""SuspendTime and SuspendExcNodes, -Parts and -States: which nodes Slurm suspends, and which it never does.

The exclusions are an admin's word. slurmctld heeds them only where it suspends nodes by itself, so offpeak must heed
them for its own orders. A set with a count, `n[1-9]:4`, keeps so many of its idle nodes awake. Slurm 22.05 counts only
idle nodes, later releases also busy ones. offpeak counts idle ones, which keeps the promise of both.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.slurm.commands import count, parts

NODES, PARTITIONS, STATES = "SuspendExcNodes", "SuspendExcParts", "SuspendExcStates"
EVERY_NODE = "ALL"
INFINITE, UNSET = "INFINITE", ("", "NONE", "GLOBAL", "-2")
_SET = re.compile(r"((?:[^,:\[]|\[[^\]]*\])+)(?::(\d+))?")


def parse_suspend_s(text: str) -> float | None:
    """Return a SuspendTime in seconds, infinite for INFINITE, None if it is not set."""
    if text in UNSET:
        return None
    return math.inf if text.startswith((INFINITE, "-1")) else float(count(text))


@dataclass(frozen=True)
class ExcludedSet:
    """A set of SuspendExcNodes as it is written; `least` of its nodes stay awake, None for all of them."""

    text: str
    nodes: frozenset[str]
    least: int | None

    def has(self, node: str) -> bool:
        """Whether the node is in the set: ALL has every node."""
        return self.text.upper() == EVERY_NODE or node in self.nodes


@dataclass(frozen=True)
class Exclusions:
    """The three settings. `unknown` are names in SuspendExcNodes that cannot be read."""

    sets: tuple[ExcludedSet, ...] = ()
    partitions: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()

    def of_nodes(self, nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
        """Return the excluded nodes by the setting that excludes them, without sets with a count and states."""
        found: dict[str, set[str]] = {}
        for node in nodes:
            for each in self.sets:
                if each.least is None and each.has(node.name):
                    found.setdefault(f"{NODES}={each.text}", set()).add(node.name)
            for name in sorted(self.partitions.intersection(node.partitions)):
                found.setdefault(f"{PARTITIONS}={name}", set()).add(node.name)
        return {setting: frozenset(names) for setting, names in found.items()}

    def of_now(self, nodes: Sequence[Node]) -> dict[str, str]:
        """Return the nodes that stay awake by their state now, or by the count of a set, each with the setting."""
        kept = {}
        for node in nodes:
            # offpeak itself drains nodes on their way to sleep.
            flags = set(node.native_state.split("+")) - ({"DRAIN"} if node.closed_by_us else set())
            # Slurm takes the first letters of a state, and prints MAINT or MAINTENANCE.
            if states := sorted(state for state in self.states if any(flag.startswith(state[:5]) for flag in flags)):
                kept[node.name] = f"{STATES}={states[0]}"
        for each in self.sets:
            idle = [node.name for node in nodes if each.has(node.name) and _is_idle(node)]
            kept |= dict.fromkeys(idle[: each.least or 0], f"{NODES}={each.text}:{each.least}")
        return kept

    def unknown_names(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return what in SuspendExcNodes is no node, such as a NodeSet, whose nodes Slurm does not show."""
        known = {node.name for node in nodes}
        strange = [name for each in self.sets for name in sorted(each.nodes - known) if name.upper() != EVERY_NODE]
        return (*self.unknown, *strange)


NO_EXCLUSIONS = Exclusions()


def parse_exclusions(settings: Mapping[str, str]) -> Exclusions:
    """Return the exclusions in the answer to `scontrol show config`."""
    sets, unknown = [], []
    for text, least in _SET.findall(settings.get(NODES, "")):
        try:
            names = frozenset(expand(text))
        except BadInput:
            unknown.append(text)
        else:
            # Slurm takes a count of 0 as none.
            sets.append(ExcludedSet(text, names, int(least or 0) or None))
    states = frozenset(name.upper() for name in parts(settings.get(STATES, "")))
    return Exclusions(tuple(sets), frozenset(parts(settings.get(PARTITIONS, ""))), states, tuple(unknown))


def _is_idle(node: Node) -> bool:
    is_up = node.power is PowerState.ON and node.responds and not node.failed
    return is_up and node.use is NodeUse.FREE and not node.closed
