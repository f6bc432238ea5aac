"""The programs ipmitool and ipmipower as drivers: one process for each request.

ipmitool is for BMCs that pyghmi cannot talk to; FreeIPMI's ipmipower has workarounds for the faults of many BMCs. The
program reads the password from a pipe. Neither arguments nor environment contain it: both can be read in /proc, the
arguments by every user.
"""

import asyncio
import math
import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer, NotSupported
from offpeak.machines.credentials import Secret
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.ipmi.bmc import (
    BmcAddress,
    address_of,
    error_of_code,
    error_of_text,
    find_bmc,
    read_password,
    timeout_error,
)
from offpeak.power.drivers.ipmi.driver import BmcDriver, RawRequestBmc
from offpeak.power.drivers.ipmi.requests import IpmiRequest, read_system_guid
from offpeak.power.drivers.transport import Transport
from offpeak.process import KILLED, ends_in_time

# A service's PATH may lack the sbin folders.
SEARCH_PATH = os.pathsep.join(["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"])

Meaning = TypeVar("Meaning")

IPMITOOL_LEVELS = {"user": "USER", "operator": "OPERATOR", "admin": "ADMINISTRATOR"}
COMPLETION_CODE = re.compile(r"rsp=0x([0-9a-f]{1,2})\)")
IPMITOOL_NOISE = (
    "Loading IANA",
    "Running Get VSO",
    "Invalid completion code received",
    "Discovered IPMB",
    "Get HPM.x",
    "RAW R",
)
"""Lines that `-v` prints for successful requests; without `-v`, a wrong password looks like a dead BMC."""

FREEIPMI_PACKAGE = "freeipmi-tools"
IPMIPOWER_OPTIONS = {NodeOrder.ON: "--on", NodeOrder.SOFT_OFF: "--soft", NodeOrder.HARD_OFF: "--off"}
IPMIPOWER_STATES = {"on": True, "off": False}


@dataclass(frozen=True)
class ProgramOutput:
    """The output and exit code of a program."""

    code: int | None
    output: str
    errors: str


@dataclass(frozen=True)
class ProgramCall:
    """A program, and the function that returns its arguments for the BMC's numeric address and the path of the pipe."""

    program: str
    package: str
    arguments: Callable[[str, str], Sequence[str]]
    secret_text: Callable[[Secret], bytes]


@dataclass(frozen=True)
class ProgramRunner:
    """Runs programs for one BMC. Each run is a login, so each goes through the transport's `logins`."""

    bmc: BmcAddress
    wire: Transport

    async def run(
        self, call: ProgramCall, meaning: Callable[[ProgramOutput], Meaning], guard: Guard | None = None
    ) -> Meaning:
        """Return the parsed output of the program; `meaning` parses it and raises DeviceError if the login failed.

        `guard` is called directly before the program starts. The program logs in before it sends the command: it ends
        when what the guard has checked no longer holds, even if this program is stopped meanwhile. Raises NotSupported
        if the program is not installed, NoAnswer if the BMC is absent or the program takes too long; it is then killed.
        """
        path = shutil.which(call.program, path=SEARCH_PATH)
        if path is None:
            what = f"{self.bmc}: {call.program} is not installed"
            raise NotSupported(what, hint=f"apt install {call.package}")
        wire = self.wire
        address = await find_bmc(self.bmc, wire.timeout_s, at_once=wire.searches)
        secret = read_password(self.bmc)

        async def attempt() -> Meaning:
            try:
                async with wire.forks, asyncio.timeout(wire.timeout_s):
                    if guard is None:
                        return meaning(await _run_program((path,), call, address, secret))
                    timeout_s = min(wire.timeout_s, guard() or wire.timeout_s)
                    printed = await _run_program(ends_in_time((path,), timeout_s), call, address, secret)
                    if printed.code in KILLED:
                        raise timeout_error(self.bmc, timeout_s)
                    return meaning(printed)
            except TimeoutError:
                raise timeout_error(self.bmc, wire.timeout_s) from None

        return await wire.logins.log_in(self.bmc.credential, self.bmc.host, attempt, secret=secret)


