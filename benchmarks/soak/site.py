"""The site as a power agent sees it: a driver and a meter for each BMC, a meter for each PDU, and one look at all."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.plan import BMC_PORT, PDU_PORT, SoakPlan
from offpeak.errors import DeviceError, NoAnswer
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode, Pdu
from offpeak.model.orders import PowerState
from offpeak.power.drivers.poll import iterate_completed
from offpeak.power.drivers.port import PowerDriver, PowerObservation
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.port import Meter, MeterResult, read_meters
from offpeak.power.meters.registry import device_meters, pdu_meter
from offpeak.sim_backend.virtual.room_plan import BMC_PASSWORD, PDU_COMMUNITY, USER

STEPS = 4
"""A question may cost so many time-outs: to find a BMC, to log in, to be answered, and one for what waits its turn."""


@dataclass(frozen=True)
class Look:
    """What one sweep saw: states by node and after how long [s] each was there, and what every meter said."""

    states: Mapping[str, PowerObservation]
    after_s: Mapping[str, float]
    taken: tuple[MeterResult, ...]


@dataclass(frozen=True)
class Site:
    """Everything that is read."""

    wire: Transport
    drivers: Mapping[str, PowerDriver]
    of_bmcs: Mapping[str, Meter]
    of_pdus: Mapping[str, Meter]

    async def look(self) -> Look:
        """Read all states and PDUs at once, then the watts of the BMCs that are not silent."""
        longest_s = STEPS * self.wire.timeout_s
        (states, after_s), of_pdus = await asyncio.gather(
            self._states(longest_s), read_meters(self.of_pdus.values(), timeout_s=longest_s)
        )
        reachable = [self.of_bmcs[node] for node, seen in states.items() if not isinstance(seen.error, NoAnswer)]
        return Look(states, after_s, (*of_pdus, *await read_meters(reachable, timeout_s=longest_s)))

    async def close(self) -> None:
        """Log out everywhere."""
        await asyncio.gather(*(meter.close() for meter in self.of_pdus.values()), self.wire.close())

    async def _states(self, longest_s: float) -> tuple[dict[str, PowerObservation], dict[str, float]]:
        begin_s, states, after_s = time.perf_counter(), dict[str, PowerObservation](), dict[str, float]()
        queries = {node: driver.query() for node, driver in self.drivers.items()}
        async for node, seen in iterate_completed(queries, timeout_s=longest_s):
            after_s[node] = time.perf_counter() - begin_s
            if isinstance(seen, DeviceError):
                seen = PowerObservation(PowerState.UNKNOWN, self.wire.clock(), seen)
            states[node] = seen
        return states, after_s


def site_of(plan: SoakPlan, folder: Path, clock: Callable[[], float]) -> Site:
    """Return the site of the room that has its passwords in that folder."""
    wire = Transport(timeout_s=plan.timeout_s, clock=clock)
    hardware = Hardware("virtual", "ipmi", Credential("bmc", USER, folder / BMC_PASSWORD), BMC_PORT)
    community = Credential("pdu", password_file=folder / PDU_COMMUNITY)
    machines = [InventoryNode(node, hardware, bmc=host) for node, host in plan.bmc_hosts.items()]
    pdus = [
        Pdu(name, host, "apc", community, PDU_PORT, outlets=_outlets(plan.outlets[name]))
        for name, host in plan.pdu_hosts.items()
    ]
    return Site(
        wire,
        {machine.node: driver_of(machine, wire) for machine in machines},
        {meter.name: meter for meter in device_meters(machines, (), wire)},
        {pdu.name: pdu_meter(pdu, wire) for pdu in pdus},
    )


def _outlets(rows: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(row), node) for row, node in rows.items() if node)
