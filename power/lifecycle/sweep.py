"""One round over all nodes: poll them, decide, hand the due orders to the door, and record its answers.

A node is polled by its BMC, and where the BMC cannot tell, by ssh and by its meter. `poll_once` only polls.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.errors import BadInventory, DeviceError, NoAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.drivers.poll import iterate_completed, poll_drivers
from offpeak.power.drivers.port import PowerDriver, PowerObservation
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.decisions import (
    DueOrder,
    NodeContexts,
    NodeRecords,
    find_due_orders,
    make_effect,
    record_poll,
    sort_silent_first,
)
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import Instant, NodeObservation, NodeRecord, OrderAnswer
from offpeak.power.lifecycle.observations import needs_evidence
from offpeak.power.lifecycle.transitions import apply_event, record_sending
from offpeak.power.meters.port import Meter
from offpeak.power.meters.registry import bmc_meter

if TYPE_CHECKING:
    from offpeak.power.drivers.ssh import NodeSsh


Evidence = tuple[bool | None, float | None, int | None, bool | None]
NO_EVIDENCE: Evidence = (None, None, None, None)

MOST_ORDERS_AT_ONCE = 16
"""The number of orders that are in progress at the same time."""

GiveThroughDoor = Callable[[Effect, Callable[[], None]], Awaitable[Outcome | Refusal]]
"""Sends the order through the door, or is refused; calls the function directly before anything is sent."""

LONGEST_POLL_S = 60.0


@dataclass(frozen=True)
class NodePoller:
    """The machines by name, the driver of each, and the other sources that show whether a node is up or in standby."""

    machines: Mapping[str, InventoryNode]
    drivers: Mapping[str, PowerDriver]
    ssh: Mapping[str, "NodeSsh"] = field(default_factory=dict)
    meters: Mapping[str, Meter] = field(default_factory=dict)

    async def evidence(self, node: str) -> "Evidence":
        """Return whether the node answers by ssh, its power [W], how many GPUs answer, and whether it is about to
        sleep; None: it is unknown.
        """
        answers, gpus, goes_down = await _ask_node(self.ssh.get(node))
        return answers, await _read_power(self.meters.get(node)), gpus, goes_down

    async def close(self) -> None:
        """Close what the drivers hold on their own: the connection to a Redfish service, and its thread."""
        await asyncio.gather(*(driver.close() for driver in self.drivers.values()))


def make_poller(machines: Iterable[InventoryNode], wire: Transport) -> NodePoller:
    """Return the poller of these machines. Raises BadInventory if one lacks a setting of its driver."""
    by_name = {machine.node: machine for machine in machines}
    reached = {node: each for node, each in by_name.items() if each.ssh}
    meters = {
        node: bmc_meter(each, wire) for node, each in reached.items() if each.hardware.sleep_method(NodeOrder.STANDBY)
    }
    return NodePoller(
        by_name,
        {node: driver_of(each, wire) for node, each in by_name.items()},
        _connect_ssh(reached, wire) if reached else {},
        {node: meter for node, meter in meters.items() if meter is not None},
    )


def _connect_ssh(reached: Mapping[str, InventoryNode], wire: Transport) -> dict[str, "NodeSsh"]:
    # This loads asyncssh, 15 MiB that a site without ssh to its nodes does not need.
    from offpeak.power.drivers.ssh import NodeSsh

    return {node: NodeSsh(each, logins=wire.logins, timeout_s=wire.timeout_s) for node, each in reached.items()}


async def _ask_node(ssh: "NodeSsh | None") -> tuple[bool | None, int | None, bool | None]:
    if ssh is None:
        return None, None, None
    try:
        probe = await ssh.probe()
    except NoAnswer:
        return False, None, None
    except DeviceError:
        # The node replied: it refused the key, or its reply cannot be parsed.
        return None, None, None
    return True, probe.gpus, probe.goes_down


async def _read_power(meter: Meter | None) -> float | None:
    if meter is None:
        return None
    try:
        drawn = [reading.power_w for reading in await meter.read()]
    except DeviceError:
        return None
    known = [power_w for power_w in drawn if power_w is not None]
    return sum(known) if known and len(known) == len(drawn) else None


@dataclass(frozen=True)
class SweepContext:
    """The context of a sweep. A poll takes at most `timeout_s`; a node that has not replied by then is unknown.

    `publish` gets the records before the first order, because the door's rules read them, then directly before each
    order and after each answer: a sweep may be cancelled at any time.
    """

    poller: NodePoller
    door: GiveThroughDoor
    context: NodeContext
    clock: Callable[[], Instant]
    timeout_s: float
    publish: Callable[[NodeRecords], None]


async def sweep(
    sweep_context: SweepContext, records: NodeRecords, scheduler_states: Mapping[str, SchedulerState]
) -> NodeRecords:
    """Return the records after one sweep. Nodes that were silent in the last one are polled first."""
    contexts = NodeContexts(sweep_context.poller.machines, sweep_context.context)
    observations = await poll_nodes(
        sweep_context.poller, records, clock=sweep_context.clock, timeout_s=sweep_context.timeout_s
    )
    observed = record_poll(records, observations, scheduler_states, sweep_context.clock(), contexts)
    sweep_context.publish(observed)
    round_ = _OrderRound(observed, contexts, sweep_context)
    await round_.give_all()
    return NodeRecords(round_.nodes, observed.times)


async def poll_nodes(
    poller: NodePoller, records: NodeRecords, *, clock: Callable[[], Instant], timeout_s: float
) -> dict[str, NodeObservation]:
    """Return the observation of every node, with ssh and power for nodes whose BMC does not say enough."""
    drivers = {node: poller.drivers[node] for node in sort_silent_first(records, poller.drivers)}
    doubtful = [node for node, record in records.nodes.items() if node in drivers and needs_evidence(record)]
    answers = poll_drivers(drivers, timeout_s=timeout_s, clock=lambda: clock().unix_s)
    calls = _collect_evidence({node: poller.evidence(node) for node in doubtful}, timeout_s)
    power_states, evidence = await asyncio.gather(answers, calls)
    return {node: NodeObservation(state, *evidence.get(node, NO_EVIDENCE)) for node, state in power_states.items()}


def ledger_fields(record: NodeRecord | None) -> tuple[object, ...]:
    """Return the fields of a record whose changes are written to the ledger."""
    if record is None:
        return ()
    refusal = record.attempts.refusal
    return (
        record.observed.state,
        record.observed.by,
        record.desired,
        record.hold,
        record.fault,
        refusal and refusal.rule,
    )


class _OrderRound:
    """Sends the due orders, several at once, and publishes the records before each order and after each answer."""

    def __init__(self, observed: NodeRecords, contexts: NodeContexts, sweep_context: SweepContext) -> None:
        self.nodes, self._times = dict(observed.nodes), observed.times
        self._due = find_due_orders(observed, sweep_context.clock(), contexts)
        self._node_contexts = {record.node: contexts.of(record.node, observed.times) for record, _ in self._due}
        self._context, self._turn = sweep_context, asyncio.Semaphore(MOST_ORDERS_AT_ONCE)

    async def give_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for record, order in self._due:
                group.create_task(self._give(record, order))

    async def _give(self, record: NodeRecord, due: DueOrder) -> None:
        async with self._turn:
            effect = make_effect(record, due, self._context.clock())
            answer = await self._context.door(
                effect, lambda: self._publish(record_sending(record, due.order, due.by, self._context.clock()))
            )
        ordered = OrderAnswer(due.order, due.way, due.by, answer)
        self._publish(apply_event(record, ordered, self._context.clock(), self._node_contexts[record.node]))

    def _publish(self, record: NodeRecord) -> None:
        self.nodes[record.node] = record
        self._context.publish(NodeRecords(dict(self.nodes), self._times))


async def _collect_evidence(calls: Mapping[str, Awaitable[Evidence]], timeout_s: float) -> dict[str, Evidence]:
    found = {}
    async for node, evidence in iterate_completed(calls, timeout_s=timeout_s):
        found[node] = evidence if isinstance(evidence, tuple) else NO_EVIDENCE
    return found


async def poll_once(
    machines: Sequence[InventoryNode], records: Mapping[str, NodeRecord], wire: Transport
) -> Mapping[str, NodeRecord]:
    """Return the records after one poll; UNKNOWN, with the problem, also for a node without a usable driver."""
    no_way = {machine.node: problem for machine in machines if (problem := _find_missing_driver(machine, wire))}
    poller = make_poller([machine for machine in machines if machine.node not in no_way], wire)
    observations = await poll_nodes(
        poller, NodeRecords(records), clock=lambda: read_clocks(wire), timeout_s=LONGEST_POLL_S
    )
    now = read_clocks(wire)
    unknown = {
        node: NodeObservation(PowerObservation(PowerState.UNKNOWN, now.unix_s, problem))
        for node, problem in no_way.items()
    }
    contexts = NodeContexts(
        {machine.node: machine for machine in machines}, NodeContext(machines[0].hardware, random.Random())
    )
    return record_poll(NodeRecords(records), observations | unknown, {}, now, contexts).nodes


def read_clocks(wire: Transport) -> Instant:
    """Return the present instant; Unix time is by the transport's clock."""
    return Instant(time.monotonic(), wire.clock())


def _find_missing_driver(machine: InventoryNode, wire: Transport) -> NotSupported | None:
    try:
        make_poller([machine], wire)
    except BadInventory as problem:
        return NotSupported(str(problem), hint=problem.hint)
    return None