async def _run_program(command: Sequence[str], call: ProgramCall, address: str, secret: Secret) -> ProgramOutput:
    text = call.secret_text(secret)
    read_end, write_end = os.pipe()
    os.write(write_end, text)
    os.close(write_end)
    pipe = read_end
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            *call.arguments(address, f"/dev/fd/{pipe}"),
            env={"PATH": SEARCH_PATH, "LC_ALL": "C"},
            pass_fds=(pipe,),
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    finally:
        os.close(pipe)
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        raise
    return ProgramOutput(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


@dataclass(frozen=True)
class IpmitoolBmc:
    """Sends requests to one BMC."""

    bmc: BmcAddress
    runs: ProgramRunner

    async def ask(self, request: IpmiRequest) -> bytes:
        """Return the data of the answer. Raises DeviceError."""
        return await self.command(request, None)

    async def command(self, request: IpmiRequest, guard: Guard | None) -> bytes:
        """Like `ask`; `guard` is called directly before the program starts."""
        call = ProgramCall(
            "ipmitool", "ipmitool", partial(self._arguments, request, guard), lambda secret: secret.value + b"\n"
        )
        code, data = await self.runs.run(call, self._meaning, guard)
        if code:
            raise error_of_code(self.bmc, request.name, code)
        return data

    async def close(self) -> None:
        """Nothing is held."""

    def _arguments(
        self, request: IpmiRequest, guard: Guard | None, address: str, password_file: str
    ) -> tuple[str, ...]:
        bmc = self.bmc
        # An order is sent once.
        tries = ("-N", "1", "-R", "2") if guard is None else ("-N", f"{math.ceil(self.runs.wire.timeout_s)}", "-R", "1")
        where = ("-I", "lanplus", "-H", address, "-p", str(bmc.port), *tries, "-v")
        who = (
            "-U",
            bmc.credential.user,
            "-f",
            password_file,
            "-L",
            IPMITOOL_LEVELS[bmc.privilege],
            "-C",
            str(bmc.cipher_suite),
        )
        return (*where, *who, "raw", *(f"0x{byte:02x}" for byte in (request.netfn, request.command, *request.data)))

    def _meaning(self, printed: ProgramOutput) -> tuple[int, bytes]:
        if printed.code == 0:
            return 0, bytes.fromhex(printed.output)
        if code := COMPLETION_CODE.search(printed.errors):
            return int(code[1], 16), b""
        reply = (line for line in printed.errors.splitlines() if not line.startswith(IPMITOOL_NOISE))
        raise error_of_text(self.bmc, "; ".join(reply))


def ipmitool_driver(machine: InventoryNode, wire: Transport) -> BmcDriver:
    """Return the driver. It passes cipher_suite and privilege of the inventory unchanged, and no workarounds."""
    bmc = address_of(machine)
    tool = IpmitoolBmc(bmc, ProgramRunner(bmc, wire))
    return BmcDriver(f"{bmc} by ipmitool", RawRequestBmc(tool.ask, tool.command, tool.close), wire.clock)


@dataclass(frozen=True)
class IpmipowerBmc:
    """Reads one BMC's power state by ipmipower, and its GUID by ipmi-raw of the same package."""

    bmc: BmcAddress
    runs: ProgramRunner

    async def is_on(self) -> bool:
        """Return whether the chassis has power."""
        reply = await self._power("--stat")
        if reply not in IPMIPOWER_STATES:
            raise BadAnswer(f"{self.bmc}: ipmipower says {reply!r} instead of on or off")
        return IPMIPOWER_STATES[reply]

    async def control(self, order: NodeOrder, guard: Guard) -> None:
        """Give the order."""
        await self._power(IPMIPOWER_OPTIONS[order], guard)

    async def guid(self) -> str | None:
        """Return who it is."""
        return await read_system_guid(self._raw)

    async def close(self) -> None:
        """Nothing is held."""

    async def _power(self, option: str, guard: Guard | None = None) -> str:
        whole_ms = math.ceil(1000 * self.runs.wire.timeout_s)
        # An order is sent once: by itself ipmipower repeats it each second for twenty.
        once = [f"--session-timeout={whole_ms}", f"--retransmission-timeout={whole_ms}"]
        options = [option] if guard is None else [*once, option]
        return await self.runs.run(self._call("ipmipower", options), self._power_meaning, guard)

    async def _raw(self, request: IpmiRequest) -> bytes:
        numbers = [f"0x{byte:02x}" for byte in (0, request.netfn, request.command, *request.data)]
        received = await self.runs.run(self._call("ipmi-raw", numbers), self._raw_meaning)
        if received[1]:
            raise error_of_code(self.bmc, request.name, received[1])
        return received[2:]

    def _call(self, program: str, options: Sequence[str]) -> ProgramCall:
        return ProgramCall(program, FREEIPMI_PACKAGE, partial(self._arguments, options), self._configuration)

    def _arguments(self, options: Sequence[str], address: str, configuration: str) -> tuple[str, ...]:
        bmc = self.bmc
        host = f"[{address}]:{bmc.port}" if ":" in address else f"{address}:{bmc.port}"
        workarounds = ("-W", ",".join(bmc.workarounds)) if bmc.workarounds else ()
        how = ("-D", "LAN_2_0", "-I", str(bmc.cipher_suite), "-l", bmc.privilege.upper(), *workarounds)
        return (f"--config-file={configuration}", "-h", host, *how, *options)

    def _configuration(self, secret: Secret) -> bytes:
        return b"username %s\npassword %s\n" % (_quote(self.bmc.credential.user.encode()), _quote(secret.value))

    def _power_meaning(self, printed: ProgramOutput) -> str:
        # The exit code does not help: it is 0 for "BMC error".
        reply = printed.output.strip().rpartition(": ")[2]
        if reply in ("on", "off", "ok"):
            return reply
        raise error_of_text(self.bmc, printed.errors or reply)

    def _raw_meaning(self, printed: ProgramOutput) -> bytes:
        reply, _, received = printed.output.strip().partition("rcvd: ")
        if received and not reply:
            return bytes.fromhex(received)
        raise error_of_text(self.bmc, printed.errors or reply)


def ipmipower_driver(machine: InventoryNode, wire: Transport) -> BmcDriver:
    """Return the driver. It passes cipher_suite, privilege and workarounds of the inventory unchanged."""
    bmc = address_of(machine)
    return BmcDriver(f"{bmc} by ipmipower", IpmipowerBmc(bmc, ProgramRunner(bmc, wire)), wire.clock)


def _quote(value: bytes) -> bytes:
    """Quote a word for freeipmi.conf, with a backslash before characters that would end it or start a comment."""
    return b'"' + re.sub(rb'(["#\\])', rb"\\\1", value) + b'"'
