"""The third way: FreeIPMI's ipmipower, which knows how to get round the faults of many BMCs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer
from offpeak.machines.credentials import Secret
from offpeak.machines.inventory import InventoryNode
from power.drivers.ipmi.address import BmcAddress, address_of
from power.drivers.ipmi.driver import BmcDriver
from power.drivers.ipmi.program import Call, Printed, Runs
from power.drivers.ipmi.request import Request, system_guid
from power.drivers.ipmi.troubles import trouble_in_words, trouble_of_code
from power.drivers.port import Order
from power.drivers.wire import Wire

PACKAGE = "freeipmi-tools"
OPTIONS = {Order.ON: "--on", Order.SOFT_OFF: "--soft", Order.HARD_OFF: "--off"}
STATES = {"on": True, "off": False}


@dataclass(frozen=True)
class Ipmipower:
    """Asks one BMC for its power by ipmipower, and for who it is by ipmi-raw of the same package."""

    bmc: BmcAddress
    runs: Runs

    async def is_on(self) -> bool:
        """Return whether the chassis has power."""
        said = await self._power("--stat")
        if said not in STATES:
            raise BadAnswer(f"{self.bmc}: ipmipower says {said!r} instead of on or off")
        return STATES[said]

    async def control(self, order: Order, guard: Guard) -> None:
        """Give the order."""
        await self._power(OPTIONS[order], guard)

    async def guid(self) -> str | None:
        """Return who it is."""
        return await system_guid(self._raw)

    async def close(self) -> None:
        """Nothing is held."""

    async def _power(self, option: str, guard: Guard | None = None) -> str:
        return await self.runs.run(self._call("ipmipower", [option]), self._power_meaning, guard)

    async def _raw(self, request: Request) -> bytes:
        numbers = [f"0x{byte:02x}" for byte in (0, request.netfn, request.command, *request.data)]
        received = await self.runs.run(self._call("ipmi-raw", numbers), self._raw_meaning)
        if received[1]:
            raise trouble_of_code(self.bmc, request.name, received[1])
        return received[2:]

    def _call(self, program: str, words: Sequence[str]) -> Call:
        return Call(program, PACKAGE, partial(self._arguments, words), self._configuration)

    def _arguments(self, words: Sequence[str], address: str, configuration: str) -> tuple[str, ...]:
        bmc = self.bmc
        host = f"[{address}]:{bmc.port}" if ":" in address else f"{address}:{bmc.port}"
        workarounds = ("-W", ",".join(bmc.workarounds)) if bmc.workarounds else ()
        how = ("-D", "LAN_2_0", "-I", str(bmc.cipher_suite), "-l", bmc.privilege.upper(), *workarounds)
        return (f"--config-file={configuration}", "-h", host, *how, *words)

    def _configuration(self, secret: Secret) -> bytes:
        return b"username %s\npassword %s\n" % (_quoted(self.bmc.credential.user.encode()), _quoted(secret.value))

    def _power_meaning(self, printed: Printed) -> str:
        # Its exit code is no help: it is 0 for "BMC error".
        said = printed.output.strip().rpartition(": ")[2]
        if said in ("on", "off", "ok"):
            return said
        raise trouble_in_words(self.bmc, printed.errors or said)

    def _raw_meaning(self, printed: Printed) -> bytes:
        said, _, received = printed.output.strip().partition("rcvd: ")
        if received and not said:
            return bytes.fromhex(received)
        raise trouble_in_words(self.bmc, printed.errors or said)


def ipmipower_driver(machine: InventoryNode, wire: Wire) -> BmcDriver:
    """Return the driver; of the inventory it takes cipher_suite, privilege and workarounds as they are."""
    bmc = address_of(machine)
    return BmcDriver(f"{bmc} by ipmipower", Ipmipower(bmc, Runs(bmc, wire)), wire.clock)


def _quoted(word: bytes) -> bytes:
    """Return a word as freeipmi.conf wants it: quoted, a backslash before what would end it or begin a comment."""
    return b'"' + re.sub(rb'(["#\\])', rb"\\\1", word) + b'"'
