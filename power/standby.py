"""The test of a node's standby: suspend it, prove that it sleeps, wake it, prove that it did not boot.

Nothing is ever switched off: a node that does not come back is left to its own alarm clock, and to the operator. It
gives no order itself: it is handed what gives them through the door.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from offpeak.errors import BadAnswer, DeviceError, NoAnswer, NotSupported, OffpeakError
from offpeak.machines.inventory import SleepMethod
from power.drivers.node_answers import NodeProbe
from power.drivers.node_ssh import NodeSsh
from power.drivers.port import Order

POLL_S = 1.0
IN_A_ROW = 3
"""So many times one after the other a node must be silent, and below its ceiling, to be taken as asleep."""

SPARE_S = 60
OWN_CLOCK = "clock"

GiveOrder = Callable[[Order, str], Awaitable[None]]
"""Gives an order by one of the rung's ways, "" for standby. DeviceError: the device did not take it; any other
OffpeakError: it was not let through."""


@dataclass(frozen=True)
class Parts:
    """What a test is made with: the node by ssh, what gives it orders, and its meter if it has one."""

    node: NodeSsh
    rung: SleepMethod
    order: GiveOrder
    watts: Callable[[], Awaitable[float | None]] | None = None


@dataclass(frozen=True)
class StandbyProof:
    """What came of a test. `trouble` says why the rung is not to be offered, `notes` what else is to be known.

    `by_power`: the meter showed it below the ceiling; `asleep_w` is what it drew last. `woken_by` is one of the rung's
    ways, or "clock". Times are None for what did not happen.
    """

    node: str
    trouble: DeviceError | None = None
    by_power: bool = False
    asleep_w: float | None = None
    enter_s: float | None = None
    wake_s: float | None = None
    woken_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether nodes of that kind may be sent into standby."""
        return self.trouble is None


