"""All nodes of a site: what was seen is taken into their lives, and what is due comes out. No effects, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.door.effect import Effect
from offpeak.machines.inventory import InventoryNode
from power.drivers.port import Order
from power.lifecycle.due import Due, due
from power.lifecycle.events import Looked, Passed, Said
from power.lifecycle.learned_times import NOTHING_LEARNED, LearnedTimes
from power.lifecycle.life import NodeLife, NodeState, Now, Word
from power.lifecycle.step import step
from power.lifecycle.terms import Terms


@dataclass(frozen=True)
class Lives:
    """Every node's life by its name, and by the name of the hardware how long such nodes take."""

    nodes: Mapping[str, NodeLife] = field(default_factory=dict)
    times: Mapping[str, LearnedTimes] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    """What all lives of a site go by: the machines, and terms whose times are those that were learned."""

    machines: Mapping[str, InventoryNode]
    terms: Terms

    def of(self, node: str, times: Mapping[str, LearnedTimes]) -> Terms:
        """Return the terms of a node."""
        hardware = self.machines[node].hardware
        return Terms(hardware, self.terms.chance, times.get(hardware.name, NOTHING_LEARNED), self.terms.conduct)


def after_look(lives: Lives, looks: Mapping[str, Looked], words: Mapping[str, Word], now: Now, rules: Rules) -> Lives:
    """Return the lives after a look at the nodes, with the scheduler's words, and with what was learned from both."""
    nodes, times = {}, dict(lives.times)
    for node, look in looks.items():
        terms = rules.of(node, lives.times)
        before = lives.nodes.get(node) or NodeLife(node)
        after = step(step(before, Said(words.get(node)), now, terms), look, now, terms)
        if after.took is not None and after.took is not before.took:
            name = terms.hardware.name
            times[name] = times.get(name, NOTHING_LEARNED).learn(after.took)
        nodes[node] = step(after, Passed(), now, terms)
    return Lives({**lives.nodes, **nodes}, times)


def all_due(lives: Lives, now: Now, rules: Rules) -> tuple[tuple[NodeLife, Due], ...]:
    """Return what is due of each node, those that are to wake first."""
    found = ((life, due(life, now, rules.of(node, lives.times))) for node, life in lives.nodes.items())
    wanted = [(life, each) for life, each in found if each is not None]
    return tuple(sorted(wanted, key=lambda pair: pair[1].order is not Order.ON))


def effect_of(life: NodeLife, due: Due, now: Now) -> Effect:
    """Return what is asked of the door, with what the decision rests on."""
    inputs: list[tuple[str, float | str]] = [
        ("way", due.way),
        ("state", str(life.seen.state)),
        ("seen_s_ago", round(now.monotonic_s - life.seen.at_s, 1)),
        ("tries", life.effort.tries),
    ]
    if life.seen.watts is not None:
        inputs.append(("watts", life.seen.watts))
    return Effect(life.node, str(due.order), due.by, due.why, tuple(inputs))


def silent_first(lives: Lives, nodes: Iterable[str]) -> list[str]:
    """Return the nodes in the order in which to ask them: those that did not answer the last time first."""
    unknown = {node for node, life in lives.nodes.items() if life.seen.state is NodeState.UNKNOWN}
    return sorted(nodes, key=lambda node: node not in unknown)
