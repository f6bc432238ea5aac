"""Caps on running nodes: the one place that sets power limits, through a door of its own, and undoes them.

Each cap has a record in the ledger, which is on the disk before the device gets the order: it holds the limit from
before, so that any later start removes a cap that was left behind. Equal orders to many nodes are one effect with a
node set as its subject, because each intent waits for the disk. A dead device delays no other device.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import TypeAdapter

from offpeak.door.door import Confirm, Door, Guard, Limit
from offpeak.door.effect import ADMIN, DONE, Effect, Hold, ModeOf, Outcome, Refusal
from offpeak.errors import BadInput, DeviceError, error_kind
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import InventoryNode
from offpeak.machines.node_sets import expand, fold
from offpeak.model.orders import CapOrder
from offpeak.power.drivers.caps import CapDriver, CapState, cap_driver_of
from offpeak.power.drivers.poll import iterate_completed
from offpeak.power.drivers.port import PowerDriver, check_identity
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import refuse_held, require_opt_in

DEAD_MAN_S = 900
"""A node removes its own cap after this time unless the agent renews it."""
OBEYS_WITHIN_W = 5.0
"""A limit that is read back differs from the order by so much at most: devices round."""
READ_TIMEOUTS = 3
"""The longest time to read a device before its cap, as a multiple of its time limit: find it, log in, read."""

RECORD_KEY = "cap of "

BATCH_S = 0.1
"""How long a device that was read waits for others, to be recorded and ordered with them."""

MOST_W = 65_535
"""The highest limit that DCMI can express."""

MayCap = Callable[[str], bool]
"""Tells whether the agent may cap a node by itself, because its jobs allow that."""


@dataclass(frozen=True)
class CapRecord:
    """A cap that was, or was about to be, set, and the state of the device before it.

    `until_unix_s` is its end, 0 if it is to be removed now. `problem` is why it could not be removed, or is not obeyed.
    """

    node: str
    cap_w: int
    was: CapState
    by: str
    reason: str
    until_unix_s: float
    since_unix_s: float
    renewed_unix_s: float
    problem: str = ""


RECORD = TypeAdapter(CapRecord)


class CapRecords:
    """The records of all caps by node, in memory and in the ledger. Once it `is_closed`, no further cap is set."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.by_node: dict[str, CapRecord] = {}
        self.is_closed = False

    def load(self) -> None:
        """Read the caps that an earlier program has left, to remove them. Raises CannotWrite or BadLedger; it waits for
        the ledger.
        """
        for text in self._ledger.all_remembered(RECORD_KEY).values():
            if text:
                record = RECORD.validate_json(text)
                self.by_node.setdefault(record.node, replace(record, until_unix_s=0.0))

    def put(self, record: CapRecord) -> None:
        """Put a record in the place of the node's former one."""
        self.by_node[record.node] = record
        self._ledger.remember(f"{RECORD_KEY}{record.node}", RECORD.dump_json(record).decode())

    def are_written(self) -> bool:
        """Wait until all records are on the disk, and return whether they are."""
        return self._ledger.settle()

    def forget(self, record: CapRecord) -> None:
        """Forget a cap that is removed, or was never set."""
        if self.by_node.get(record.node) is record:
            del self.by_node[record.node]
            self._ledger.remember(f"{RECORD_KEY}{record.node}", "")


@dataclass(frozen=True)
class CapOrderer:
    """Who orders a cap, why, and until when."""

    by: str
    reason: str
    until_unix_s: float = 0.0


