"""PDUs in service, simulated: watts that vary, a counter that is written, one number that fails, a slow one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from pdu_reading import J_PER_KWH, login, meter
from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    Integer32,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    TimeTicks,
    UdpTransportTarget,
    set_cmd,
)

from offpeak.errors import NoAnswer
from offpeak.machines.inventory import Pdu
from offpeak.power.meters.snmp.client import SnmpPatience
from offpeak.power.meters.snmp.engines import SnmpEngines
from offpeak.power.meters.snmp.pdu import SnmpPdu

UPTIME = "1.3.6.1.2.1.1.3.0"
COUNTER = "1.3.6.1.4.1.318.1.1.26.4.3.1.9.1"
Agents = tuple[Sequence[str], int]


def with_pdu(pdu: Pdu, scenario: Callable[[SnmpPdu], Awaitable[None]], patience: SnmpPatience) -> None:
    async def run() -> None:
        reader = meter(pdu, SnmpEngines(), patience=patience)
        try:
            await scenario(reader)
        finally:
            await reader.close()

    asyncio.run(run())


async def write(place: tuple[str, int], community: str, oid: str, value: object) -> None:
    engine = SnmpEngine()
    target = await UdpTransportTarget.create(place)
    wanted = ObjectType(ObjectIdentity(oid), value)
    error, status, *_ = await set_cmd(engine, CommunityData(community), target, ContextData(), wanted, lookupMib=False)
    engine.close_dispatcher()
    assert (error, int(status)) == (None, 0)


def test_watts_vary_and_a_reset_counter_is_reported(recorded: Agents, tmp_path: Path) -> None:
    (host,), port = recorded

    async def scenario(reader: SnmpPdu) -> None:
        (total,) = await reader.read()
        assert total.power_w is not None
        assert 900 <= total.power_w <= 1300
        assert total.energy_j == 500 * J_PER_KWH
        # The outlets are behind a number that fails, in walks too.
        assert "rows may be missing: genErr" in total.why
        await write((host, port), "varying", COUNTER, Integer32(7))
        await write((host, port), "varying", UPTIME, TimeTicks(5))
        total, *_ = await reader.read()
        assert total.energy_j == pytest.approx(0.7 * J_PER_KWH)
        assert "restarted" in total.why

    with_pdu(Pdu("varying", host, "apc", login(tmp_path, "varying"), port), scenario, SnmpPatience())


@pytest.mark.parametrize(("timeout_s", "waits"), [(120.0, True), (0.1, False)])
def test_a_slow_pdu_is_waited_for_as_long_as_is_set(
    recorded: Agents, tmp_path: Path, timeout_s: float, waits: bool
) -> None:
    (host,), port = recorded

    async def scenario(reader: SnmpPdu) -> None:
        if waits:
            assert (await reader.read())[0].power_w == 1200
        else:
            with pytest.raises(NoAnswer):
                await reader.read()

    pdu = Pdu("slow", host, "apc", login(tmp_path, "slow"), port)
    with_pdu(pdu, scenario, SnmpPatience(timeout_s=timeout_s, retries=0))


def test_many_may_list_their_rows_at_once(recorded: Agents, tmp_path: Path) -> None:
    (host,), port = recorded
    pdu = Pdu("apc_chain", host, "apc", login(tmp_path, "apc_chain"), port)

    async def run() -> None:
        engines = SnmpEngines()
        readers = [meter(pdu, engines) for _ in range(12)]
        reply = await asyncio.gather(*(reader.read() for reader in readers))
        assert {readings[0].power_w for readings in reply} == {2160}
        for reader in readers:
            await reader.close()

    asyncio.run(run())
