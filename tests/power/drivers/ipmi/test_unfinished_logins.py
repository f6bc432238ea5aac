"""Logins that are given up, or begun anew, leave no session at the BMC."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from served_room import planned
from udp_tap import RAKP_2, RAKP_4, Tap, tap

from offpeak.errors import NoAnswer
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.model.orders import PowerState
from offpeak.power.drivers.ipmi.driver import BmcDriver, ipmi_driver
from offpeak.power.drivers.transport import Transport
from offpeak.sim_backend.virtual.node import BmcUser, LiveNode, VirtualBmc, VirtualNode, clock_of
from offpeak.sim_backend.virtual.rmcp.server import BmcServer, serve
from offpeak.sim_backend.virtual.rmcp.sessions import SessionTable

CLOSED_S = 300.0


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text("secret\n")
    return file


@asynccontextmanager
async def tapped_bmc(password: Path, *, timeout_s: float) -> AsyncIterator[tuple[BmcDriver, Tap, SessionTable]]:
    """Give the driver of a virtual BMC, the tap between both, and the BMC's sessions."""
    plan = planned("n1")
    node = LiveNode("n1", clock_of(1.0), random.Random(1), VirtualNode(plan.node_class))
    server = await serve(VirtualBmc(node, {b"admin": BmcUser(b"secret")}), plan.bmc_host, plan.bmc_port)
    wire = Transport(timeout_s=timeout_s)
    try:
        with tap(plan.bmc_host, plan.bmc_port) as tapped:
            hardware = Hardware("virtual", "ipmi", Credential("bmc", "admin", password), tapped.port)
            driver = ipmi_driver(InventoryNode("n1", hardware, bmc="127.0.0.1"), wire)
            yield driver, tapped, cast(BmcServer, server.get_protocol()).desk.sessions
            await wire.close()
    finally:
        server.close()


async def settled(sessions: SessionTable, *, count: int) -> int:
    """Return how many sessions are open once these are, or it has been waited for long enough."""
    for _ in range(int(CLOSED_S / 0.02)):
        if len(sessions.by_id) == count:
            break
        await asyncio.sleep(0.02)
    return len(sessions.by_id)


@pytest.mark.parametrize("lost", [RAKP_2, RAKP_4])
def test_a_login_that_is_given_up_leaves_no_session(lost: int, password: Path) -> None:
    async def use() -> None:
        async with tapped_bmc(password, timeout_s=0.4) as (driver, tapped, sessions):
            tapped.lost.append(lost)
            assert isinstance((await driver.query()).error, NoAnswer)
            assert await settled(sessions, count=0) == 0
            async with asyncio.timeout(300):
                while (await driver.query()).state is not PowerState.ON:
                    pass
            assert await settled(sessions, count=1) == 1

    asyncio.run(use())


@pytest.mark.parametrize("lost", [RAKP_2, RAKP_4])
def test_a_login_that_is_begun_anew_leaves_no_session(lost: int, password: Path) -> None:
    async def use() -> None:
        async with tapped_bmc(password, timeout_s=120.0) as (driver, tapped, sessions):
            tapped.lost.append(lost)
            assert (await driver.query()).state is PowerState.ON
            assert await settled(sessions, count=1) == 1
            await driver.close()
            assert await settled(sessions, count=0) == 0

    asyncio.run(use())
