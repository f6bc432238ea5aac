"""After which idle time a node goes into which depth: the rungs that are used, and when each pays."""

import math

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_states import DEPTHS
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import did_you_mean
from plugin.capacity.rules import NEVER

DEEPEST = "deepest"
J_PER_MWH = 3.6e9


def used_depths(node_class: NodeClass, settings: CapacitySettings) -> tuple[int, ...]:
    """Return the numbers of the depths that the settings name, shallow to deep; BadInput for one that is not there."""
    has = tuple(depth.depth for depth in node_class.depths)
    if not has:
        raise BadInput(f"the node class {node_class.name!r} has no sleep depth", hint="add one to its file: [off]")
    return tuple(sorted({_number(name, has, node_class.name) for name in settings.depths}))


def _number(name: str, has: tuple[int, ...], class_name: str) -> int:
    if name == DEEPEST:
        return max(has)
    if name not in DEPTHS:
        raise BadInput(f"unknown sleep depth {name!r}", hint=did_you_mean(name, (*DEPTHS, DEEPEST)))
    if DEPTHS.index(name) not in has:
        known = ", ".join(DEPTHS[depth] for depth in has)
        raise BadInput(f"the node class {class_name!r} has no depth {name!r}", hint=f"it has {known}")
    return DEPTHS.index(name)


def ladder_s(node_class: NodeClass, depths: tuple[int, ...], idle_s: int) -> Int64:
    """Return the idle time before each depth: the first after `idle_s`, a deeper one when it pays, if that is later."""
    after_s = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for rung, depth in enumerate(depths):
        pays_s = break_even_s(node_class, depth)
        if math.isfinite(pays_s):
            after_s[depth] = max(idle_s, math.ceil(pays_s)) if rung else idle_s
    return after_s


def break_even_ladder_s(node_class: NodeClass, depths: tuple[int, ...]) -> Int64:
    """Return the idle time from which each depth saves energy: to wait so long costs at most twice the best.

    Source: the ski-rental rule of Karlin et al., "Competitive snoopy caching", Algorithmica 3, 1988.
    """
    after_s = np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for depth in depths:
        pays_s = break_even_s(node_class, depth)
        if math.isfinite(pays_s):
            after_s[depth] = math.ceil(pays_s)
    return after_s


def priced_ladder_s(node_class: NodeClass, depths: tuple[int, ...], price_per_mwh: float, cycle_cost: float) -> Int64:
    """Return the idle time from which each depth saves money at a price, a cycle's wear counted in.

    An idle node costs more when electricity is dear; at a price of zero or less it never pays to sleep.
    """
    after_s = break_even_ladder_s(node_class, depths)
    if not price_per_mwh > 0:
        return np.full(len(DEPTHS), NEVER, dtype=np.int64)
    for depth in depths:
        sleep = node_class.find_depth(depth)
        if sleep is None or after_s[depth] == NEVER:
            continue
        saved_per_s = (node_class.idle_w - sleep.power_w) * price_per_mwh / J_PER_MWH
        longer_s = math.ceil(cycle_cost / saved_per_s) if saved_per_s > 0 else NEVER
        after_s[depth] = NEVER if longer_s > NEVER - after_s[depth] else after_s[depth] + longer_s
    return after_s
