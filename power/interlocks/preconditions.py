"""Conditions that a node must meet before an order: opted in, not held or kept up, observed recently, enrolled, no job.

Power is never removed from a node on which the scheduler runs, or may soon run, a job; the scheduler is queried
directly before the order. An admin's hold refuses the orders of everybody else. The BMC at a node's address must be the
enrolled one, because after a repair it may belong to another node. A minimum of nodes stays on, and no node is put to
sleep while the state of too many is unknown; wake-ups are never refused for that.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from offpeak.door.door import LastRule, Limit, Rule, SharedCall
from offpeak.door.effect import ADMIN, Effect, Hold, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.machines.inventory import InventoryNode
from offpeak.model.constants import HOUR_S
from offpeak.model.orders import NodeOrder, NodeState, Order
from offpeak.plugin.scheduler.port import FindUses, NodeUses, use_of
from offpeak.power.drivers.port import BY_PACKET, PowerDriver, check_identity

HELD = "held"

KEPT_AWAKE = "contract"

STATES_BEFORE: dict[Order, set[NodeState]] = {
    # A BMC may ignore "on" while the host shuts down; then it is sent again.
    NodeOrder.ON: {NodeState.OFF, NodeState.STANDBY, NodeState.GOING_DOWN, NodeState.BOOTING},
    NodeOrder.STANDBY: {NodeState.ON},
    NodeOrder.SOFT_OFF: {NodeState.ON},
    # A hung node appears as booting or shutting down.
    NodeOrder.HARD_OFF: {NodeState.ON, NodeState.BOOTING, NodeState.GOING_DOWN},
}
"""The states in which an order makes sense."""


@dataclass(frozen=True)
class StateReading:
    """The state of a node, and when it was read."""

    state: NodeState
    at_unix_s: float


FindStateReading = Callable[[str], StateReading | None]
"""Returns the latest state of a node, None before its first poll."""


def is_fresh(reading: StateReading | None, now_unix_s: float, fresh_s: float) -> bool:
    """Whether the state is known and was read within `fresh_s`. A time in the future does not count."""
    return (
        reading is not None
        and reading.state != NodeState.UNKNOWN
        and now_unix_s - fresh_s <= reading.at_unix_s <= now_unix_s
    )


def require_opt_in(nodes: Collection[str]) -> Limit:
    """Refuse orders to all other nodes."""

    def refuse(effect: Effect) -> Refusal | None:
        if effect.subject in nodes:
            return None
        return Refusal("opted_in", f"{effect.subject}: is not managed by offpeak", "add it to nodes below [agent]")

    return refuse


def refuse_held(hold_of: Callable[[str], Hold | None], clock: Callable[[], float]) -> Limit:
    """Refuse while another owner holds the node; `clock` returns Unix time."""

    def refuse(effect: Effect) -> Refusal | None:
        hold = hold_of(effect.subject)
        if hold is None or not hold.lasts(clock()) or effect.by == f"{ADMIN}{hold.owner}":
            return None
        message = f"{effect.subject}: {hold.owner} holds it: {hold.reason}"
        return Refusal(HELD, message, f"ask {hold.owner}, then: offpeak nodes {effect.subject} release")

    return refuse


def refuse_kept_awake(setting_of: Callable[[str], str | None]) -> Limit:
    """Refuse to take power from a node that must stay up by the scheduler's configuration; a wake-up is not refused."""

    def refuse(effect: Effect) -> Refusal | None:
        setting = setting_of(effect.subject) if effect.takes_power_away else None
        if setting is None:
            return None
        message = f"{effect.subject}: the scheduler's configuration keeps it up: {setting}"
        return Refusal(KEPT_AWAKE, message, "offpeak check")

    return refuse


def require_fresh_state(reading_of: FindStateReading, clock: Callable[[], float], fresh_s: float) -> Limit:
    """Refuse unless the node was observed within `fresh_s`, in a state in which the order makes sense."""
    return lambda effect: check_state(effect, reading_of(effect.subject), clock(), fresh_s)