@dataclass(frozen=True)
class CapDevices:
    """The machines by name, their drivers, and the check that the BMC at an address is the enrolled one."""

    machines: Mapping[str, InventoryNode]
    wire: Transport
    bmc_of: Callable[[str], PowerDriver]
    _drivers: dict[str, CapDriver] = field(default_factory=dict)

    def driver_of(self, node: str) -> CapDriver:
        """Return the driver that caps the node. Raises BadInventory."""
        if node not in self._drivers:
            if node not in self.machines:
                raise BadInput(f"{node}: is not in the inventory", hint="`offpeak nodes` lists those that are")
            self._drivers[node] = cap_driver_of(self.machines[node], self.wire)
        return self._drivers[node]

    async def read(self, node: str, *, with_draw: bool = True) -> CapState:
        """Return the state of the node's device. Raises DeviceError, WrongDevice if the BMC is not the enrolled one."""
        driver, machine = self.driver_of(node), self.machines[node]
        if not driver.has_timer and machine.enrolled is not None:
            await check_identity(self.bmc_of(node), machine.enrolled)
        return await driver.read_cap(with_draw=with_draw)

    @property
    def timeout_s(self) -> float:
        """The longest time to read a device."""
        return READ_TIMEOUTS * self.wire.timeout_s


class CapOrders:
    """Sets and removes caps. A device gets one order at a time."""

    def __init__(self, door: Door, devices: CapDevices, records: CapRecords, clock: Callable[[], float]) -> None:
        self._door, self.devices, self.records, self._clock = door, devices, records, clock
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def predict_refusal(self, node: str, orderer: CapOrderer) -> Refusal | None:
        """Return why the node would not be capped, None if no rule forbids it."""
        return self._door.predict_refusal(Effect(node, CapOrder.CAP, orderer.by, orderer.reason))

    async def cap(self, caps_w: Mapping[str, int], orderer: CapOrderer) -> dict[str, Outcome | Refusal]:
        """Cap the devices of these nodes to so many watts each, and return the outcome for each node.

        A cap of the same node before it is replaced; the limit from before the first cap is what is restored.
        """
        found: dict[str, Outcome | Refusal] = {}
        reads = {}
        for node, cap_w in caps_w.items():
            if self.predict_refusal(node, orderer) is None:
                reads[node] = self._read_to_cap(node, cap_w, orderer)
            else:
                found[node] = await self._door.let_through(_effect((node,), cap_w, orderer), _no_act)
        sends: list[asyncio.Task[dict[str, Outcome | Refusal]]] = []
        ready: dict[str, CapState] = {}

        def send() -> None:
            if ready:
                batch = {node: (caps_w[node], state) for node, state in ready.items()}
                sends.append(asyncio.create_task(self._send(batch, orderer)))
                ready.clear()

        async for node, state in iterate_completed(reads, timeout_s=self.devices.timeout_s):
            if isinstance(state, DeviceError):
                found[node] = Outcome("failed", str(state), error_kind(state))
            elif isinstance(state, Refusal):
                found[node] = state
            else:
                if not ready:
                    asyncio.get_running_loop().call_later(BATCH_S, send)
                ready[node] = state
        send()
        for outcomes in await asyncio.gather(*sends):
            found |= outcomes
        return found

    async def uncap(self, nodes: Iterable[str], orderer: CapOrderer) -> dict[str, Outcome | Refusal]:
        """Restore the limits of these nodes from before their caps, and return the outcome for each.

        A record stays until its device has accepted that, or has ended the cap itself.
        """
        records = [self.records.by_node[node] for node in nodes if node in self.records.by_node]
        if not records:
            return {}
        restores = {record.node: partial(self._restore, record) for record in records}
        outcomes = await self._carry_out(_effect(tuple(restores), 0, orderer), restores)
        for record in records:
            if self.records.by_node.get(record.node) is record:
                self.records.put(replace(record, until_unix_s=0.0, problem=outcomes[record.node].message))
        return outcomes

    async def renew(self, nodes: Iterable[str]) -> dict[str, DeviceError]:
        """Start the nodes' own timers again, and return the problems. The caps stay as they are."""

        async def again(record: CapRecord) -> None:
            record = replace(record, renewed_unix_s=self._clock())
            self.records.put(record)
            await self._set(record, self._door.guard_of(Effect(record.node, CapOrder.CAP, record.by, record.reason)))

        due = [self.records.by_node[node] for node in nodes if node in self.records.by_node]
        calls = {record.node: again(record) for record in due if self._has_timer(record.node)}
        ended = [each async for each in iterate_completed(calls, timeout_s=self.devices.timeout_s)]
        return {node: problem for node, problem in ended if isinstance(problem, DeviceError)}

    async def _read_to_cap(self, node: str, cap_w: int, orderer: CapOrderer) -> CapState | Refusal:
        if refusal := self._refuse_to_replace(node, orderer):
            return refusal
        try:
            state = await self.devices.read(node, with_draw=False)
        except BadInput as problem:
            return Refusal("cap", str(problem), problem.hint)
        return check_cap(node, cap_w, state, is_ours=node in self.records.by_node) or state

    def _refuse_to_replace(self, node: str, orderer: CapOrderer) -> Refusal | None:
        if self.records.is_closed:
            return Refusal("cap", f"{node}: the agent is ending, and its caps with it")
        record = self.records.by_node.get(node)
        if record is not None and record.by.startswith(ADMIN) and not orderer.by.startswith(ADMIN):
            return Refusal("cap", f"{node}: {record.by} has capped it: {record.reason}")
        return None

    async def _send(
        self, batch: Mapping[str, tuple[int, CapState]], orderer: CapOrderer
    ) -> dict[str, Outcome | Refusal]:
        """Write the records, then order the caps, in one effect for all nodes with the same cap."""
        now, before = self._clock(), {node: self.records.by_node.get(node) for node in batch}
        # Another order may have come while the device was read: its limit is not the one from before.
        refusals = {node: refusal for node in batch if (refusal := self._refuse_to_replace(node, orderer))}
        records = [
            CapRecord(node, cap_w, old.was if old else state, **vars(orderer), since_unix_s=now, renewed_unix_s=now)
            for (node, (cap_w, state)), old in zip(batch.items(), before.values(), strict=True)
            if node not in refusals
        ]
        for record in records:
            self.records.put(record)
        outcomes: dict[str, Outcome | Refusal] = {}
        if await asyncio.to_thread(self.records.are_written):
            for cap_w in sorted({record.cap_w for record in records}):
                sets = {record.node: partial(self._set, record) for record in records if record.cap_w == cap_w}
                outcomes |= await self._carry_out(_effect(tuple(sets), cap_w, orderer), sets)
        else:
            why = Refusal("ledger", "no cap is set that cannot be recorded", "offpeak ledger actions; df -h")
            outcomes = {record.node: why for record in records}
        for record in records:
            outcome, was = outcomes[record.node], before[record.node]
            if isinstance(outcome, Refusal):
                if was is None:
                    self.records.forget(record)
                elif self.records.by_node.get(record.node) is record:
                    self.records.put(was)
            elif outcome.result != DONE and self.records.by_node.get(record.node) is record:
                # The device may have followed: the next round restores it.
                self.records.put(replace(record, until_unix_s=0.0, problem=outcome.message))
        return outcomes | refusals

    async def _carry_out(
        self, effect: Effect, calls: Mapping[str, Callable[[Guard], Awaitable[None]]]
    ) -> dict[str, Outcome | Refusal]:
        """Make the calls as one effect; return the outcome for each node. What the door refuses, it refuses to all."""
        problems: dict[str, DeviceError] = {}

        async def act(confirm: Confirm) -> str:
            guard = await confirm()
            begun = {node: call(guard) for node, call in calls.items()}
            async for node, ended in iterate_completed(begun, timeout_s=self.devices.timeout_s):
                if isinstance(ended, DeviceError):
                    problems[node] = ended
            if len(problems) == len(calls):
                raise next(iter(problems.values()))
            return (
                f"{len(problems)} of {len(calls)} failed: {next(iter(problems.values()))}" if problems else "accepted"
            )

        answer = await self._door.let_through_prepared(effect, act)
        outcomes: dict[str, Outcome | Refusal] = dict.fromkeys(calls, answer)
        return outcomes | {node: Outcome("failed", str(why), error_kind(why)) for node, why in problems.items()}

    async def _set(self, record: CapRecord, guard: Guard) -> None:
        async with self._turns[record.node]:
            if self.records.by_node.get(record.node) is not record:
                raise DeviceError(f"{record.node}: another order came first")
            await self.devices.driver_of(record.node).set_cap(record.cap_w, record.was, DEAD_MAN_S, guard)

    async def _restore(self, record: CapRecord, guard: Guard) -> None:
        async with self._turns[record.node]:
            if self.records.by_node.get(record.node) is not record:
                raise DeviceError(f"{record.node}: another order came first")
            try:
                driver = self.devices.driver_of(record.node)
                # A lower limit is an order of somebody else, which stays. A node with a timer knows its own caps.
                limit_w = None if driver.has_timer else (await self.devices.read(record.node, with_draw=False)).limit_w
                if limit_w is None or limit_w >= record.cap_w - OBEYS_WITHIN_W:
                    await driver.restore_cap(record.was, guard)
            except BadInput as problem:
                raise DeviceError(str(problem), hint=problem.hint) from None
            except DeviceError:
                # A node that is off, or was booted meanwhile, has no cap any more once its own timer has ended.
                if not (self._has_timer(record.node) and self._clock() - record.renewed_unix_s > DEAD_MAN_S):
                    raise
            self.records.forget(record)

    def _has_timer(self, node: str) -> bool:
        try:
            return self.devices.driver_of(node).has_timer
        except BadInput:
            return False


