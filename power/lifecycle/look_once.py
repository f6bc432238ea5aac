"""Looks at nodes once, for a command: what each is now. Nothing is ordered."""

import random
import time
from collections.abc import Mapping, Sequence

from offpeak.errors import BadInventory, NotSupported
from offpeak.machines.inventory import InventoryNode
from power.drivers.port import Observed, PowerState
from power.drivers.wire import Wire
from power.lifecycle.decide import Lives, Rules, after_look
from power.lifecycle.events import Looked
from power.lifecycle.life import NodeLife, Now
from power.lifecycle.lookout import lookout_of
from power.lifecycle.sweep import look
from power.lifecycle.terms import Terms

LONGEST_S = 60.0


async def look_once(
    machines: Sequence[InventoryNode], lives: Mapping[str, NodeLife], wire: Wire
) -> Mapping[str, NodeLife]:
    """Return the lives after one look; UNKNOWN, with what is wrong, also for a node that has no way to be asked."""
    no_way = {each.node: trouble for each in machines if (trouble := _no_way(each, wire))}
    lookout = lookout_of([each for each in machines if each.node not in no_way], wire)
    looks = await look(lookout, Lives(lives), clock=lambda: now_of(wire), timeout_s=LONGEST_S)
    now = now_of(wire)
    unknown = {node: Looked(Observed(PowerState.UNKNOWN, now.unix_s, trouble)) for node, trouble in no_way.items()}
    rules = Rules({each.node: each for each in machines}, Terms(machines[0].hardware, random.Random()))
    return after_look(Lives(lives), looks | unknown, {}, now, rules).nodes


def now_of(wire: Wire) -> Now:
    """Return the present instant, of the wall by the wire's clock."""
    return Now(time.monotonic(), wire.clock())


def _no_way(machine: InventoryNode, wire: Wire) -> NotSupported | None:
    try:
        lookout_of([machine], wire)
    except BadInventory as problem:
        return NotSupported(str(problem), hint=problem.hint)
    return None
