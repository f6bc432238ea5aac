"""Conditions that a node has to meet before an order: opted in, not held, observed lately, enrolled, without a job.

Power is taken from no node that the scheduler has, or may soon have, a job on; the scheduler is queried directly before
the order. An admin's hold overrides everything but the admin who holds. The BMC at a node's address has to be the
enrolled one: since a repair it may be that of another node. So many nodes stay on, and none is put to sleep while the
state of too many is unknown; wakes are never refused for that.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from offpeak.door.door import LastRule, Limit, Rule
from offpeak.door.effect import ADMIN, Effect, Hold, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.machines.inventory import InventoryNode
from offpeak.model.constants import HOUR_S
from offpeak.model.orders import NodeOrder, NodeState, Order
from power.drivers.port import BY_PACKET, PowerDriver, check_identity


@dataclass(frozen=True)
class StateReading:
    """The state of a node, and when it was read."""

    state: NodeState
    at_unix_s: float


FindStateReading = Callable[[str], StateReading | None]
"""The latest state of a node, None before its first poll."""


def is_fresh(reading: StateReading | None, now_unix_s: float, fresh_s: float) -> bool:
    """Whether the state is known and was read within `fresh_s`. A time ahead of the clock does not count."""
    return (
        reading is not None
        and reading.state != NodeState.UNKNOWN
        and now_unix_s - fresh_s <= reading.at_unix_s <= now_unix_s
    )


def require_opt_in(nodes: Collection[str]) -> Limit:
    """Refuse for every node but these."""

    def refuse(effect: Effect) -> Refusal | None:
        if effect.subject in nodes:
            return None
        return Refusal("opted_in", f"{effect.subject}: is not ours to touch", "add it to nodes below [agent]")

    return refuse


HELD = "held"


def refuse_held(hold_of: Callable[[str], Hold | None], clock: Callable[[], float]) -> Limit:
    """Refuse while another owner holds the node, by the clock of Unix times."""

    def refuse(effect: Effect) -> Refusal | None:
        hold = hold_of(effect.subject)
        if hold is None or not hold.lasts(clock()) or effect.by == f"{ADMIN}{hold.owner}":
            return None
        message = f"{effect.subject}: {hold.owner} holds it: {hold.reason}"
        return Refusal(HELD, message, f"ask {hold.owner}, then: offpeak node {effect.subject} release")

    return refuse


STATES_BEFORE: dict[Order, set[NodeState]] = {
    # A BMC may drop an "on" while the host shuts down, and it is sent again.
    NodeOrder.ON: {NodeState.OFF, NodeState.STANDBY, NodeState.GOING_DOWN, NodeState.BOOTING},
    NodeOrder.STANDBY: {NodeState.ON},
    NodeOrder.SOFT_OFF: {NodeState.ON},
    # What hangs is only known as on its way.
    NodeOrder.HARD_OFF: {NodeState.ON, NodeState.BOOTING, NodeState.GOING_DOWN},
}
"""The states in which an order makes sense."""


def require_fresh_state(reading_of: FindStateReading, clock: Callable[[], float], fresh_s: float) -> Limit:
    """Refuse unless the node was seen within `fresh_s`, in a state from which the order leads somewhere."""
    return lambda effect: check_state(effect, reading_of(effect.subject), clock(), fresh_s)


def check_state(effect: Effect, reading: StateReading | None, now_unix_s: float, fresh_s: float) -> Refusal | None:
    """Return the refusal of an order for a node that was last seen so."""
    node = effect.subject
    if reading is None or reading.state == NodeState.UNKNOWN:
        return Refusal("observed_fresh", f"{node}: its state is not known", f"offpeak check {node}")
    if not is_fresh(reading, now_unix_s, fresh_s):
        age_s = now_unix_s - reading.at_unix_s
        when = "later than the clock says now" if age_s < 0 else f"{age_s:,.0f} s ago"
        return Refusal("observed_fresh", f"{node}: its state was read {when}", "it is read again in the next sweep")
    if reading.state not in STATES_BEFORE.get(effect.order, ()):
        return Refusal("observed_fresh", f"{node}: is {reading.state}: {effect.order} makes no sense")
    return None


def require_identity(machine_of: Callable[[str], InventoryNode], bmc_of: Callable[[str], PowerDriver]) -> Rule:
    """Refuse if the BMC is not the enrolled one, by a query now. Standby needs it, too: the BMC has to wake the node.

    A packet that wakes is meant for one network card and needs no BMC, but the node has to be enrolled.
    """

    async def refuse(effect: Effect) -> Refusal | None:
        enrolled = machine_of(effect.subject).enrolled
        if enrolled is None:
            hint = f"offpeak enroll {effect.subject}"
            return Refusal("identity", f"{effect.subject}: nobody has enrolled its BMC", hint)
        if effect.takes_power_away or effect.way != BY_PACKET:
            await check_identity(bmc_of(effect.subject), enrolled)
        return None

    return refuse


InUse = Callable[[str], str]
"""Return why a node is not free, "" if it is; raises if that is unknown. It blocks until the scheduler replies."""


def require_no_job(in_use: InUse, steady: Callable[[], float]) -> LastRule:
    """Refuse what takes power away unless the node is free; what `in_use` raises is the door's refusal."""

    async def refuse(effect: Effect) -> Refusal | float:
        if not effect.takes_power_away:
            return steady()

        def ask() -> tuple[float, str]:
            return steady(), in_use(effect.subject)

        begun_s, used = await asyncio.to_thread(ask)
        if not used:
            return begun_s
        hint = f"close it to jobs and wait until it has none: under Slurm `scontrol update nodename={effect.subject}"
        hint += " state=drain reason=offpeak`, under Torque `pbsnodes -o`, under OpenPBS `qmgr -c 'set node'`"
        return Refusal("no_job_now", f"{effect.subject}: {used}", hint)

    return refuse