def _effect(nodes: tuple[str, ...], cap_w: int, orderer: CapOrderer) -> Effect:
    subject = nodes[0] if len(nodes) == 1 else fold(nodes)
    if not cap_w:
        return Effect(subject, CapOrder.UNCAP, orderer.by, orderer.reason)
    inputs = (("cap_w", float(cap_w)), ("until_unix_s", orderer.until_unix_s))
    return Effect(subject, CapOrder.CAP, orderer.by, orderer.reason, inputs)


async def _no_act() -> str:
    raise AssertionError("a rule refuses this effect")


def check_cap(node: str, cap_w: int, state: CapState, *, is_ours: bool) -> Refusal | None:
    """Return why the device must not get this cap, None if it may. A limit that is in force already is never raised."""
    if not (state.least_w or 1) <= cap_w <= (state.most_w or MOST_W):
        return Refusal("cap", f"{node}: a cap of {cap_w} W is not possible: {state.range_text}")
    if not is_ours and state.limit_w is not None and state.limit_w <= cap_w:
        what = f"{node}: its limit is {state.limit_w:.0f} W already, which offpeak has not set"
        return Refusal("cap", what, "only a lower cap changes anything")
    return None


def make_cap_door(
    ledger: Ledger,
    mode_of: ModeOf,
    clock: Callable[[], float],
    *,
    nodes: Iterable[str],
    hold_of: Callable[[str], Hold | None],
    may_cap: MayCap = lambda _: False,
) -> Door:
    """Return a door for caps of opted-in nodes without a hold whose jobs allow it, and for an admin's caps of any jobs.

    Removing a cap is never refused.
    """
    limits = (
        ("opted_in", _each_node(require_opt_in(frozenset(nodes)))),
        ("held", _each_node(refuse_held(hold_of, clock))),
        ("consent", _each_node(_require_consent(may_cap))),
    )
    return Door(mode_of, journal=ledger, clock=clock, limits=limits)


def _each_node(limit: Limit) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if effect.order is CapOrder.UNCAP:
            return None
        refusals = (limit(replace(effect, subject=node)) for node in expand(effect.subject))
        return next((refusal for refusal in refusals if refusal), None)

    return refuse


def _require_consent(may_cap: MayCap) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if effect.by_admin or may_cap(effect.subject):
            return None
        what = f"{effect.subject}: not every job on it allows a cap"
        return Refusal(
            "consent", what, 'owners write offpeak:cap, or the site partitions = ["NAME=cap"] below [flexibility]'
        )

    return refuse
