"""The BMCs of a soak, which can be frozen, killed, and started again as themselves or as others.

Each is reached by a wire that notes the orders as they pass: most are ipmi_sim, every fourth one speaks Redfish.
"""

import sys
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.local_slurm.http_wire import http_wire
from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands, restarted
from benchmarks.local_slurm.processes import missing_files, reserved_ports, start_server, wait_until
from benchmarks.local_slurm.wire import Wire, wire
from benchmarks.soak_cycles import redfish

OTHER_BMC_GUID = uuid.UUID("6b9f3c52-0c7e-4e0b-9d55-7b8f2f4a9d10")
NEEDED = ("ipmi_sim", "gcc", "setpriv")
WIRE_PORT = 6230
REDFISH_EVERY = 4


def lacking_programs() -> list[str]:
    """Return what must be installed first."""
    return missing_files(NEEDED)


@dataclass(frozen=True)
class RedfishBmc(SimulatedBmc):
    """A process of redfish.py, which listens at `own_port`; `port` is that of its wire."""

    own_port: int = 0

    def settle(self) -> None:
        """Return when the BMC has answered."""
        wait_until(lambda: self._answers() or self.process.poll() is not None, what="a Redfish BMC")
        if self.process.poll() is not None:
            raise RuntimeError(f"a BMC has ended: {(self.folder / 'out').read_text()}")

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://{self.host}:{self.own_port}/redfish/v1", timeout=1.0):
            return True
        return False


@contextmanager
def started_redfish(bmc: RedfishBmc, guid: str) -> Iterator[RedfishBmc]:
    """Run the BMC with its files as they are."""
    command = (sys.executable, "-S", "-E", redfish.__file__, str(bmc.folder), str(bmc.own_port), guid)
    started = replace(bmc, process=start_server(command, bmc.folder / "out", {}))
    try:
        started.settle()
        yield started
    finally:
        started.thaw()
        started.kill()


class Bmcs:
    """All BMCs by their numbers, with the wires to them. What was started again ends with the rest."""

    def __init__(self, made: Sequence[SimulatedBmc], wires: Sequence[Wire]) -> None:
        self.made, self.wires = list(made), tuple(wires)
        self._again: dict[int, ExitStack] = {}

    def restart(self, number: int, *, guid: uuid.UUID | None = None) -> SimulatedBmc:
        """Return the BMC after a restart, with the GUID of another board if one is given."""
        self.made[number].thaw()
        self.made[number].kill()
        if number in self._again:
            self._again.pop(number).close()
        stack = self._again[number] = ExitStack()
        bmc = self.made[number]
        again = (
            started_redfish(bmc, str(guid or bmc.guid)) if isinstance(bmc, RedfishBmc) else restarted(bmc, guid=guid)
        )
        self.made[number] = stack.enter_context(again)
        return self.made[number]

    def close(self) -> None:
        """End those that were started again."""
        for stack in self._again.values():
            stack.close()


@contextmanager
def running_bmcs(folder: Path, count: int) -> Iterator[Bmcs]:
    """Run so many, named n1, n2 and so on."""
    others = range(REDFISH_EVERY, count + 1, REDFISH_EVERY)
    with (
        bmcs(folder, count - len(others), compiled_commands(folder)) as simulated,
        reserved_ports(len(others)) as ports,
        ExitStack() as stack,
    ):
        ipmi, free, made, wires = iter(simulated), iter(ports), list[SimulatedBmc](), list[Wire]()
        for number in range(1, count + 1):
            name = f"n{number}"
            if number in others:
                port, own = next(free), folder / f"redfish{number}"
                own.mkdir()
                (own / "power").write_text("on\n")
                passed, wire_port = stack.enter_context(http_wire(name, ("127.0.0.1", port)))
                known = str(uuid.UUID(int=number))
                bmc = RedfishBmc("127.0.0.1", wire_port, known, own, simulated[0].process, own_port=port)
                made.append(stack.enter_context(started_redfish(bmc, known)))
            else:
                each = next(ipmi)
                passed = stack.enter_context(wire(name, (each.host, each.port), WIRE_PORT, "secret"))
                made.append(replace(each, port=WIRE_PORT))
            wires.append(passed)
        running = Bmcs(made, wires)
        try:
            yield running
        finally:
            running.close()
