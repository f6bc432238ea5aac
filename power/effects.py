"""Orders to nodes: the one function of the program that lets a driver send, and hands that to the door."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from offpeak.door.door import Confirm, Door, Guard, LastRule, Limit, Rule
from offpeak.door.effect import Effect, Hold, Mode, ModeOf, Outcome, Refusal
from offpeak.door.journal import EffectHistory, Journal
from offpeak.machines.inventory import Inventory
from offpeak.machines.node_sets import expand
from offpeak.model.node_class_file import node_class_named
from offpeak.settings.agent import AgentSettings
from power.drivers.port import Order
from power.interlocks.breaker import Breaker, BreakerTerms
from power.interlocks.counts import cycles_per_day, groups_of, just_ordered, per_hour, per_rack, per_sweep, wakes
from power.interlocks.enough_on import EnoughOn
from power.interlocks.held import HELD, held
from power.interlocks.identity import identity
from power.interlocks.no_job_now import InUse, no_job_now
from power.interlocks.observed_fresh import observed_fresh
from power.interlocks.opted_in import opted_in
from power.interlocks.ramp import Swing, ramps, swing_of_class
from power.interlocks.sighting import SightingOf
from power.ways import Ways


@dataclass(frozen=True)
class Site:
    """What the rules ask of the world: machines, the latest sightings, holds, the scheduler.

    `clock` is Unix time; limits count by `steady`, seconds that only ever grow. The scheduler's answers age by
    `answer_clock`, in real seconds.
    """

    inventory: Inventory
    ways: Ways
    sighting_of: SightingOf
    clock: Callable[[], float]
    hold_of: Callable[[str], Hold | None]
    in_use: InUse
    steady: Callable[[], float] = time.monotonic
    answer_clock: Callable[[], float] = time.monotonic


class NodeOrders:
    """Gives orders to the nodes of a site through a door of its own."""

    def __init__(self, door: Door, ways: Ways) -> None:
        self.door, self._ways = door, ways

    async def order(self, effect: Effect, before_sending: Callable[[], None] = lambda: None) -> Outcome | Refusal:
        """Return what became of an order, which the effect names; nothing was sent if a rule has refused it.

        `before_sending` is called once nothing refuses it any more.
        """
        return await self.door.let_through_prepared(effect, partial(self._act, effect, before_sending))

    async def _act(self, effect: Effect, before_sending: Callable[[], None], confirm: Confirm) -> str:
        driver = self._ways.for_effect(effect)

        async def confirmed() -> Guard:
            guard = await confirm()
            before_sending()
            return guard

        await driver.send(Order(effect.order), confirmed)
        return f"accepted by {driver.name}"


def node_orders(settings: AgentSettings, site: Site, journal: Journal, mode_of: ModeOf | None = None) -> NodeOrders:
    """Return the way to the nodes of a site, all rules on; BadInput where the settings name no nodes that there are.

    What the journal knows of the last day counts for the limits; whatever error the journal raises. The mode is that
    of the settings unless `mode_of` gives one.
    """
    history = EffectHistory.of(journal, site.clock(), site.steady)
    mode = Mode(settings.mode)
    door = Door(
        mode_of or (lambda _: mode),
        journal=journal,
        clock=site.clock,
        rules=_rules(site),
        last=_last_rules(site),
        limits=_limits(settings, site, history),
        history=history,
        steady=site.answer_clock,
    )
    return NodeOrders(door, site.ways)


def _rules(site: Site) -> tuple[tuple[str, Rule], ...]:
    machines = {machine.node: machine for machine in site.inventory.machines}
    return (("identity", identity(machines.__getitem__, site.ways.bmc_of)),)


def _last_rules(site: Site) -> tuple[tuple[str, LastRule], ...]:
    return (("no_job_now", no_job_now(site.in_use, site.answer_clock)),)


def _limits(settings: AgentSettings, site: Site, history: EffectHistory) -> tuple[tuple[str, Limit], ...]:
    nodes = frozenset(each.node for each in site.inventory.chosen(expand(settings.nodes))) if settings.nodes else ()
    enough = EnoughOn(nodes, site.sighting_of, site.hold_of, site.clock, settings.fresh_s)
    terms = BreakerTerms(settings.breaker_failures, settings.breaker_orders, settings.breaker_pause_s)
    breaker = Breaker(history, terms, site.ways.needed)
    ramp = ramps(history, swings_of(site.inventory).get, sleep_w=settings.sleep_ramp_w, wake_w=settings.wake_ramp_w)
    return (
        ("opted_in", opted_in(nodes)),
        (HELD, held(site.hold_of, site.clock)),
        ("observed_fresh", observed_fresh(site.sighting_of, site.clock, settings.fresh_s)),
        ("refused_login", breaker.for_login),
        ("breaker", breaker.for_all),
        ("unknown_nodes", enough.not_too_many_unknown(settings.unknown_percent)),
        ("min_on", enough.min_on(history, settings.min_on)),
        ("just_ordered", just_ordered(history)),
        ("cycles_per_day", cycles_per_day(history, settings.cycles_per_day)),
        ("per_sweep", per_sweep(history, settings.nodes_per_sweep)),
        ("per_hour", per_hour(history, settings.nodes_per_hour)),
        ("wakes", wakes(history, settings.wakes_per_min)),
        ("per_rack", per_rack(history, groups_of(site.inventory), settings.rack_nodes_per_min)),
        ("ramp", ramp),
    )


def swings_of(inventory: Inventory) -> Mapping[str, Swing]:
    """Return how much each node's waking and going down change the draw, of those whose class is known."""
    kinds = {machine.hardware.node_class for machine in inventory.machines}
    swings = {kind: swing_of_class(node_class_named(kind)) for kind in kinds if kind}
    return {
        machine.node: swings[machine.hardware.node_class]
        for machine in inventory.machines
        if machine.hardware.node_class
    }
