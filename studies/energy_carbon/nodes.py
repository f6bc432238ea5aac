"""The testbeds' nodes by the way they sleep, and the policies that put them to sleep."""

import math
from dataclasses import replace

from offpeak.model.node_class import NodeClass, SleepDepth, break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import CapacityPolicy, Fleet
from power.capacity.registry import make_capacity_policy
from studies.energy_carbon.paper import JUGGLE

BOTH = "both"


def node_class_of(testbed: str, way: str) -> NodeClass:
    """Return the testbed's nodes; "both" is standby at what an empty Juggle drew in it with the governor set, too."""
    node_class = bundled_node_class(testbed)
    if way != BOTH:
        return node_class
    both_w = JUGGLE.rows[BOTH][0].aware.power_w / JUGGLE.nodes
    deepest = node_class.depths[-1]
    return replace(node_class, depths=(*node_class.depths[:-1], replace(deepest, power_w=both_w)))


def depth_of(node_class: NodeClass, way: str) -> SleepDepth:
    """Return the depth that the way to sleep uses."""
    name = _depth_name(way)
    return node_class.depths[0] if name == "powersave" else node_class.depths[-1]


def energy_aware(nodes: int, node_class: NodeClass, way: str, *, keeps: bool) -> CapacityPolicy:
    """Return the policy in which idle nodes sleep at once.

    `keeps`: but for those that the first waiting job is expected to need before it would have paid to sleep.
    """
    ahead_s = math.ceil(break_even_s(node_class, depth_of(node_class, way).depth)) if keeps else 0
    settings = CapacitySettings(depths=(_depth_name(way),), wake_ahead_s=ahead_s)
    return make_capacity_policy("energy-aware", Fleet(nodes, 1, node_class), settings)


def _depth_name(way: str) -> str:
    return "standby" if way == BOTH else way
