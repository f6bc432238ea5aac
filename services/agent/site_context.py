"""The context of the agent, made from its settings: the site, the modes of its partitions, and the doors for effects.

When the settings are read again, all objects are recreated. The mode says which effects on a partition the door allows:
the mode of the settings, or the partition's own mode. The agent and the commands that run without it open the doors
here; no door exists without its rules.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo

from offpeak.door.effect import Effect, Hold, Mode, ModeOf
from offpeak.errors import BadInput, BadSetting
from offpeak.files import is_there
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.model.clock import Clock
from offpeak.model.facility import facility_named
from offpeak.model.flexibility import FlexibilityRules
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.model.weighing import check_carbon, parse_weighing
from offpeak.plugin.scheduler.job import HOLDING, Job
from offpeak.plugin.scheduler.port import Scheduler, SchedulerView
from offpeak.plugin.scheduler.registry import scheduler_of
from offpeak.plugin.window_policy import PolicyProcess
from offpeak.power.capacity.registry import check_policy_name
from offpeak.power.door.cap_orders import CapDevices, CapOrders, CapRecords, make_cap_door
from offpeak.power.door.node_orders import InterlockContext, NodeOrders, make_node_orders
from offpeak.power.door.scheduler_orders import SchedulerOrders, find_partitions, make_scheduler_door
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import FindStateReading
from offpeak.power.lifecycle.sweep import NodePoller, make_poller
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.price_forecast import PriceSource
from offpeak.predictors.site_sources import build_carbon_source, build_price_source
from offpeak.prices.peak import PeakRule, parse_peak_rule
from offpeak.services.agent.observer import Observer, PriceSection
from offpeak.services.agent.requests import Callers, find_callers
from offpeak.settings.agent import AgentSettings
from offpeak.settings.table import Settings
from offpeak.text import did_you_mean

FindHold = Callable[[str], Hold | None]
"""Gives the hold of a node, None if it has none."""
BY_OPENNESS = (Mode.SHADOW, Mode.ADVISE, Mode.ACTIVE)


@dataclass(frozen=True)
class PartitionModes:
    """The mode of each partition: that in `own`, else `usual`.

    `may_rank`: the policy of the queue may change its order where the mode is active. An own policy may not until the
    site allows it.
    """

    usual: Mode
    own: Mapping[str, Mode]
    may_rank: bool = True

    def of(self, partitions: Iterable[str]) -> Mode:
        """Return the least open mode of these partitions, the usual one if there are none."""
        modes = [self.own.get(partition, self.usual) for partition in partitions] or [self.usual]
        return min(modes, key=BY_OPENNESS.index)

    @property
    def in_use(self) -> frozenset[Mode]:
        """The usual mode, and those of single partitions."""
        return frozenset((self.usual, *self.own.values()))

    def of_order(self, partitions: Iterable[str]) -> Mode:
        """Return the mode for the order of the queue of these partitions."""
        return self.of(partitions) if self.may_rank else Mode.SHADOW

    def narrowed(self, other: "PartitionModes") -> "PartitionModes":
        """Return the less open mode of both for each partition."""
        merged = self._merged(other, lambda *modes: min(modes, key=BY_OPENNESS.index))
        return replace(merged, may_rank=self.may_rank and other.may_rank)

    def widened(self, other: "PartitionModes") -> "PartitionModes":
        """Return the more open mode of both for each partition."""
        merged = self._merged(other, lambda *modes: max(modes, key=BY_OPENNESS.index))
        return replace(merged, may_rank=self.may_rank or other.may_rank)

    def _merged(self, other: "PartitionModes", choose: Callable[[Mode, Mode], Mode]) -> "PartitionModes":
        own = {name: choose(self.of((name,)), other.of((name,))) for name in (*self.own, *other.own)}
        return PartitionModes(choose(self.usual, other.usual), own)


def parse_modes(settings: AgentSettings) -> PartitionModes:
    """Return the modes of the settings. Raises BadSetting for a partition without a mode, or with an unknown one."""
    own: dict[str, Mode] = {}
    for text in settings.partition_modes or ():
        partition, _, mode = text.partition("=")
        if not partition or mode not in tuple(Mode):
            hint = did_you_mean(mode, tuple(Mode)) if mode else 'write it like ["debug=shadow"]'
            raise BadSetting(f"agent.partition_modes: {text!r} names no partition and its mode", hint=hint)
        own[partition] = Mode(mode)
    return PartitionModes(Mode(settings.mode), own, may_rank=not settings.own_policy_is_shadowed)


CLOCK = Clock()


@dataclass(frozen=True)
class SiteContext:
    """The site of the settings: `by_name` are all machines, `machines` those that may be switched, by name.

    `zone` is the time zone of its prices, `class_of` are node classes by the names of hardware, and `clock` is the
    clock of cycles and waits. `own_policy` is None if a built-in policy orders the queue. A trial leaves the queue of
    `untouched` partitions alone now, and lets no node of the `awake_partitions` sleep.
    """

    settings: Settings
    modes: PartitionModes
    inventory: Inventory
    by_name: Mapping[str, InventoryNode]
    machines: Mapping[str, InventoryNode]
    scheduler: Scheduler
    transport: Transport
    drivers: DriverPool
    poller: NodePoller
    prices: PriceSource
    carbon: Feed | float | None
    peak_rule: PeakRule
    zone: tzinfo
    callers: Callers
    class_of: Mapping[str, NodeClass]
    clock: Clock = CLOCK
    own_policy: PolicyProcess | None = None
    untouched: frozenset[str] = frozenset()
    awake_partitions: frozenset[str] = frozenset()

    @property
    def flexibility(self) -> FlexibilityRules:
        """What jobs allow by their hints, or by those of their QOS or partition."""
        return replace(self.settings.flexibility.rules(self.zone), untouched=self.untouched)

    @property
    def price_section(self) -> PriceSection:
        """What is needed to read prices."""
        longest_delay_s = self.settings.agent.longest_delay_s
        weighing = parse_weighing(self.settings.prices.decide_by)
        return PriceSection(self.prices, self.carbon, self.peak_rule, self.zone, longest_delay_s, weighing)

    def node_class(self, node: str) -> NodeClass | None:
        """Return the class of a node, None if none is set."""
        machine = self.by_name.get(node)
        return None if machine is None else self.class_of.get(machine.hardware.name)

    async def close(self) -> None:
        """Log out of all devices, and end the process of an own policy."""
        if self.own_policy is not None:
            await asyncio.to_thread(self.own_policy.close)
        await self.drivers.close()
        await self.transport.close()
        # The sessions that drivers share are closed by now.
        await self.poller.close()


def make_site_context(settings: Settings, clock: Clock = CLOCK) -> SiteContext:
    """Return the context. Raises BadInput, with what to correct, if the settings or the inventory cannot be used."""
    check_policy_name(settings.agent.capacity, to_limit=settings.agent.limit_capacity)
    if settings.plan.facility:
        # Refuse a wrong facility at the start, not in each round.
        facility_named(settings.plan.facility, full_power_w=1.0)
    path = settings.hardware.inventory
    # A site that switches no nodes needs no inventory: its queue can be ordered without.
    inventory = Inventory(path) if settings.agent.nodes is None and not is_there(path) else read_inventory(path)
    chosen = inventory.chosen(expand(settings.agent.nodes)) if settings.agent.nodes else ()
    by_name = {machine.node: machine for machine in inventory.machines}
    hardware = {machine.hardware.name: machine.hardware for machine in inventory.machines}
    transport = Transport(timeout_s=settings.hardware.timeout_s, clock=clock.unix_s)
    prices, zone = build_price_source(settings.feeds, settings.prices)
    carbon = build_carbon_source(settings.feeds, settings.carbon)
    check_carbon(parse_weighing(settings.prices.decide_by), is_known=carbon is not None)
    return SiteContext(
        settings=settings,
        modes=parse_modes(settings.agent),
        inventory=inventory,
        by_name=by_name,
        machines={machine.node: machine for machine in chosen},
        scheduler=scheduler_of(settings),
        transport=transport,
        drivers=DriverPool(by_name, transport),
        poller=make_poller(chosen, transport),
        prices=prices,
        carbon=carbon,
        peak_rule=parse_peak_rule(settings.prices.peak_rule, zone=zone),
        zone=zone,
        callers=find_callers(settings.slurm.user, settings.agent.operators, settings.agent.viewers),
        class_of={name: node_class_named(each.node_class) for name, each in hardware.items() if each.node_class},
        clock=clock,
        own_policy=PolicyProcess(settings.agent.own_policy) if settings.agent.own_policy else None,
    )


@dataclass(frozen=True)
class SiteOrders:
    """Orders to nodes, and orders to the scheduler."""

    nodes: NodeOrders
    scheduler: SchedulerOrders


@dataclass(frozen=True)
class RuleInputs:
    """What the rules look up: the latest state of a node, and its hold."""

    state_of: FindStateReading
    hold_of: FindHold


def open_doors(
    site: SiteContext, ledger: Ledger, observer: Observer, known: RuleInputs, modes: Callable[[], PartitionModes]
) -> SiteOrders:
    """Return orders through both doors. Raises CannotWrite or BadLedger if the limits cannot be counted from the
    ledger.

    Each order looks up the `modes` in force directly before it is sent.
    """
    clock = site.transport.clock
    context = InterlockContext(
        site.inventory, site.drivers, known.state_of, clock, known.hold_of, site.scheduler.find_uses
    )
    context = replace(context, steady=site.clock.steady_s, kept_awake=lambda node: observer.kept_awake.get(node))
    nodes = make_node_orders(site.settings.agent, context, ledger, _mode_of(modes, observer))
    put_to_sleep = nodes.door.history.was_put_to_sleep
    scheduler = open_site_scheduler_door(site, ledger, observer, known, modes, put_to_sleep=put_to_sleep)
    return SiteOrders(nodes, scheduler)


def open_cap_orders(
    site: SiteContext,
    ledger: Ledger,
    observer: Observer,
    known: RuleInputs,
    modes: Callable[[], PartitionModes],
    records: CapRecords,
) -> CapOrders:
    """Return orders of caps, through a door of their own. The agent caps a node by itself if all its jobs allow it."""

    def mode_of(effect: Effect) -> Mode:
        return modes().of([name for node in expand(effect.subject) for name in observer.partitions_of_node(node)])

    known_view: tuple[SchedulerView | None, Mapping[str, bool]] = (None, {})

    def may_cap(node: str) -> bool:
        nonlocal known_view
        if (view := observer.recent) is not known_view[0]:
            # Once for each view: many nodes are asked about, and there are many jobs.
            known_view = view, _nodes_that_allow_caps(view.jobs if view else (), site.flexibility)
        return known_view[1].get(node, False)

    clock = site.transport.clock
    door = make_cap_door(ledger, mode_of, clock, nodes=site.machines, hold_of=known.hold_of, may_cap=may_cap)
    return CapOrders(door, CapDevices(site.by_name, site.transport, site.drivers.bmc_of), records, clock)


def _nodes_that_allow_caps(jobs: Iterable[Job], flexibility: FlexibilityRules) -> Mapping[str, bool]:
    """Return whether all jobs of each node with jobs allow a cap; none at all if the nodes of a job are not known."""
    found: dict[str, bool] = {}
    with suppress(BadInput):
        for job in jobs:
            if job.state in HOLDING and job.hosts:
                allows = flexibility.of(job).may_be_capped
                found |= {host: allows and found.get(host, True) for host in job.host_names}
        return found
    return {}


def open_site_scheduler_door(
    site: SiteContext,
    ledger: Ledger,
    observer: Observer,
    known: RuleInputs,
    modes: Callable[[], PartitionModes],
    *,
    put_to_sleep: Callable[[str], bool] | None = None,
) -> SchedulerOrders:
    """Return orders to the scheduler alone, through a door of their own."""
    return open_scheduler_door(
        site.scheduler,
        ledger,
        _mode_of(modes, observer),
        nodes=site.machines,
        clock=site.transport.clock,
        hold_of=known.hold_of,
        put_to_sleep=put_to_sleep,
        may_rank=lambda: modes().may_rank,
        kept_awake=lambda node: observer.kept_awake.get(node),
    )


def open_scheduler_door(
    scheduler: Scheduler,
    ledger: Ledger,
    mode_of: ModeOf,
    *,
    nodes: Collection[str],
    clock: Callable[[], float] = time.time,
    hold_of: FindHold | None = None,
    put_to_sleep: Callable[[str], bool] | None = None,
    may_rank: Callable[[], bool] = lambda: True,
    kept_awake: Callable[[str], str | None] = lambda _: None,
) -> SchedulerOrders:
    """Return orders to the scheduler through a door; without `hold_of` the present holds of the ledger count.

    Raises CannotWrite or BadLedger if the holds cannot be read.
    """
    hold_of = hold_of or ledger.holds(clock()).get
    door = make_scheduler_door(
        ledger,
        mode_of,
        clock,
        nodes=nodes,
        hold_of=hold_of,
        put_to_sleep=put_to_sleep,
        may_rank=may_rank,
        kept_awake=kept_awake,
    )
    return SchedulerOrders(door, scheduler)


def _mode_of(modes: Callable[[], PartitionModes], observer: Observer) -> ModeOf:
    def mode_of(effect: Effect) -> Mode:
        partitions = find_partitions(effect)
        return modes().of(observer.partitions_of_node(effect.subject) if partitions is None else partitions)

    return mode_of
