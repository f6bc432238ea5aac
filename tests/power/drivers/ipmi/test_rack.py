"""A rack of 64 BMCs, of which eight die: the others are as quick as before, and the log stays short."""

import asyncio
import time
from collections import Counter

from ipmi_fixtures import MachineOf

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.errors import NoAnswer
from offpeak.model.orders import PowerState
from offpeak.power.drivers.poll import ReportedProblem, iterate_completed, limit_repeats, poll_drivers
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport

DEAD = 8
TIMEOUT_S = 10.0
ROUND_S = 300


def test_dead_bmcs_do_not_delay_live_ones(many_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    async def run() -> None:
        wire = Transport(timeout_s=TIMEOUT_S)
        drivers = {f"n{i}": driver_of(machine_of(bmc, node=f"n{i}"), wire) for i, bmc in enumerate(many_bmcs)}
        seen = await poll_drivers(drivers, timeout_s=ROUND_S, clock=time.time)
        assert [node for node, observation in seen.items() if observation.state is not PowerState.ON] == []
        for bmc in many_bmcs[:DEAD:2]:
            bmc.kill()
        for bmc in many_bmcs[1:DEAD:2]:
            bmc.freeze()

        for at_the_first_login in (False, True):
            if at_the_first_login:
                await wire.close()
            requested = {node: driver.query() for node, driver in drivers.items()}
            came = [node async for node, _ in iterate_completed(requested, timeout_s=ROUND_S)]
            assert set(came[-DEAD:]) == {f"n{i}" for i in range(DEAD)}

        reply: dict[str, ReportedProblem | None] = dict.fromkeys(drivers)
        lines = Counter[str]()
        for round_ in range(3):
            for node, observed in (await poll_drivers(drivers, timeout_s=ROUND_S, clock=time.time)).items():
                reply[node], line = limit_repeats(reply[node], _arguments(observed), at_unix_s=10.0 * round_)
                lines.update([node] if line else [])
        assert lines == Counter(f"n{i}" for i in range(DEAD))
        await wire.close()

    asyncio.run(run())


def _arguments(observed: PowerObservation) -> str | None:
    assert observed.error is None or isinstance(observed.error, NoAnswer)
    return None if observed.error is None else str(observed.error)
