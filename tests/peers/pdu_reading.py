"""Reads PDUs the way the agent does, and holds what they said against what was worked out by hand."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import SnmpPatience
from offpeak.power.meters.snmp.engines import SnmpEngines
from offpeak.power.meters.snmp.pdu import SnmpPdu

AT_UNIX_S = 1_700_000_000.0
J_PER_KWH = 3.6e6
Reply = dict[str, dict[str, Reading]]
PATIENT = SnmpPatience(timeout_s=120.0, retries=0)
SHORT = SnmpPatience(timeout_s=1.0, retries=0)


@dataclass(frozen=True)
class Expected:
    """What a PDU says: W and kWh in all, some of its parts, those without a value, and the note of its total."""

    total_w: float | None
    kwh: float | None
    parts_w: dict[str, float] = field(default_factory=dict)
    parts_kwh: dict[str, float] = field(default_factory=dict)
    none: tuple[str, ...] = ()
    resolution_w: float = 1.0
    why: str = ""


def login(folder: Path, community: str) -> Credential:
    """Return a credential whose file holds that community or key."""
    file = folder / f"{community}.password"
    file.touch(mode=0o600)
    file.write_text(f"{community}\n")
    return Credential("pdu", password_file=file)


def meter(pdu: Pdu, engines: SnmpEngines, *, logins: Logins | None = None, patience: SnmpPatience = PATIENT) -> SnmpPdu:
    """Return the meter of a PDU, whose clock stands still."""
    return SnmpPdu(pdu, engines=engines, logins=logins or Logins(), patience=patience, clock=lambda: AT_UNIX_S)


async def read_all(pdus: Sequence[Pdu]) -> list[tuple[Reading, ...] | BaseException]:
    """Return what all PDUs say at once, or why one cannot be read."""
    engines, logins = SnmpEngines(), Logins()
    meters = [meter(pdu, engines, logins=logins, patience=SnmpPatience()) for pdu in pdus]
    try:
        return await asyncio.gather(*(each.read() for each in meters), return_exceptions=True)
    finally:
        for each in meters:
            await each.close()


def read_recorded(
    names: Sequence[str], agents: tuple[Sequence[str], int], folder: Path, *, family: str = "auto"
) -> Reply:
    """Return what each recorded PDU says once, by its name and part; its family is found out unless it is given."""
    (host, *_), port = agents
    pdus = [Pdu(name, host, family, login(folder, name), port) for name in names]
    reply = asyncio.run(read_all(pdus))
    return {name: _by_part(each) for name, each in zip(names, reply, strict=True)}


def _by_part(reply: tuple[Reading, ...] | BaseException) -> dict[str, Reading]:
    if isinstance(reply, BaseException):
        raise reply
    return {reading.part: reading for reading in reply}


def compare(reply: dict[str, Reading], expected: Expected) -> None:
    """Fail unless a PDU says what is expected, without any other doubt, and why where it has no value."""
    total = reply["total"]
    assert total.power_w == pytest.approx(expected.total_w)
    assert total.energy_j == pytest.approx(expected.kwh if expected.kwh is None else expected.kwh * J_PER_KWH)
    assert {part: reply[part].power_w for part in expected.parts_w} == pytest.approx(expected.parts_w)
    kwh = {part: (reply[part].energy_j or 0) / J_PER_KWH for part in expected.parts_kwh}
    assert kwh == pytest.approx(expected.parts_kwh)
    silent = {part for part, reading in reply.items() if reading.power_w is None}
    assert silent == {*expected.none, *(("total",) if expected.total_w is None else ())}
    assert all(reply[part].why for part in silent)
    assert total.resolution_w == expected.resolution_w
    assert expected.why in total.why
    assert "doubtful" not in total.why or "doubtful" in expected.why, total.why
