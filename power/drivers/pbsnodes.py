"""Switches a node through Torque: `pbsnodes -m` makes the node's daemon shut it down, or the server send it a
Wake-on-LAN packet.

For nodes without a BMC. The `bmc` of such a machine is its name in Torque.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from offpeak.door.door import Confirm
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.pbs import commands
from offpeak.plugin.pbs.scheduler import MarkKind
from offpeak.plugin.pbs.torque import DOWN, RUNNING, parse_torque_note, status_of
from offpeak.power.drivers.port import PowerObservation, confirm_at_once

POWER_ARGUMENTS = {NodeOrder.ON: "running", NodeOrder.SOFT_OFF: "shutdown"}
OFF = frozenset({"Shutdown", "Hibernate"})
SLEEP_MARKS = (MarkKind.ASLEEP, MarkKind.WAKES)
OTHER_DRIVER_HINT = 'switch it by its BMC: driver = "ipmi" or "redfish"'
# Torque 6.1's server answers so when the node's daemon has already begun to shut down.
HARMLESS_ERROR = "Job not found"

Answer = TypeVar("Answer")


class PbsnodesDriver:
    """Reads and sets one node's power. A call runs one or two commands of at most `timeout_s` each."""

    name = "pbsnodes"
    orders = frozenset(POWER_ARGUMENTS)

    def __init__(self, machine: InventoryNode, *, timeout_s: float = 5.0, now: Callable[[], float] = time.time) -> None:
        if machine.bmc is None:
            raise BadInventory(f"{machine.node}: has no name in Torque", hint="write it as bmc of its [[machines]]")
        self._node, self._now = machine.bmc, now
        self._commands = commands.PbsCommands(timeout_s=timeout_s)
        self._sent_off = False

    async def query(self) -> PowerObservation:
        """Return on or off. A node whose daemon is silent counts as off only if this driver or the node's note says
        that offpeak shut it down.
        """
        try:
            return self._observed(await self._attributes())
        except DeviceError as error:
            return PowerObservation(PowerState.UNKNOWN, self._now(), error)

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the order, unless the node is already in that state; the server refuses to shut down a node with jobs.

        Raises NotSupported if pbsnodes has no -m. The error that Torque 6.1 prints although it carried out the order is
        ignored: the next queries read the state back.
        """
        if order not in POWER_ARGUMENTS:
            raise NotSupported(f"{self._node}: pbsnodes does not support {order}", hint=OTHER_DRIVER_HINT)
        seen = self._observed(await self._attributes())
        if seen.error is not None:
            raise seen.error
        if (seen.state is PowerState.ON) is (order is NodeOrder.ON):
            return
        guard = await confirm()

        def tell() -> commands.CommandResult:
            holds_s = guard()
            return self._commands.change("pbsnodes", "-m", POWER_ARGUMENTS[order], self._node, within_s=holds_s)

        reply = await self._run(tell)
        refused = " ".join(line for line in reply.complaints if HARMLESS_ERROR not in line)
        if refused:
            raise error_of_complaint(self._node, POWER_ARGUMENTS[order], refused)
        self._sent_off = order is NodeOrder.SOFT_OFF

    async def identity(self) -> str | None:
        """Return the host name that the node's daemon reports, None if it has never reported."""
        fields = status_of((await self._attributes()).get("status", "")).get("uname", "").split()
        return fields[1] if len(fields) > 1 else None

    async def close(self) -> None:
        """Do nothing: there is no login."""

    async def _attributes(self) -> dict[str, str]:
        reply = await self._run(lambda: self._commands.query("pbsnodes", "-x", self._node))
        found = commands.xml_records(reply, "Node", source="pbsnodes -x")
        return commands.xml_fields(found[0]) if found else {}

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        try:
            return await asyncio.to_thread(work)
        except commands.PbsIsSilent as problem:
            raise NoAnswer(f"{self._node}: {problem}", hint=problem.hint) from None
        except commands.CannotAskPbs as problem:
            raise BadAnswer(f"{self._node}: {problem}", hint=problem.hint) from None

    def _observed(self, attributes: dict[str, str]) -> PowerObservation:
        power, down, mark = (
            attributes.get("power_state"),
            DOWN in attributes.get("state", ""),
            parse_torque_note(attributes.get("note", "")),
        )
        if power is None:
            error = NotSupported(
                f"{self._node}: this Torque reports no power_state and has no -m", hint=OTHER_DRIVER_HINT
            )
            return PowerObservation(PowerState.UNKNOWN, self._now(), error)
        if power in OFF or (down and (self._sent_off or (mark is not None and mark.kind in SLEEP_MARKS))):
            return PowerObservation(PowerState.OFF, self._now())
        if power == RUNNING and not down:
            return PowerObservation(PowerState.ON, self._now())
        state = "its daemon does not answer, and offpeak did not shut it down" if down else f"is in {power}"
        hint = f"look at the node; `pbsnodes -m running {self._node}` wakes it"
        return PowerObservation(PowerState.UNKNOWN, self._now(), BadAnswer(f"{self._node}: {state}", hint=hint))


def error_of_complaint(node: str, option: str, reply: str) -> DeviceError:
    """Return the error that pbsnodes' error message stands for."""
    message = f"{node}: pbsnodes -m {option}: {reply.rpartition(' - ')[2]}"
    if "invalid option" in reply:
        return NotSupported(f"{node}: this Torque's pbsnodes has no -m", hint=OTHER_DRIVER_HINT)
    if "Unauthorized" in reply:
        return AccessRefused(message, hint=commands.RIGHTS_HINT)
    return BadAnswer(message, hint=f"`pbsnodes -x {node}` shows what Torque knows of it")