async def prove_standby(
    parts: Parts,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> StandbyProof:
    """Return what one suspend and one wake-up have shown; takes up to all the rung's patience. Raises no DeviceError.

    Raises what the order to suspend raises if it was not let through. That no job runs there, the node itself checks
    too. Cancelled while the node sleeps, its own alarm wakes it.
    """
    return await _Trial(parts, clock, sleep).run()


def dead_man_s(rung: SleepMethod) -> int:
    """Return after how long the node's own clock wakes it: after the test would have ended."""
    return rung.enter_patience_s + len(rung.wake) * rung.wake_patience_s + SPARE_S


class _Trial:
    def __init__(self, parts: Parts, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._parts, self._clock, self._sleep = parts, clock, sleep
        self._proof = StandbyProof(parts.node.node)

    async def run(self) -> StandbyProof:
        node = self._parts.node
        try:
            before = await node.probe()
            if not before.can_stand_by:
                hint = "`cat /sys/power/mem_sleep` without deep: its firmware has no S3; leave out this rung"
                raise NotSupported(f"{node.node}: offers no suspend to memory", hint=hint)
            await self._parts.order(Order.STANDBY, "")
        except DeviceError as trouble:
            return replace(self._proof, trouble=trouble)
        asked_at = self._clock()
        if not before.wake_clock:
            self._note("it has no alarm clock: would nothing else wake it, it would sleep on")
        await self._watch_it_go()
        if self._proof.enter_s is None:
            return self._proof
        after = await self._wake_up()
        if after is None and before.wake_clock:
            after = await self._alarm_rings(asked_at)
        self._judge(before, after)
        return self._proof

    async def _watch_it_go(self) -> None:
        """Set enter_s to when it fell silent for good, and by_power where the meter agrees."""
        began, row = self._clock(), 0
        enter_s: float | None = None
        while row < IN_A_ROW and self._clock() - began < self._parts.rung.enter_patience_s:
            await self._sleep(POLL_S)
            passed_s = self._clock() - began
            if not await self._silent():
                enter_s, row = None, 0
                continue
            enter_s = passed_s if enter_s is None else enter_s
            row = row + 1 if await self._low() is not False else 0
        self._proof = replace(self._proof, enter_s=enter_s)
        if enter_s is None:
            self._goes_wrong(self._never_went())
        else:
            self._judge_power(row)

    def _judge_power(self, row: int) -> None:
        watts, ceiling = self._proof.asleep_w, self._parts.rung.ceiling_w
        if watts is None or ceiling is None:
            missing = "no meter told its power" if watts is None else "the rung has no ceiling"
            self._note(f"not proven by power: {missing}")
        elif row < IN_A_ROW:
            message = f"{self._proof.node}: silent, but draws {watts:g} W, above the ceiling of {ceiling:g} W"
            self._goes_wrong(BadAnswer(message, hint="it may hang, or the ceiling is too low: look at its console"))
        else:
            self._proof = replace(self._proof, by_power=True)

    async def _wake_up(self) -> NodeProbe | None:
        """Try the rung's ways one after the other; the node's first answer, None if none of them woke it."""
        patience_s = self._parts.rung.wake_patience_s
        for way in self._parts.rung.wake:
            began = self._clock()
            try:
                await self._parts.order(Order.ON, way)
            except OffpeakError as trouble:
                self._note(f"{way}: {trouble}")
                continue
            if after := await self._answer_until(began + patience_s):
                self._proof = replace(self._proof, woken_by=way, wake_s=self._clock() - began)
                return after
            self._note(f"{way}: did not wake it within {patience_s} s")
        return None

    async def _alarm_rings(self, asked_at: float) -> NodeProbe | None:
        rung = self._parts.rung
        after = await self._answer_until(asked_at + dead_man_s(rung) + rung.wake_patience_s)
        if after:
            self._proof = replace(self._proof, woken_by=OWN_CLOCK)
        return after

    def _judge(self, before: NodeProbe, after: NodeProbe | None) -> None:
        node = self._proof.node
        if after is None:
            message = f"{node}: does not come back from standby"
            hint = "look at its console; nothing was switched off, and nothing will be"
            self._goes_wrong(NoAnswer(message, hint=hint))
        elif after.boot_id != before.boot_id:
            message = f"{node}: it rebooted: standby is lost"
            hint = "its firmware or a driver does not resume; leave out this rung, or mend it and test again"
            self._goes_wrong(BadAnswer(message, hint=hint))
        elif self._proof.woken_by == OWN_CLOCK:
            message = f"{node}: nothing but its own alarm clock woke it"
            hint = f"see docs/how-to/wake-on-lan.md; tried: {', '.join(self._parts.rung.wake) or 'nothing'}"
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
        """Whether it draws no more than the ceiling, None if that cannot be told."""
        if self._parts.watts is None:
            return None
        try:
            watts = await self._parts.watts()
        except DeviceError:
            watts = None
        ceiling = self._parts.rung.ceiling_w
        self._proof = replace(self._proof, asleep_w=watts)
        return None if watts is None or ceiling is None else watts <= ceiling

    async def _answer_until(self, until: float) -> NodeProbe | None:
        while self._clock() < until:
            try:
                return await self._parts.node.probe()
            except DeviceError:
                await self._sleep(POLL_S)
        return None

    def _never_went(self) -> DeviceError:
        message = f"{self._proof.node}: still answers {self._parts.rung.enter_patience_s} s after it was to sleep"
        return BadAnswer(message, hint="on the node: journalctl -b -u systemd-suspend; dmesg | grep PM:")

    def _goes_wrong(self, trouble: DeviceError) -> None:
        # The last thing that went wrong is the worst.
        if self._proof.trouble is not None:
            self._note(str(self._proof.trouble))
        self._proof = replace(self._proof, trouble=trouble)

    def _note(self, text: str) -> None:
        self._proof = replace(self._proof, notes=(*self._proof.notes, text))
