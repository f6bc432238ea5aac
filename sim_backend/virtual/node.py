"""A virtual node: its power states by the durations and draws of its class, its energy, its orders, its clock, its BMC.

Time is a parameter. The power of a node is constant between changes, so its energy is an exact sum of rectangles. The
orders are on, off, cycle, reset and suspend; one that makes no sense does nothing. A `LiveNode` lives by a clock: each
look shows it as it is now. `offpeak.sim_backend.virtual.rmcp` is the protocol of the BMC.
"""

import math
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from offpeak.errors import NotSupported
from offpeak.model.node_cap import cap_curve_named
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, OFF, STANDBY, asleep, coming_up, going_down

CURVE = "v100"
"""The measured curve by which jobs slow down under a limit."""

CALLBACK, USER, OPERATOR, ADMINISTRATOR = 1, 2, 3, 4
"""Privilege levels by their numbers on the wire: IPMI v2.0, section 22.18."""

NAMESPACE = uuid.UUID("8d3f0c4e-52a6-5b0e-9c8c-0f1d4f0a7b61")


@dataclass(frozen=True)
class VirtualNode:
    """A node from `since_s` on, until it receives an order or its transition ends at `until_s`.

    `state` is a number of offpeak.model.node_states; `energy_j` is its energy up to `since_s`. A transition that
    `fails` ends in FAILED: the node hangs, switched on. `wakes_next` is an ON that waits for the shutdown to end; a BMC
    that `drops_early_on` forgets it. `least_w` and `most_w` are its extremes before `since_s`. A job draws no more than
    the `limit_w`, and slows down for it by the `CURVE`.
    """

    node_class: NodeClass
    since_s: float = 0.0
    state: int = ACTIVE
    until_s: float = math.inf
    utilisation: float = 0.0
    fails: bool = False
    wakes_next: bool = False
    drops_early_on: bool = True
    energy_j: float = 0.0
    least_w: float = math.inf
    most_w: float = 0.0
    limit_w: float = math.inf

    @property
    def power_w(self) -> float:
        """The present power [W]."""
        if self.state == ACTIVE:
            return max(min(self.node_class.running_w(self.utilisation), self.limit_w), self._floor_w)
        return float(self.node_class.state_w()[self.state])

    @property
    def _floor_w(self) -> float:
        """What the node draws under the lowest limit: a job draws some power at the lowest clock, too."""
        dynamic_w = self.node_class.running_w(self.utilisation) - self.node_class.idle_w
        return self.node_class.idle_w + cap_curve_named(CURVE).least_share * dynamic_w

    @property
    def speed(self) -> float:
        """The speed of its jobs, 1 without a limit that they reach."""
        dynamic_w = self.node_class.running_w(self.utilisation) - self.node_class.idle_w
        if self.state != ACTIVE or dynamic_w <= 0:
            return 1.0
        slowdown = cap_curve_named(CURVE).slowdown((self.power_w - self.node_class.idle_w) / dynamic_w)
        return 1.0 - slowdown[1] if slowdown else 1.0

    def energy_at(self, now_s: float) -> float:
        """Return the energy [J] used up to `now_s`, a second within the present state."""
        return self.energy_j + self.power_w * (now_s - self.since_s)


def changed(
    node: VirtualNode, at_s: float, *, state: int, until_s: float = math.inf, fails: bool = False
) -> VirtualNode:
    """Return the node in another state from `at_s` on; the energy used before is counted."""
    return replace(
        node,
        since_s=at_s,
        state=state,
        until_s=until_s,
        fails=fails,
        wakes_next=False,
        energy_j=node.energy_at(at_s),
        least_w=min(node.least_w, node.power_w),
        most_w=max(node.most_w, node.power_w),
    )


def advance(node: VirtualNode, now_s: float) -> VirtualNode:
    """Return the node at `now_s`: due transitions have ended, each at its own time."""
    while node.until_s <= now_s:
        at_s, depth = node.until_s, depth_of(node)
        if node.fails or depth is None:
            node = changed(node, at_s, state=FAILED)
        elif node.state == coming_up(depth.depth):
            node = changed(node, at_s, state=ACTIVE)
            # What ran before a boot does not run after it.
            node = replace(node, utilisation=0.0) if depth.depth == OFF else node
        else:
            down = changed(node, at_s, state=asleep(depth.depth))
            up_s = at_s + depth.leave.duration_s
            node = changed(down, at_s, state=coming_up(depth.depth), until_s=up_s) if node.wakes_next else down
    return node


