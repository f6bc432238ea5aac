"""A BMC that refuses cipher suite 17: pyghmi falls back to SHA-1, which is reported once."""

import asyncio
import logging
from pathlib import Path

import pytest
from served_room import planned, served_room

from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.check.devices import check_bmc
from offpeak.power.drivers.ipmi.driver import ipmi_driver
from offpeak.power.drivers.transport import Transport
from offpeak.sim_backend.virtual.rmcp import login
from offpeak.sim_backend.virtual.rmcp.sessions import SUITES

FALLEN_BACK = "refused cipher suite 17; its sessions use 3, SHA-1"


@pytest.mark.parametrize("offered", [(3,), (3, 17)])
def test_a_fall_back_is_reported_once(
    offered: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login, "SUITES", tuple(suite for suite in SUITES if suite.number in offered))
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    plan = planned("n1")
    hardware = Hardware("h", driver="ipmi", credential=Credential("bmc", "admin", password), port=plan.bmc_port)
    machine = InventoryNode("n1", hardware, bmc=plan.bmc_host)

    async def use() -> list[str]:
        wire = Transport(timeout_s=20)
        try:
            found = await check_bmc(machine, wire)
            driver = ipmi_driver(machine, wire)
            for _ in range(2):
                await driver.close()
                assert (await driver.query()).error is None
            return [finding.message for finding in found]
        finally:
            await wire.close()

    with served_room(plan), caplog.at_level(logging.WARNING, "offpeak"):
        reply = asyncio.run(use())
    weak = offered == (3,)
    assert (FALLEN_BACK in reply) is weak, reply
    assert sum("the BMC refused cipher suite 17" in line for line in caplog.messages) == weak
