"""What the levers of a site are measured on: the last days of its log, on nodes that can sleep."""

from dataclasses import replace

import numpy as np

from offpeak.model.local_time import DAY_S
from offpeak.model.node_class import NodeClass, SleepDepth, Transition
from offpeak.model.node_class_file import bundled_node_class
from sim_backend.case import ASSUMED_CLASS
from sim_backend.compare import ReplayCase
from sim_backend.powered_replay import PoweredMachine


def lately(case: ReplayCase, days: int) -> tuple[ReplayCase, int]:
    """Return the case of the jobs that were submitted in the last days, and the number of the first of them."""
    submit_s = case.jobs.submit_s
    first = int(np.searchsorted(submit_s, submit_s[-1] - days * DAY_S))
    kept = np.arange(first, len(submit_s))
    return replace(case, jobs=case.jobs.take(kept), node_power_w=case.node_power_w[first:]), first


def with_nodes(case: ReplayCase, units_per_node: int) -> tuple[ReplayCase, str]:
    """Return the case with nodes that can sleep, and in words which; where none are known, as hungry as its idle ones.

    These are of an assumed class in the proportion of the idle draws.
    """
    if case.nodes is not None:
        return case, f"nodes are of the class {case.nodes.node_class.name}"
    idle_w = case.machine.idle_w * units_per_node
    nodes = PoweredMachine(case.machine.size, units_per_node, scaled(bundled_node_class(ASSUMED_CLASS), idle_w))
    said = f"nodes are assumed to sleep like the class {ASSUMED_CLASS}, scaled to {idle_w:g} W idle"
    return replace(case, nodes=nodes), f"{said}; --node-class names another"


def scaled(node_class: NodeClass, idle_w: float) -> NodeClass:
    """Return the class with all draws in the proportion that makes an idle node draw `idle_w`."""
    times = idle_w / node_class.idle_w

    def less(transition: Transition) -> Transition:
        return replace(transition, power_w=transition.power_w * times)

    def lighter(depth: SleepDepth) -> SleepDepth:
        return replace(depth, power_w=depth.power_w * times, enter=less(depth.enter), leave=less(depth.leave))

    return replace(
        node_class,
        idle_w=idle_w,
        running=tuple((used, power_w * times) for used, power_w in node_class.running),
        depths=tuple(map(lighter, node_class.depths)),
    )
