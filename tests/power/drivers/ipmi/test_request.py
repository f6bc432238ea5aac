"""What else a BMC tells: its restore policy, the ACPI state, and who it is if it says so."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmc, own_network
from offpeak.errors import BadAnswer, NotSupported
from offpeak.machines.inventory import InventoryNode
from offpeak.power.drivers.ipmi.bmc import address_of
from offpeak.power.drivers.ipmi.requests import (
    RESTORE_POLICIES,
    SYSTEM_GUID,
    IpmiRequest,
    SendRequest,
    read_is_on,
    read_restore_policy,
    read_system_guid,
)
from offpeak.power.drivers.transport import Transport

pytestmark = pytest.mark.quick

Result = TypeVar("Result")


def requested(machine: InventoryNode, question: Callable[[SendRequest], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        wire = Transport(timeout_s=10)
        try:
            return await question(partial(wire.sessions.ask, address_of(machine)))
        finally:
            await wire.close()

    return asyncio.run(run())


def ipmitool(bmc: SimulatedBmc, *arguments: str) -> None:
    login = ("-H", bmc.host, "-p", str(bmc.port), "-U", "admin", "-P", "secret", "-C", "3")
    subprocess.run(["ipmitool", "-I", "lanplus", *login, *arguments], capture_output=True, timeout=300, check=True)


@pytest.mark.parametrize("policy", RESTORE_POLICIES[:3])
def test_the_restore_policy_is_what_ipmitool_has_set(
    policy: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    ipmitool(few_bmcs[0], "chassis", "policy", policy)
    assert requested(machine_of(few_bmcs[0]), read_restore_policy) == policy


def test_a_policy_that_the_bmc_does_not_know_is_unknown(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    few_bmcs[0].write("policy", "3")
    assert requested(machine_of(few_bmcs[0]), read_restore_policy) == "unknown"
    assert requested(machine_of(few_bmcs[0]), read_is_on) is True


def test_a_bmc_may_have_no_identity(bmc_commands: Path, tmp_path: Path, machine_of: MachineOf) -> None:
    with own_network() as network, bmc(tmp_path / "bmc", f"{network}.1", 1, bmc_commands, guid="00" * 16) as nameless:
        assert requested(machine_of(nameless), read_system_guid) is None


def test_a_bmc_of_ipmi_1_5_is_not_supported(bmc_commands: Path, tmp_path: Path, machine_of: MachineOf) -> None:
    # ipmi_sim offers IPMI 2.0 only with a GUID.
    with (
        own_network() as network,
        bmc(tmp_path / "bmc", f"{network}.1", 1, bmc_commands, guid="") as old,
        pytest.raises(NotSupported, match=r"IPMI 2\.0 unavailable"),
    ):
        requested(machine_of(old), read_is_on)


def answers(data: bytes | None) -> SendRequest:
    async def ask(request: IpmiRequest) -> bytes:
        if data is None or request is SYSTEM_GUID:
            raise NotSupported(request.name)
        return data

    return ask


def test_the_bmc_is_queried_where_the_system_has_no_name() -> None:
    assert asyncio.run(read_system_guid(answers(bytes(range(16))))) is not None
    assert asyncio.run(read_system_guid(answers(bytes(16)))) is None
    assert asyncio.run(read_system_guid(answers(None))) is None


@pytest.mark.parametrize("question", [read_is_on, read_restore_policy, read_system_guid])
def test_answers_that_are_cut_off_are_no_answers(question: Callable[[SendRequest], Awaitable[object]]) -> None:
    with pytest.raises(BadAnswer):
        asyncio.run(question(answers(b"\x01")))  # type: ignore[arg-type]
