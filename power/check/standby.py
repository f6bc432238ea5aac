"""The standby test of a node: suspend it, prove that it sleeps, wake it, prove that it did not boot.

The test never switches a node off: a node that does not wake is left to its own alarm clock and to the operator. All
orders go through the door, so the test runs only if the scheduler reports that the node is free.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from offpeak.door.effect import Effect, Hold, Refusal
from offpeak.door.journal import Journal
from offpeak.errors import BadAnswer, BadInventory, DeviceError, NoAnswer, OffpeakError
from offpeak.machines.inventory import Inventory, InventoryNode, SleepMethod
from offpeak.machines.node_sets import expand
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.port import FindUses
from offpeak.power.door.node_orders import InterlockContext, make_node_orders
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.ssh import NodeProbe, NodeSsh, check_standby
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.meters.port import Meter
from offpeak.power.meters.registry import bmc_meter
from offpeak.settings.agent import AgentSettings

STANDBY_POLL_S = 1.0
SILENT_POLLS = 3
"""The number of consecutive polls at which a node must be silent, and below its power ceiling, to count as asleep."""

ALARM_MARGIN_S = 60
OWN_CLOCK = "clock"

GiveOrder = Callable[[NodeOrder, str], Awaitable[None]]
"""Sends an order by one of the method's ways, "" for standby. Raises DeviceError if the device rejects it, another
OffpeakError if the door refuses it.
"""


@dataclass(frozen=True)
class StandbyParts:
    """The parts of a test: the node by ssh, the function that sends orders, and the meter if there is one."""

    machine: InventoryNode
    node: NodeSsh
    method: SleepMethod
    order: GiveOrder
    watts: Callable[[], Awaitable[float | None]] | None = None


@dataclass(frozen=True)
class StandbyTestResult:
    """The result of a test. `error` is why standby must not be offered, `notes` are remarks.

    `by_power`: the meter showed the node below the ceiling; `asleep_w` is its last power. `woken_by` is one of the
    method's ways, or "clock". The time of an event that did not happen is None.
    """

    node: str
    error: DeviceError | None = None
    by_power: bool = False
    asleep_w: float | None = None
    enter_s: float | None = None
    wake_s: float | None = None
    woken_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether nodes of this hardware may be suspended."""
        return self.error is None