def check_state(effect: Effect, reading: StateReading | None, now_unix_s: float, fresh_s: float) -> Refusal | None:
    """Return the refusal of an order to a node with this latest state, None if it passes."""
    node = effect.subject
    if reading is None or reading.state == NodeState.UNKNOWN:
        return Refusal("observed_fresh", f"{node}: its state is not known", f"offpeak check {node}")
    if not is_fresh(reading, now_unix_s, fresh_s):
        age_s = now_unix_s - reading.at_unix_s
        when = "later than the clock says now" if age_s < 0 else f"{age_s:,.0f} s ago"
        return Refusal("observed_fresh", f"{node}: its state was read {when}", "it is read again in the next sweep")
    if reading.state not in STATES_BEFORE.get(effect.order, ()):
        return Refusal("observed_fresh", f"{node}: is {reading.state}: {effect.order} has no effect")
    return None


def require_identity(machine_of: Callable[[str], InventoryNode], bmc_of: Callable[[str], PowerDriver]) -> Rule:
    """Query the BMC and refuse if it is not the enrolled one. This includes standby: the BMC must wake the node.

    A wake-on-LAN packet addresses one network card and needs no BMC, but the node must be enrolled.
    """

    async def refuse(effect: Effect) -> Refusal | None:
        enrolled = machine_of(effect.subject).enrolled
        if enrolled is None:
            hint = f"offpeak enroll {effect.subject}"
            return Refusal("identity", f"{effect.subject}: its BMC is not enrolled", hint)
        if effect.takes_power_away or effect.way != BY_PACKET:
            await check_identity(bmc_of(effect.subject), enrolled)
        return None

    return refuse


def require_proven_standby(machine_of: Callable[[str], InventoryNode | None]) -> Limit:
    """Refuse a standby unless the standby test of this node has proven it, in the sleep state of the inventory."""

    def refuse(effect: Effect) -> Refusal | None:
        machine = machine_of(effect.subject)
        if effect.order != NodeOrder.STANDBY or machine is None or machine.usable_method(NodeOrder.STANDBY):
            return None
        hint = f"drain it, then: offpeak enroll {effect.subject} --standby-test"
        return Refusal("proven", f"{effect.subject}: its standby is not proven", hint)

    return refuse


def require_no_job(find_uses: FindUses, steady: Callable[[], float]) -> LastRule:
    """Refuse orders that remove power unless the node is free; an error of `find_uses` becomes the door's refusal.

    Nodes whose orders are ready at the same time share a query, which begins once all of them are closed and ready.
    """
    query = SharedCall[str, tuple[float, NodeUses]](lambda nodes: (steady(), find_uses(nodes)))

    async def refuse(effect: Effect) -> Refusal | float:
        if not effect.takes_power_away:
            return steady()
        begun_s, uses = await query.join(effect.subject)
        if not (used := use_of(effect.subject, uses)):
            return begun_s
        hint = f"close it to jobs and wait until it has none: under Slurm `scontrol update nodename={effect.subject}"
        hint += " state=drain reason=offpeak`, under Torque `pbsnodes -o`, under OpenPBS `qmgr -c 'set node'`"
        return Refusal("no_job_now", f"{effect.subject}: {used}", hint)

    return refuse


class AvailabilityLimits:
    """Limits by the number of opted-in nodes that are on or unknown."""

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
        """Refuse orders that remove power if fewer nodes than `least` would be left on.

        A node counts as on if it was recently observed on, is not held, and its last order within an hour was not a
        shutdown, which it may still follow.
        """

        def refuse(effect: Effect) -> Refusal | None:
            if not effect.takes_power_away or least == 0:
                return None
            latest: dict[str, bool] = {}
            for entry in history.within(HOUR_S):
                latest.setdefault(entry.effect.subject, entry.effect.takes_power_away)
            going = {node for node, down in latest.items() if down}
            left = sum(self._is_on(node) for node in self._nodes if node != effect.subject and node not in going)
            if left >= least:
                return None
            message = f"{effect.subject}: {left} nodes would be left on, {least} must be"
            return Refusal("min_on", message, "min_on below [agent] is the bound")

        return refuse

    def not_too_many_unknown(self, percent: float) -> Limit:
        """Refuse orders that remove power if the state of more than this share of nodes is unknown."""

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
