"""A status sweep over a rack of BMCs with sessions held, and the same with an eighth of them dead."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands
from offpeak.errors import DeviceError
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.model.orders import PowerState
from offpeak.power.drivers.poll import iterate_completed, poll_drivers
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport

BMCS, DEAD, ROUNDS = 64, 8, 30
DATA = f"{BMCS} ipmi_sim on the same machine"


def ipmi_benchmarks() -> Iterator[Measured]:
    """Measure; nothing where ipmi_sim or a compiler is missing."""
    if not (shutil.which("ipmi_sim") and shutil.which("gcc")):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text("secret\n")
        with bmcs(folder, BMCS, compiled_commands(folder)) as made:
            polls_per_s, live_s = asyncio.run(_measured(made, password))
    yield Measured(f"status of {BMCS} BMCs, sessions held", polls_per_s, "polls/s", 400.0, True, DATA)
    yield Measured(f"the same, {DEAD} dead: all live ones seen after", live_s, "s", 1.0, False, DATA)


async def _measured(bmcs: Sequence[SimulatedBmc], password: Path) -> tuple[float, float]:
    """Return polls a second, and after how long [s] all live BMCs of a sweep have answered."""
    wire = Transport()
    drivers = {f"n{number}": driver_of(_machine(bmc, password), wire) for number, bmc in enumerate(bmcs)}
    await _seen(drivers)
    begin_s = time.perf_counter()
    for _ in range(ROUNDS):
        await _seen(drivers)
    polls_per_s = ROUNDS * len(bmcs) / (time.perf_counter() - begin_s)
    for bmc in bmcs[:DEAD]:
        bmc.kill()
    live_s = await _live_s(drivers)
    await wire.close()
    return polls_per_s, live_s


async def _seen(drivers: dict[str, PowerDriver]) -> None:
    seen = await poll_drivers(drivers, timeout_s=60.0, clock=time.time)
    if any(observation.state is not PowerState.ON for observation in seen.values()):
        raise RuntimeError(f"BMCs that were not seen: {seen}")


async def _live_s(drivers: dict[str, PowerDriver]) -> float:
    begin_s, last_s = time.perf_counter(), 0.0
    async for _, seen in iterate_completed({name: driver.query() for name, driver in drivers.items()}, timeout_s=60.0):
        if not isinstance(seen, DeviceError) and seen.error is None:
            last_s = time.perf_counter() - begin_s
    return last_s


def _machine(bmc: SimulatedBmc, password: Path) -> InventoryNode:
    login = Credential("bmc", "admin", password)
    hardware = Hardware("compute", driver="ipmi", credential=login, port=bmc.port, cipher_suite=3)
    return InventoryNode(bmc.host, hardware, bmc=bmc.host)