async def suspend_and_wake(
    parts: StandbyParts,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> StandbyTestResult:
    """Suspend and wake the node once and return the result; this can take all of the method's patience. Raises no
    DeviceError.

    If the door refuses the order to suspend, its error is raised. The node itself also checks that no job runs. If the
    test is cancelled while the node sleeps, the node's own alarm wakes it.
    """
    return await _StandbyTest(parts, clock, sleep).run()


def alarm_after_s(method: SleepMethod) -> int:
    """Return the time after which the node's own clock wakes it: later than the end of the test."""
    return method.enter_timeout_s + len(method.wake) * method.wake_timeout_s + ALARM_MARGIN_S


class _StandbyTest:
    def __init__(
        self, parts: StandbyParts, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._parts, self._clock, self._sleep = parts, clock, sleep
        self._result = StandbyTestResult(parts.node.node)

    async def run(self) -> StandbyTestResult:
        node = self._parts.node
        try:
            before = await node.probe()
            check_standby(before, self._parts.machine, self._parts.method)
            await self._parts.order(NodeOrder.STANDBY, "")
        except DeviceError as error:
            return replace(self._result, error=error)
        queried_s = self._clock()
        if not before.wake_clock:
            self._note("it has no alarm clock: if no other way wakes it, it stays asleep")
        await self._watch_it_go()
        if self._result.enter_s is None:
            return self._result
        after = await self._wake_up()
        if after is None and before.wake_clock:
            method = self._parts.method
            after = await self._answer_until(queried_s + alarm_after_s(method) + method.wake_timeout_s)
            if after:
                self._result = replace(self._result, woken_by=OWN_CLOCK)
        self._evaluate(before, after)
        return self._result

    async def _watch_it_go(self) -> None:
        """Set enter_s to the time when the node fell silent for good, and by_power if the meter agrees."""
        began, row = self._clock(), 0
        enter_s: float | None = None
        while row < SILENT_POLLS and self._clock() - began < self._parts.method.enter_timeout_s:
            await self._sleep(STANDBY_POLL_S)
            passed_s = self._clock() - began
            if not await self._silent():
                enter_s, row = None, 0
                continue
            enter_s = passed_s if enter_s is None else enter_s
            row = row + 1 if await self._low() is not False else 0
        self._result = replace(self._result, enter_s=enter_s)
        if enter_s is None:
            self._goes_wrong(self._never_went())
        else:
            watts, ceiling = self._result.asleep_w, self._parts.method.ceiling_w
            if watts is None or ceiling is None:
                missing = "no meter showed its power" if watts is None else "the rung has no ceiling"
                self._note(f"not proven by power: {missing}")
            elif row < SILENT_POLLS:
                message = f"{self._result.node}: silent, but draws {watts:g} W, above the ceiling of {ceiling:g} W"
                self._goes_wrong(BadAnswer(message, hint="it may hang, or the ceiling is too low: look at its console"))
            else:
                self._result = replace(self._result, by_power=True)

    async def _wake_up(self) -> NodeProbe | None:
        """Try the method's ways one after the other. Return the node's first answer, None if none of them woke it."""
        patience_s = self._parts.method.wake_timeout_s
        for way in self._parts.method.wake:
            began = self._clock()
            try:
                await self._parts.order(NodeOrder.ON, way)
            except OffpeakError as error:
                self._note(f"{way}: {error}")
                continue
            if after := await self._answer_until(began + patience_s):
                self._result = replace(self._result, woken_by=way, wake_s=self._clock() - began)
                return after
            self._note(f"{way}: did not wake it within {patience_s} s")
        return None

    def _evaluate(self, before: NodeProbe, after: NodeProbe | None) -> None:
        node = self._result.node
        if after is None:
            message = f"{node}: does not wake from standby"
            hint = "look at its console; offpeak does not switch it off"
            self._goes_wrong(NoAnswer(message, hint=hint))
        elif after.boot_id != before.boot_id:
            message = f"{node}: rebooted instead of waking from standby"
            hint = "its firmware or a driver does not resume; leave out this rung, or fix the node and test again"
            self._goes_wrong(BadAnswer(message, hint=hint))
        elif self._result.woken_by == OWN_CLOCK:
            message = f"{node}: only its own alarm clock woke it"
            hint = f"see docs/how-to/wake-on-lan.md; tried: {', '.join(self._parts.method.wake) or 'nothing'}"
            self._goes_wrong(BadAnswer(message, hint=hint))

    async def _silent(self) -> bool:
        try:
            await self._parts.node.probe()
        except NoAnswer:
            return True
        except DeviceError:
            pass
        return False

    async def _low(self) -> bool | None:
        """Whether it draws no more than the ceiling, None if unknown."""
        if self._parts.watts is None:
            return None
        try:
            watts = await self._parts.watts()
        except DeviceError:
            watts = None
        ceiling = self._parts.method.ceiling_w
        self._result = replace(self._result, asleep_w=watts)
        return None if watts is None or ceiling is None else watts <= ceiling

    async def _answer_until(self, until: float) -> NodeProbe | None:
        while self._clock() < until:
            try:
                return await self._parts.node.probe()
            except DeviceError:
                await self._sleep(STANDBY_POLL_S)
        return None

    def _never_went(self) -> DeviceError:
        message = f"{self._result.node}: still answers {self._parts.method.enter_timeout_s} s after it was to sleep"
        return BadAnswer(message, hint="on the node: journalctl -b -u systemd-suspend; dmesg | grep PM:")

    def _goes_wrong(self, error: DeviceError) -> None:
        # The last error is the worst.
        if self._result.error is not None:
            self._note(str(self._result.error))
        self._result = replace(self._result, error=error)

    def _note(self, text: str) -> None:
        self._result = replace(self._result, notes=(*self._result.notes, text))


class OrderRefused(OffpeakError):
    """The door refused the order, and nothing was done."""


@dataclass(frozen=True)
class StandbyContext:
    """The settings of the door, the ledger, the author of the test ("admin NAME"), and the rules' scheduler."""

    inventory: Inventory
    wire: Transport
    settings: AgentSettings
    journal: Journal
    by: str
    find_uses: FindUses
    hold_of: Callable[[str], Hold | None]


async def run_standby_test(machine: InventoryNode, trial: StandbyContext) -> StandbyTestResult:
    """Suspend and wake the node once. Raises BadInventory without the method, OrderRefused if the door refuses."""
    method = machine.hardware.sleep_method(NodeOrder.STANDBY)
    if method is None or machine.ssh is None:
        missing = "standby" if method is None else "ssh"
        hint = f"docs/how-to/standby.md shows what [hardware.{machine.hardware.name}] needs"
        raise BadInventory(f"{machine.node}: its hardware has no {missing}", hint=hint)
    wire = trial.wire
    node, meter = NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s), bmc_meter(machine, wire)
    machines = {each.node: each for each in trial.inventory.machines}
    ways = DriverPool(machines, wire, dead_man_s=alarm_after_s(method))
    try:
        # The door counts how many of all opted-in nodes are on.
        nodes = expand(trial.settings.nodes) if trial.settings.nodes else ()
        seen = dict(
            zip(nodes, await asyncio.gather(*(_observe_node(node, ways, trial.wire) for node in nodes)), strict=True)
        )
        inventory = _with_proof(trial.inventory, machine, method)
        site = InterlockContext(inventory, ways, seen.get, wire.clock, trial.hold_of, trial.find_uses)
        orders = make_node_orders(trial.settings, site, trial.journal)

        async def order(order: NodeOrder, way: str) -> None:
            # The node is on before it is suspended, and proven to be in standby before it is woken.
            state = NodeState.STANDBY if order is NodeOrder.ON else NodeState.ON
            seen[machine.node] = StateReading(state, wire.clock())
            inputs = (("way", way),) if way else (("alarm_s", alarm_after_s(method)),)
            effect = Effect(machine.node, order, trial.by, "test of its standby", inputs)
            answer = await orders.order(effect)
            if isinstance(answer, Refusal):
                raise OrderRefused(f"{answer.message}; it was not touched", hint=answer.hint)
            if answer.result != "done":
                raise BadAnswer(answer.message, hint=f"offpeak check {effect.subject}")

        watts = partial(_read_watts, meter) if meter else None
        return await suspend_and_wake(StandbyParts(machine, node, method, order, watts))
    finally:
        await ways.close()
        if meter:
            await meter.close()


def _with_proof(inventory: Inventory, machine: InventoryNode, method: SleepMethod) -> Inventory:
    """Return the inventory in which the node has the proof that the test is to bring."""
    if machine.enrolled is None:
        return inventory
    enrolled = replace(machine.enrolled, capabilities=(*machine.enrolled.capabilities, method.capability))
    assumed = replace(machine, enrolled=enrolled)
    return replace(
        inventory, machines=tuple(assumed if each.node == machine.node else each for each in inventory.machines)
    )


async def _observe_node(node: str, ways: DriverPool, wire: Transport) -> StateReading:
    try:
        observed = await ways.bmc_of(node).query()
    except BadInventory:
        return StateReading(NodeState.UNKNOWN, wire.clock())
    return StateReading(NodeState(observed.state), observed.at_unix_s)


async def _read_watts(meter: Meter) -> float | None:
    drawn = [reading.power_w for reading in await meter.read()]
    return None if None in drawn else sum(value for value in drawn if value is not None)