def depth_of(node: VirtualNode) -> DepthPower | None:
    """Return the depth that the node is in, or on its way into or out of; None if it is up or hangs."""
    if node.state in (ACTIVE, FAILED):
        return None
    return node.node_class.find_depth((node.state - going_down(0)) // (going_down(1) - going_down(0)))


Clock = Callable[[], float]
"""Returns the seconds since a virtual room was opened."""


def clock_of(factor: float) -> Clock:
    """Return a clock that starts now at 0 and runs `factor` times as fast as real time."""
    start_s = time.monotonic()
    return lambda: (time.monotonic() - start_s) * factor


@dataclass
class LiveNode:
    """A node by its name. Transitions fail as often as its class says, by `chance`, or when `fail_next` is called."""

    name: str
    clock: Clock
    chance: random.Random
    node: VirtualNode
    _failing: bool = field(default=False, init=False)

    def now(self) -> VirtualNode:
        """Return the node in its current state."""
        self.node = advance(self.node, self.clock())
        return self.node

    @property
    def power_w(self) -> float:
        """The present power [W]."""
        return self.now().power_w

    @property
    def energy_j(self) -> float:
        """The energy [J] used since the node was made."""
        at_s = self.clock()
        self.node = advance(self.node, at_s)
        return self.node.energy_at(at_s)

    @property
    def powered(self) -> bool:
        """Whether the main power is on as a BMC reports it: it is off in standby and in the off state."""
        node = self.now()
        depth = depth_of(node)
        return depth is None or node.state != asleep(depth.depth)

    def fail_next(self) -> None:
        """Let the next transition fail: the node hangs at its end."""
        self._failing = True

    def use(self, utilisation: float) -> None:
        """Set the utilisation, 0..1; it changes the power while the node is active."""
        self.node = replace(self._in_same_state(), utilisation=utilisation)

    def limit(self, limit_w: float) -> None:
        """Limit the power of the node, inf for no limit."""
        self.node = replace(self._in_same_state(), limit_w=limit_w)

    def _in_same_state(self) -> VirtualNode:
        """Return the node from now on, with the energy that it has used so far."""
        now_s = self.clock()
        node = advance(self.node, now_s)
        same_state = changed(node, now_s, state=node.state, until_s=node.until_s, fails=node.fails)
        return replace(same_state, wakes_next=node.wakes_next)

    def on(self) -> None:
        """Switch the node on if it sleeps. While it shuts down the order is dropped, or waits, as the node is made."""
        now_s = self.clock()
        node = self.node = advance(self.node, now_s)
        depth = depth_of(node)
        if depth is None:
            return
        if node.state == asleep(depth.depth):
            self._begin(coming_up(depth.depth), depth.leave, now_s)
        elif node.state == going_down(depth.depth) and not node.drops_early_on:
            self.node = replace(node, wakes_next=True)

    def soft_off(self) -> None:
        """Ask the system to shut down. A node that is not up has no running system."""
        self._go_down(OFF)

    def suspend(self) -> None:
        """Suspend a node that is up to memory. Raises NotSupported if its class has no standby."""
        self._go_down(STANDBY)

    def hard_off(self) -> None:
        """Cut the power, at once."""
        now_s = self.clock()
        self.node = advance(self.node, now_s)
        self._depth(OFF)
        if self.node.state != asleep(OFF):
            self.node = changed(self.node, now_s, state=asleep(OFF))

    def reset(self) -> None:
        """Reboot the node, as by a power cycle; a node without power does not change."""
        now_s = self.clock()
        self.node = advance(self.node, now_s)
        if self.node.state not in (asleep(OFF), asleep(STANDBY)):
            self._begin(coming_up(OFF), self._depth(OFF).leave, now_s)

    def _go_down(self, depth: int) -> None:
        now_s, enter = self.clock(), self._depth(depth).enter
        self.node = advance(self.node, now_s)
        if self.node.state == ACTIVE:
            self._begin(going_down(depth), enter, now_s)

    def _begin(self, state: int, transition: Transition, now_s: float) -> None:
        fails = self._failing or self.chance.random() < transition.failure_probability
        self._failing = False
        self.node = changed(self.node, now_s, state=state, until_s=now_s + transition.duration_s, fails=fails)

    def _depth(self, number: int) -> DepthPower:
        depth = self.node.node_class.find_depth(number)
        if depth is None:
            problem = f"{self.node.node_class.name}: this node class has no {DEPTHS[number]}"
            raise NotSupported(problem, hint="choose another class, such as server")
        return depth


@dataclass(frozen=True)
class BmcUser:
    """A user who may log in, up to a privilege level."""

    password: bytes = field(repr=False)
    privilege: int = ADMINISTRATOR


@dataclass(frozen=True)
class BmcFaults:
    """The faults of a BMC: no reply, a late or a wrong reply, an accepted order not executed, a foreign identity, a
    power limit that it accepts and does not keep, the host name of another node.
    """

    silent: bool = False
    delay_s: float = 0.0
    drops_commands: bool = False
    guid: uuid.UUID | None = None
    garbage: bool = False
    ignores_limit: bool = False
    host_name: str = ""


@dataclass
class LoginCount:
    """The number of logins that began, and of those that were accepted."""

    begun: int = 0
    accepted: int = 0

    @property
    def failed(self) -> int:
        """Logins that were not accepted, or not yet: most clients give up silently if its proof is wrong."""
        return self.begun - self.accepted


@dataclass(frozen=True)
class PowerLimit:
    """The power limit of DCMI: its settings as they were sent, and whether it is in force. The BMC accepts limits from
    `least_w` to `most_w`.
    """

    settings: bytes = bytes(11)
    active: bool = False
    least_w: int = 50
    most_w: int = 5000

    @property
    def limit_w(self) -> int:
        """The limit, also one that is not in force."""
        return int.from_bytes(self.settings[1:3], "little")


@dataclass
class VirtualBmc:
    """The BMC of one node. `orders` are the chassis control commands that reached it, with or without effect.

    `restore_policy` is its reaction when mains power returns (0 stay off, 1 as before, 2 on), `last_event` the bits of
    section 28.2, and `identify` whether its light blinks: 0 no, 1 for a while, 2 until told otherwise.
    """

    node: LiveNode
    users: Mapping[bytes, BmcUser]
    faults: BmcFaults = BmcFaults()
    logins: LoginCount = field(default_factory=LoginCount)
    orders: list[int] = field(default_factory=list)
    restore_policy: int = 1
    last_event: int = 0
    identify: int = 0
    power_limit: PowerLimit = field(default_factory=lambda: PowerLimit())

    @property
    def guid(self) -> uuid.UUID:
        """The identity that the BMC reports; the same at every start for a node of that name."""
        return self.faults.guid or uuid.uuid5(NAMESPACE, self.node.name)