class AvailabilityLimits:
    """Counts nodes, all of them those that were opted in."""

    def __init__(
        self,
        nodes: Collection[str],
        reading_of: FindStateReading,
        hold_of: Callable[[str], Hold | None],
        clock: Callable[[], float],
        fresh_s: float,
    ) -> None:
        self._nodes, self._reading_of, self._hold_of = nodes, reading_of, hold_of
        self._clock, self._fresh_s = clock, fresh_s

    def min_on(self, history: EffectHistory, least: int) -> Limit:
        """Refuse what takes power away where fewer nodes than `least` would be left on.

        Left on is what was seen on lately, what nobody holds, and what was not told within an hour, as its last order,
        to go down: it may still do so.
        """

        def refuse(effect: Effect) -> Refusal | None:
            if not effect.takes_power_away or least == 0:
                return None
            going = _find_going_down(history)
            left = sum(self._is_on(node) for node in self._nodes if node != effect.subject and node not in going)
            if left >= least:
                return None
            message = f"{effect.subject}: {left} nodes would be left on, {least} have to be"
            return Refusal("min_on", message, "min_on below [agent] is the bound")

        return refuse

    def not_too_many_unknown(self, percent: float) -> Limit:
        """Refuse what takes power away where the state of more than this share of nodes is not known."""

        def refuse(effect: Effect) -> Refusal | None:
            if not effect.takes_power_away:
                return None
            unknown = sum(not self._is_known(node) for node in self._nodes)
            if unknown * 100 <= percent * len(self._nodes):
                return None
            message = f"{effect.subject}: the state of {unknown} of {len(self._nodes)} nodes is not known"
            return Refusal("unknown_nodes", message, "is the network down? offpeak check")

        return refuse

    def _is_on(self, node: str) -> bool:
        reading, now_unix_s = self._reading_of(node), self._clock()
        if reading is None or reading.state != NodeState.ON or not is_fresh(reading, now_unix_s, self._fresh_s):
            return False
        hold = self._hold_of(node)
        return hold is None or not hold.lasts(now_unix_s)

    def _is_known(self, node: str) -> bool:
        reading = self._reading_of(node)
        return reading is not None and reading.state != NodeState.UNKNOWN


def _find_going_down(history: EffectHistory) -> set[str]:
    latest: dict[str, bool] = {}
    for entry in history.within(HOUR_S):
        latest.setdefault(entry.effect.subject, entry.effect.takes_power_away)
    return {node for node, down in latest.items() if down}
