"""What a plan of the live queue is made from: the queue's facts, the nodes, the machine room, and caps on power."""

from dataclasses import dataclass

from offpeak.model.facility import Facility, PowerCap
from offpeak.model.step_series import Series
from offpeak.settings.plan import Revenue
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.scheduler.node import Node


@dataclass(frozen=True)
class Room:
    """The machine room: its cooling, what an idle node draws, and what a core-hour earns, in the prices' currency.

    `revenues` are those of accounts and QOS that earn more or less. `outside_c` stands for the temperature where no
    weather is known.
    """

    facility: Facility
    idle_w: float
    revenue_per_core_h: float
    outside_c: float
    revenues: tuple[Revenue, ...] = ()


@dataclass(frozen=True, eq=False)
class Sight:
    """All that is known at `queue.now_s`; `weather` is the outside temperature [degC], as far as it is known."""

    queue: QueueFacts
    rules: QueueRules
    nodes: tuple[Node, ...]
    shared_nodes: bool
    room: Room
    caps: tuple[PowerCap, ...] = ()
    weather: Series | None = None
