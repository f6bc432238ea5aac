"""The stand-in's server: takes a call of a program as texts between zeros, and answers so. Time goes on meanwhile."""

import asyncio
import pwd
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from sim_backend.pbs_standin.commands import PROGRAMS, Call, answer
from sim_backend.pbs_standin.pbs import Pbs

TICK_S = 0.1
ZERO = b"\0"
_CREDENTIALS = struct.Struct("3i")


@asynccontextmanager
async def served(pbs: Pbs, path: Path, clock: Callable[[], float] = time.time) -> AsyncIterator[None]:
    """Answer at a Unix socket until the block ends. `clock` tells Unix seconds."""
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(partial(_hear, pbs, clock), path)
    path.chmod(0o666)
    ticking = asyncio.create_task(_tick(pbs, clock))
    try:
        yield
    finally:
        ticking.cancel()
        server.close()
        with suppress(asyncio.CancelledError):
            await ticking
        path.unlink(missing_ok=True)


async def _tick(pbs: Pbs, clock: Callable[[], float]) -> None:
    while True:
        pbs.step(clock())
        await asyncio.sleep(TICK_S)


async def _hear(
    pbs: Pbs, clock: Callable[[], float], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        said = answer(pbs, _call(await reader.read(), _peer(writer), clock()))
        writer.write(ZERO.join((str(said.code).encode(), said.err.encode(errors="replace"), said.out)))
        await writer.drain()
    finally:
        writer.close()


def _call(told: bytes, user: str, now_s: float) -> Call:
    claims, program, text, *words = (part.decode(errors="replace") for part in told.split(ZERO))
    named = program if program in PROGRAMS else "qstat"
    return Call(named, tuple(words), claims if user == "root" and claims else user, text, now_s)


def _peer(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(peer)
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
