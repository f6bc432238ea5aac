"""A class of nodes: its power when idle, busy, asleep or in transition, and when sleep saves energy."""

import math
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.node_states import ACTIVE, FAILED, POWERSAVE, STATES, asleep, coming_up, going_down

JOB_UTILISATION = 0.75
"""The assumed load of a node with a job: the power of future jobs is unknown, and this is the middle of its range."""


@dataclass(frozen=True)
class Transition:
    """The transition into a depth or out of it: duration, power, and probability of failure (0..1)."""

    duration_s: int
    power_w: float
    failure_probability: float

    @property
    def energy_j(self) -> float:
        """What one transition takes."""
        return self.duration_s * self.power_w


@dataclass(frozen=True)
class DepthPower:
    """The power of a node class in a sleep depth, and the ways into it and out of it; `depth` is its number."""

    depth: int
    power_w: float
    enter: Transition
    leave: Transition


@dataclass(frozen=True)
class EnclosurePower:
    """What an enclosure of so many nodes draws for all of them, as fans and power supplies do, until all sleep."""

    nodes: int
    overhead_w: float


@dataclass(frozen=True)
class NodeClass:
    """A kind of node: its draw when idle, by utilisation 0..1 when in use, and in its sleep depths, shallow to deep.

    `running` holds points (utilisation, draw [W]) from idle to full use. A depth draws no more than idle and no more
    than a shallower one. `repair_s` is how long a failed node is out of use, None if for good. In an `enclosure` the
    draw of a node that is awake includes its share of the overhead; that in a sleep depth is of a whole enclosure.
    """

    name: str
    idle_w: float
    running: tuple[tuple[float, float], ...]
    depths: tuple[DepthPower, ...]
    repair_s: int | None = None
    enclosure: EnclosurePower | None = None

    @property
    def overhead_w(self) -> float:
        """Its share of the overhead of its enclosure, which stays while another node there is awake; 0 without one."""
        return self.enclosure.overhead_w / self.enclosure.nodes if self.enclosure else 0.0

    @property
    def asleep_w(self) -> float:
        """The least power of a node that sleeps, 0 if the class knows no sleep."""
        return min((depth.power_w for depth in self.depths), default=0.0)

    def running_w(self, utilisation: float) -> float:
        """Return the draw [W] at that utilisation, 0..1: straight lines between the points."""
        used, power_w = zip(*self.running, strict=True)
        return float(np.interp(utilisation, used, power_w))

    def find_depth(self, depth: int) -> DepthPower | None:
        """Return the class's depth of that number, None if it has none."""
        return next((found for found in self.depths if found.depth == depth), None)

    def saved_w(self, depth: DepthPower, last: int = 0) -> float:
        """Return what a node in that depth draws less than an idle one.

        Its share of the overhead stays while its enclosure is awake; the `last` nodes there save the whole together.
        """
        saved_w = self.idle_w - depth.power_w
        if self.enclosure is None or depth.depth == POWERSAVE:
            return saved_w
        return saved_w - self.overhead_w + (self.enclosure.overhead_w / last if last else 0.0)

    def state_w(self) -> Float64:
        """Return the draw of a node that runs nothing, by its state: float64[STATES], 0 for a depth that is not there.

        A failed node hangs switched on, so it is taken to draw as much as an idle one.
        """
        power_w = np.zeros(STATES)
        power_w[[ACTIVE, FAILED]] = self.idle_w
        for depth in self.depths:
            power_w[going_down(depth.depth)] = depth.enter.power_w
            power_w[asleep(depth.depth)] = depth.power_w
            power_w[coming_up(depth.depth)] = depth.leave.power_w
        return power_w


def scale_node_class(node_class: NodeClass, idle_w: float) -> NodeClass:
    """Return the class with all power figures scaled so that an idle node draws `idle_w`."""
    times = idle_w / node_class.idle_w

    def less(transition: Transition) -> Transition:
        return replace(transition, power_w=transition.power_w * times)

    def lighter(depth: DepthPower) -> DepthPower:
        return replace(depth, power_w=depth.power_w * times, enter=less(depth.enter), leave=less(depth.leave))

    enclosure = node_class.enclosure
    return replace(
        node_class,
        enclosure=enclosure and replace(enclosure, overhead_w=enclosure.overhead_w * times),
        idle_w=idle_w,
        running=tuple((used, power_w * times) for used, power_w in node_class.running),
        depths=tuple(map(lighter, node_class.depths)),
    )


def break_even_s(node_class: NodeClass, depth: int, *, last: int = 0) -> float:
    """Return the idle time beyond which that depth saves energy, both transitions within it, none of them failing.

    It is never less than the transitions last; inf where the depth never saves, or the class does not have it. `last`
    is that of `NodeClass.saved_w`: by default other nodes of the enclosure stay awake.
    """
    sleep = node_class.find_depth(depth)
    if sleep is None:
        return math.inf
    transitions_s = sleep.enter.duration_s + sleep.leave.duration_s
    extra_j = sleep.enter.energy_j + sleep.leave.energy_j - node_class.idle_w * transitions_s
    saved_w = node_class.saved_w(sleep, last)
    if extra_j < 0:
        return float(transitions_s)
    return transitions_s + extra_j / saved_w if saved_w > 0 else math.inf
