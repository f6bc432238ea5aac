"""The stand-in's server on its socket, the programs that call it, and a virtual room as its nodes.

A program sends its arguments as texts between zeros and prints the answer, which comes back in the same form. Time goes
on meanwhile. In a virtual room a node that is up registers; one that goes down takes its jobs with it.
"""

import asyncio
import os
import pwd
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from offpeak.model.node_states import ACTIVE
from offpeak.sim_backend.pbs_standin.commands import PROGRAMS, RUNNING, SHUTDOWN, PbsCall, answer
from offpeak.sim_backend.pbs_standin.pbs import Pbs, new_pbs
from offpeak.sim_backend.scheduler.cluster import SimNode
from offpeak.sim_backend.virtual.machine_room import MachineRoom

TICK_S = 0.1
CPUS = 8
SOCKET = "pbs.sock"
ZERO = b"\0"
_CREDENTIALS = struct.Struct("3i")


@asynccontextmanager
async def served(pbs: Pbs, path: Path, clock: Callable[[], float] = time.time) -> AsyncIterator[None]:
    """Answer at a Unix socket until the block ends. `clock` tells Unix seconds."""
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(partial(_serve_client, pbs, clock), path)
    path.chmod(0o666)
    try:
        async with _repeated(lambda: pbs.step(clock())):
            yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


@asynccontextmanager
async def _repeated(act: Callable[[], None]) -> AsyncIterator[None]:
    """Act every tenth of a second until the block ends."""

    async def run() -> None:
        while True:
            act()
            await asyncio.sleep(TICK_S)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _serve_client(
    pbs: Pbs, clock: Callable[[], float], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        request = await reader.read()
        peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(peer)
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        claims, program, text, *arguments = (part.decode(errors="replace") for part in request.split(ZERO))
        named = program if program in PROGRAMS else "qstat"
        user = claims if user == "root" and claims else user
        reply = answer(pbs, PbsCall(named, tuple(arguments), user, text, clock()))
        writer.write(ZERO.join((str(reply.code).encode(), reply.err.encode(errors="replace"), reply.out)))
        await writer.drain()
    finally:
        writer.close()


USER_VARIABLE = "PBS_STANDIN_USER"
"""Whom root submits for."""

# A call imports only these modules: those that json and socket bring along would more than double its time.
SCRIPT = """\
#!{python} -IS
import _socket, sys
from posix import environ

name, arguments, text = sys.argv[0].rpartition("/")[2], sys.argv[1:], ""
try:
    script = open(arguments[-1], errors="replace") if name == "qsub" and arguments else None
except OSError:
    script = None
if script:
    arguments.pop()
elif (name == "qsub" or (name == "qmgr" and "-c" not in arguments)) and not sys.stdin.isatty():
    script = sys.stdin
if script:
    text = script.read()
answer = b""
try:
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect({socket!r})
    request = "\\0".join((name, text, *arguments)).encode(errors="surrogateescape")
    server.sendall(environ.get(b"{user}", b"") + b"\\0" + request)
    server.shutdown(_socket.SHUT_WR)
    while part := server.recv(65536):
        answer += part
except OSError as problem:
    sys.stderr.write(f"{{name}}: cannot connect to server head (errno={{problem.errno}}) {{problem.strerror}}\\n")
    sys.exit(problem.errno)
code, complaint, output = answer.split(b"\\0", 2)
sys.stdout.buffer.write(output)
sys.stderr.buffer.write(complaint)
sys.exit(int(code))
"""


def write_programs(folder: Path, socket: Path) -> Path:
    """Write the programs into a folder below this one, which must be in PATH, and return it."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    text = SCRIPT.format(python=os.path.realpath(sys.executable), socket=str(socket), user=USER_VARIABLE)
    for name in PROGRAMS:
        file = programs / name
        file.write_text(text)
        file.chmod(0o755)
    return programs


@asynccontextmanager
async def pbs_of_room(
    kind: str, room: MachineRoom, folder: Path, clock: Callable[[], float] = time.time
) -> AsyncIterator[Pbs]:
    """Run a server over the room's nodes until the block ends; its programs are in `folder`/bin."""
    now_s = int(clock())
    pbs = new_pbs(kind, {name: SimNode(name, CPUS, changed_s=now_s, last_used_s=now_s) for name in room.nodes})
    write_programs(folder, folder / SOCKET)

    def follow() -> None:
        for name, node in room.nodes.items():
            known = pbs.cluster.nodes[name]
            power_order, known.power_order = known.power_order, ""
            if power_order == RUNNING:
                node.on()
            elif power_order == SHUTDOWN:
                node.soft_off()
            up = node.now().state == ACTIVE
            if up != known.alive:
                (pbs.cluster.comes_up if up else pbs.cluster.goes_down)(name, clock())

    async with served(pbs, folder / SOCKET, clock), _repeated(follow):
        yield pbs
