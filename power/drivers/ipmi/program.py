"""A program that speaks IPMI, run once per request; its password comes through a pipe, so that nobody can read it.

Neither arguments nor environment hold it: both can be read in /proc, the arguments by everybody.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from offpeak.door.door import Guard
from offpeak.errors import NotSupported
from offpeak.machines.credentials import Secret
from power.drivers.ipmi.address import BmcAddress
from power.drivers.ipmi.presence import present
from power.drivers.ipmi.secret import secret_of
from power.drivers.ipmi.troubles import silent
from power.drivers.wire import Wire

# A service's PATH may lack the folders of the administrator's programs.
SEARCH_PATH = os.pathsep.join(["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"])

Meaning = TypeVar("Meaning")


@dataclass(frozen=True)
class Printed:
    """What a program printed until it ended with `code`."""

    code: int | None
    output: str
    errors: str


@dataclass(frozen=True)
class Call:
    """A program with its arguments after it has been told the BMC's numeric address and the path of the pipe."""

    program: str
    package: str
    arguments: Callable[[str, str], Sequence[str]]
    secret_text: Callable[[Secret], bytes]


@dataclass(frozen=True)
class Runs:
    """Runs programs for one BMC. Each run is a login, so each goes through the wire's `logins`."""

    bmc: BmcAddress
    wire: Wire

    async def run(self, call: Call, meaning: Callable[[Printed], Meaning], guard: Guard | None = None) -> Meaning:
        """Return what the program's output means; `meaning` raises DeviceError where the login has failed.

        `guard` is called directly before the program starts; the program's own login belongs to the one command.
        NotSupported if the program is not installed, NoAnswer if there is no BMC or the program is not done in time;
        then it is killed.
        """
        path = shutil.which(call.program, path=SEARCH_PATH)
        if path is None:
            what = f"{self.bmc}: {call.program} is not installed"
            raise NotSupported(what, hint=f"apt install {call.package}")
        wire = self.wire
        address = await present(self.bmc, wire.timeout_s, at_once=wire.searches)
        secret = secret_of(self.bmc)

        async def attempt() -> Meaning:
            try:
                async with wire.forks, asyncio.timeout(wire.timeout_s):
                    if guard is not None:
                        guard()
                    return meaning(await _printed(path, call, address, secret))
            except TimeoutError:
                raise silent(self.bmc, wire.timeout_s) from None

        return await wire.logins.log_in(self.bmc.credential, self.bmc.host, attempt, secret=secret)


async def _printed(path: str, call: Call, address: str, secret: Secret) -> Printed:
    pipe = _filled_pipe(call.secret_text(secret))
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            *call.arguments(address, f"/dev/fd/{pipe}"),
            env={"PATH": SEARCH_PATH, "LC_ALL": "C"},
            pass_fds=(pipe,),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    finally:
        os.close(pipe)
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.communicate()
        raise
    return Printed(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


def _filled_pipe(text: bytes) -> int:
    """Return the end to read of a pipe that holds the text, which is much shorter than a pipe is deep."""
    read_end, write_end = os.pipe()
    os.write(write_end, text)
    os.close(write_end)
    return read_end
