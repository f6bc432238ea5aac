"""The best that nodes can do when the future is known, by trying everything: for small cases, in plain Python."""

from collections.abc import Iterator, Sequence
from itertools import product

from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE, asleep, coming_up, going_down

Position = tuple[int, int]
"""A node's state and, on its way between two, how many seconds of it are left, the present one included."""

AWAKE: Position = (ACTIVE, 1)


def cheapest(
    node_class: NodeClass, needed: Sequence[int], price: Sequence[float], nodes: int, *, cut_ways: bool
) -> float:
    """Return the least sum of price x draw of all nodes, one number of nodes that must be active and price a second.

    Nodes begin active or asleep, with `cut_ways` also on their way, and end as they like.
    """
    state_w = node_class.state_w()
    first = {AWAKE, *((asleep(depth.depth), 1) for depth in node_class.depths)}
    if cut_ways:
        first |= set(_ways(node_class))
    best = {tuple(sorted(held)): 0.0 for held in product(first, repeat=nodes)}
    for wanted, worth in zip(needed, price, strict=True):
        spent: dict[tuple[Position, ...], float] = {}
        for held, before in best.items():
            if sum(position == AWAKE for position in held) < wanted:
                continue
            total = before + worth * sum(float(state_w[state]) for state, _ in held)
            for choice in product(*(_next(node_class, position) for position in held)):
                after = tuple(sorted(choice))
                spent[after] = min(total, spent.get(after, total))
        best = spent
    return min(best.values())


def _ways(node_class: NodeClass) -> Iterator[Position]:
    for depth in node_class.depths:
        yield from ((going_down(depth.depth), left_s) for left_s in range(1, depth.enter.duration_s + 1))
        yield from ((coming_up(depth.depth), left_s) for left_s in range(1, depth.leave.duration_s + 1))


def _next(node_class: NodeClass, position: Position) -> set[Position]:
    """Return where a node may be in the next second."""
    state, left_s = position
    if left_s > 1:
        return {(state, left_s - 1)}
    arrived = state + 1 if state in {going_down(depth.depth) for depth in node_class.depths} else state
    arrived = ACTIVE if state in {coming_up(depth.depth) for depth in node_class.depths} else arrived
    found: set[Position] = set()
    _choose(node_class, arrived, found)
    return found


def _choose(node_class: NodeClass, state: int, found: set[Position]) -> None:
    """Gather where a node in `state` may be, itself included, ways that take no time being followed to their end."""
    if (state, 1) in found:
        return
    found.add((state, 1))
    for depth in node_class.depths:
        if state == ACTIVE or state < asleep(depth.depth):
            _begin(node_class, going_down(depth.depth), depth.enter.duration_s, asleep(depth.depth), found)
        elif state == asleep(depth.depth):
            _begin(node_class, coming_up(depth.depth), depth.leave.duration_s, ACTIVE, found)


def _begin(node_class: NodeClass, way: int, duration_s: int, arrives: int, found: set[Position]) -> None:
    if duration_s:
        found.add((way, duration_s))
    else:
        _choose(node_class, arrives, found)
