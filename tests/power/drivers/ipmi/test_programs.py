"""Programs that speak IPMI: no password can be seen, nothing outlives its time, what is missing is said."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import QUOTED, SimulatedBmc
from offpeak.errors import NoAnswer, NotSupported
from offpeak.model.orders import PowerState
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport

PROGRAMS = ("ipmitool", "ipmipower")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a shell script in the place of both programs."""

    def put(script: str) -> None:
        for name in PROGRAMS:
            path = tmp_path / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        search = f"{tmp_path / 'bin'}:/usr/bin:/bin"
        monkeypatch.setattr("offpeak.power.drivers.ipmi.programs.SEARCH_PATH", search)

    return put


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_password_is_seen(
    program: str,
    few_bmcs: list[SimulatedBmc],
    machine_of: MachineOf,
    stand_in: Callable[[str], None],
    tmp_path: Path,
) -> None:
    stand_in(f"tr '\\0' '\\n' </proc/$$/cmdline >{tmp_path}/seen; tr '\\0' '\\n' </proc/$$/environ >>{tmp_path}/seen")
    asyncio.run(driver_of(machine_of(few_bmcs[0], password="hunter2", driver=program), Transport()).query())
    seen = (tmp_path / "seen").read_text()
    assert few_bmcs[0].host in seen
    assert "hunter2" not in seen


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_hangs_is_killed(
    program: str,
    few_bmcs: list[SimulatedBmc],
    machine_of: MachineOf,
    stand_in: Callable[[str], None],
    tmp_path: Path,
) -> None:
    stand_in(f"echo $$ >{tmp_path}/pid; exec sleep 3600")
    observed = asyncio.run(driver_of(machine_of(few_bmcs[0], driver=program), Transport(timeout_s=3.0)).query())
    assert isinstance(observed.error, NoAnswer)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(("program", "package"), [("ipmitool", "ipmitool"), ("ipmipower", "freeipmi-tools")])
def test_a_program_that_is_not_there_is_named_with_its_package(
    program: str,
    package: str,
    few_bmcs: list[SimulatedBmc],
    machine_of: MachineOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("offpeak.power.drivers.ipmi.programs.SEARCH_PATH", str(tmp_path))
    observed = asyncio.run(driver_of(machine_of(few_bmcs[0], driver=program), Transport()).query())
    assert isinstance(observed.error, NotSupported)
    assert f"{program} is not installed" in str(observed.error)
    assert observed.error.hint == f"apt install {package}"


@pytest.mark.parametrize("program", [*PROGRAMS, "ipmi"])
def test_a_password_may_hold_quotes_and_signs(
    program: str, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    async def state() -> PowerState:
        wire = Transport(timeout_s=120)
        machine = machine_of(few_bmcs[0], user="quoted", password=QUOTED, driver=program)
        observed = await driver_of(machine, wire).query()
        await wire.close()
        return observed.state

    assert asyncio.run(state()) is PowerState.ON


def test_messages_of_a_program_are_one_line(
    few_bmcs: list[SimulatedBmc], machine_of: MachineOf, stand_in: Callable[[str], None]
) -> None:
    stand_in("echo 'something new' >&2; echo 'and more' >&2; exit 3")
    observed = asyncio.run(driver_of(machine_of(few_bmcs[0], driver="ipmitool"), Transport()).query())
    assert str(observed.error).endswith(": something new; and more")
