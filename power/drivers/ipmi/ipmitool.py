"""The second way: ipmitool, one process a request. For BMCs that pyghmi cannot talk to."""

import re
from dataclasses import dataclass
from functools import partial

from offpeak.door.door import Guard
from offpeak.machines.credentials import Secret
from offpeak.machines.inventory import InventoryNode
from power.drivers.ipmi.address import BmcAddress, address_of
from power.drivers.ipmi.driver import AskedBmc, BmcDriver
from power.drivers.ipmi.program import Call, Printed, Runs
from power.drivers.ipmi.request import Request
from power.drivers.ipmi.troubles import trouble_in_words, trouble_of_code
from power.drivers.wire import Wire

LEVELS = {"user": "USER", "operator": "OPERATOR", "admin": "ADMINISTRATOR"}
CODE = re.compile(r"rsp=0x([0-9a-f]{1,2})\)")
NOISE = ("Loading IANA", "Running Get VSO", "Invalid completion code received", "Discovered IPMB", "Get HPM.x", "RAW R")
"""Lines that `-v` prints of requests which succeed; without it, a wrong password looks like a dead BMC."""


@dataclass(frozen=True)
class Ipmitool:
    """Makes requests of one BMC."""

    bmc: BmcAddress
    runs: Runs

    async def ask(self, request: Request) -> bytes:
        """Return the data of the answer; DeviceError as `troubles` tells."""
        return await self.command(request, None)

    async def command(self, request: Request, guard: Guard | None) -> bytes:
        """As `ask`; `guard` is called directly before the program starts."""
        call = Call("ipmitool", "ipmitool", partial(self._arguments, request), _first_line)
        code, data = await self.runs.run(call, self._meaning, guard)
        if code:
            raise trouble_of_code(self.bmc, request.name, code)
        return data

    async def close(self) -> None:
        """Nothing is held."""

    def _arguments(self, request: Request, address: str, password_file: str) -> tuple[str, ...]:
        bmc = self.bmc
        where = ("-I", "lanplus", "-H", address, "-p", str(bmc.port), "-N", "1", "-R", "2", "-v")
        who = ("-U", bmc.credential.user, "-f", password_file, "-L", LEVELS[bmc.privilege], "-C", str(bmc.cipher_suite))
        return (*where, *who, "raw", *(f"0x{byte:02x}" for byte in (request.netfn, request.command, *request.data)))

    def _meaning(self, printed: Printed) -> tuple[int, bytes]:
        if printed.code == 0:
            return 0, bytes.fromhex(printed.output)
        if code := CODE.search(printed.errors):
            return int(code[1], 16), b""
        said = (line for line in printed.errors.splitlines() if not line.startswith(NOISE))
        raise trouble_in_words(self.bmc, "; ".join(said))


def ipmitool_driver(machine: InventoryNode, wire: Wire) -> BmcDriver:
    """Return the driver; of the inventory it takes cipher_suite and privilege as they are, and no workarounds."""
    bmc = address_of(machine)
    tool = Ipmitool(bmc, Runs(bmc, wire))
    return BmcDriver(f"{bmc} by ipmitool", AskedBmc(tool.ask, tool.command, tool.close), wire.clock)


def _first_line(secret: Secret) -> bytes:
    return secret.value + b"\n"
