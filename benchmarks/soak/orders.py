"""Orders to random nodes, like those of an agent: only if the state is known, and after an identity check."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.soak.faults import Faults
from benchmarks.soak.site import Look, Site
from benchmarks.soak.truth import Truth
from offpeak.errors import DeviceError
from offpeak.machines.inventory import Enrolment
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.port import check_identity

OFTEN = 0.5
"""The share of sweeps with an order."""


@dataclass
class Orders:
    """Gives orders, and counts them by node."""

    enrolled: Mapping[str, Enrolment]
    chance: random.Random
    given: Counter[str] = field(default_factory=Counter)

    async def perhaps_give(self, site: Site, look: Look, faults: Faults) -> str:
        """Send an order by chance; return its error, "" for none."""
        known = [node for node, seen in look.states.items() if seen.state is not PowerState.UNKNOWN]
        if not known or self.chance.random() > OFTEN:
            return ""
        node, order = self.chance.choice(known), self.chance.choice((NodeOrder.ON, NodeOrder.SOFT_OFF))
        error = await self._error_of(site, node, order)
        fault = faults.get(node, "")
        if fault == "exchanged" and error is None:
            return f"{node}: {order} went to another BMC than was enrolled"
        return f"{node}, well: {order} refused: {error}" if error and not fault else ""

    def surplus_orders(self, truth: Truth) -> Iterator[str]:
        """Yield the nodes whose BMC received more orders than were sent."""
        for node, each in truth.nodes.items():
            if each.orders > self.given[node]:
                yield f"{node}: {each.orders} orders reached its BMC, but {self.given[node]} were given"

    async def _error_of(self, site: Site, node: str, order: NodeOrder) -> DeviceError | None:
        try:
            await check_identity(site.drivers[node], self.enrolled[node])
            self.given[node] += 1
            await site.drivers[node].send(order)
        except DeviceError as error:
            return error
        return None
