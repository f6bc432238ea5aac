"""Orders to nodes: the door with all interlocks, and the only function of the program that makes a driver send.

After a crash `reconcile` reads the state of each node whose order has no outcome, and writes the outcome; it never
resends an order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from offpeak.door.door import Confirm, Door, Guard, Limit
from offpeak.door.effect import Effect, Hold, Mode, ModeOf, Outcome, Refusal
from offpeak.door.journal import EffectHistory, Intent, Journal
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.clock import boot_s
from offpeak.model.node_class_file import node_class_named
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.port import FindUses
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.interlocks import preconditions, rate_limits
from offpeak.settings.agent import AgentSettings

IS_READ_ANEW = Outcome("interrupted", "the scheduler is read again, and caps are removed")

ReadState = Callable[[str], Awaitable[preconditions.StateReading]]
"""Reads the current state of a node, UNKNOWN if it cannot be read."""


@dataclass(frozen=True)
class InterlockContext:
    """The inputs of the rules: the machines, the latest node states, the holds, the scheduler.

    `clock` is Unix time. Limits use `steady`, a monotonic clock. `answer_clock` ages the scheduler's answers.
    `kept_awake` returns which setting of the scheduler keeps a node up, None if none does.
    """

    inventory: Inventory
    ways: DriverPool
    reading_of: preconditions.FindStateReading
    clock: Callable[[], float]
    hold_of: Callable[[str], Hold | None]
    find_uses: FindUses
    steady: Callable[[], float] = boot_s
    answer_clock: Callable[[], float] = boot_s
    kept_awake: Callable[[str], str | None] = lambda _: None

    @property
    def machines(self) -> dict[str, InventoryNode]:
        """The machines by name."""
        return {machine.node: machine for machine in self.inventory.machines}


class NodeOrders:
    """Sends orders to the nodes of a site through its own door."""

    def __init__(self, door: Door, ways: DriverPool) -> None:
        self.door, self._ways = door, ways

    async def order(self, effect: Effect, before_sending: Callable[[], None] = lambda: None) -> Outcome | Refusal:
        """Carry out the order of the effect and return the outcome, or a refusal if a rule refused it and nothing was
        sent.

        `before_sending` is called after all rules have passed.
        """
        return await self.door.let_through_prepared(effect, partial(self._act, effect, before_sending))

    async def _act(self, effect: Effect, before_sending: Callable[[], None], confirm: Confirm) -> str:
        driver = self._ways.for_effect(effect)

        async def confirmed() -> Guard:
            guard = await confirm()
            before_sending()
            return guard

        assert isinstance(effect.order, NodeOrder)
        await driver.send(effect.order, confirmed)
        return f"accepted by {driver.name}"


def make_node_orders(
    settings: AgentSettings, site: InterlockContext, journal: Journal, mode_of: ModeOf | None = None
) -> NodeOrders:
    """Return the orders to the nodes of a site, with all rules. Raises BadInput if the settings name unknown nodes.

    The journal's entries of the last day count for the limits; errors of the journal are raised. The mode is that of
    the settings unless `mode_of` returns one.
    """
    history = EffectHistory.of(journal, site.clock(), site.steady)
    mode = Mode(settings.mode)
    door = Door(
        mode_of or (lambda _: mode),
        journal=journal,
        clock=site.clock,
        rules=(("identity", preconditions.require_identity(site.machines.__getitem__, site.ways.bmc_of)),),
        last=(("no_job_now", preconditions.require_no_job(site.find_uses, site.answer_clock)),),
        limits=_list_limits(settings, site, history),
        history=history,
        steady=site.answer_clock,
    )
    return NodeOrders(door, site.ways)


def _list_limits(
    settings: AgentSettings, site: InterlockContext, history: EffectHistory
) -> tuple[tuple[str, Limit], ...]:
    nodes = frozenset(node.node for node in site.inventory.chosen(expand(settings.nodes))) if settings.nodes else ()
    enough = preconditions.AvailabilityLimits(nodes, site.reading_of, site.hold_of, site.clock, settings.fresh_s)
    terms = rate_limits.BreakerTerms(settings.breaker_failures, settings.breaker_orders, settings.breaker_pause_s)
    breaker = rate_limits.Breaker(history, terms, site.ways.needed)
    ramp = rate_limits.limit_ramps(
        history, find_power_steps(site.inventory).get, sleep_w=settings.sleep_ramp_w, wake_w=settings.wake_ramp_w
    )
    return (
        ("opted_in", preconditions.require_opt_in(nodes)),
        (preconditions.HELD, preconditions.refuse_held(site.hold_of, site.clock)),
        (preconditions.KEPT_AWAKE, preconditions.refuse_kept_awake(site.kept_awake)),
        ("proven", preconditions.require_proven_standby(site.machines.get)),
        ("observed_fresh", preconditions.require_fresh_state(site.reading_of, site.clock, settings.fresh_s)),
        ("refused_login", breaker.for_login),
        ("breaker", breaker.for_all),
        ("unknown_nodes", enough.not_too_many_unknown(settings.unknown_percent)),
        ("min_on", enough.min_on(history, settings.min_on)),
        ("just_ordered", rate_limits.pause_after_order(history)),
        ("cycles_per_day", rate_limits.limit_cycles_per_day(history, settings.cycles_per_day)),
        ("per_sweep", rate_limits.limit_per_sweep(history, settings.nodes_per_sweep)),
        ("per_hour", rate_limits.limit_per_hour(history, settings.nodes_per_hour)),
        ("wakes", rate_limits.limit_wakes(history, settings.wakes_per_min)),
        (
            "per_rack",
            rate_limits.limit_per_rack(history, rate_limits.find_groups(site.inventory), settings.rack_nodes_per_min),
        ),
        ("ramp", ramp),
    )


def find_power_steps(inventory: Inventory) -> Mapping[str, rate_limits.PowerStep]:
    """Return by how much each node's wake-up and shutdown change the power, for nodes with a known class."""
    kind_of = {machine.node: machine.hardware.node_class for machine in inventory.machines}
    power_steps = {kind: rate_limits.power_step_of_class(node_class_named(kind)) for kind in kind_of.values() if kind}
    return {node: power_steps[kind] for node, kind in kind_of.items() if kind}


async def reconcile(
    journal: Journal, look_at: ReadState, clock: Callable[[], float]
) -> tuple[tuple[Intent, Outcome], ...]:
    """Add an outcome to every intent without one, by the current state of its node, and return both. Sends nothing.

    The effect of an order to the scheduler is read from it in each cycle anyway, and each cap has a record of its own.

    The desired states then follow from the observations, as after any other sweep.
    """
    intents = journal.unfinished()
    nodes = tuple(dict.fromkeys(intent.effect.subject for intent in intents if intent.effect.is_to_node))
    seen = dict(zip(nodes, await asyncio.gather(*map(look_at, nodes)), strict=True))
    ends = tuple(
        (intent, make_outcome(seen[intent.effect.subject]) if intent.effect.is_to_node else IS_READ_ANEW)
        for intent in intents
    )
    for intent, outcome in ends:
        journal.write_outcome(intent.number, outcome, clock())
    return ends


def make_outcome(reading: preconditions.StateReading) -> Outcome:
    """Return the outcome of an order that may or may not have been sent."""
    state = "in an unknown state" if reading.state == NodeState.UNKNOWN else reading.state
    return Outcome("interrupted", f"found {state} after a restart")
