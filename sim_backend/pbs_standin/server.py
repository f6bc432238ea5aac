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
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from offpeak.model.node_states import ACTIVE
from offpeak.sim_backend.pbs_standin.commands import PROGRAMS, RUNNING, SHUTDOWN, PbsCall, answer
from offpeak.sim_backend.pbs_standin.pbs import Pbs, new_pbs
from offpeak.sim_backend.scheduler.cluster import SimNode
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.node import LiveNode

TICK_S = 0.1
ZERO = b"\0"
_CREDENTIALS = struct.Struct("3i")


@asynccontextmanager
async def served(pbs: Pbs, path: Path, clock: Callable[[], float] = time.time) -> AsyncIterator[None]:
    """Answer at a Unix socket until the block ends. `clock` tells Unix seconds."""
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(partial(_serve_client, pbs, clock), path)
    path.chmod(0o666)
    try:
        async with _beside(_tick(pbs, clock)):
            yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


@asynccontextmanager
async def _beside(coroutine: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a coroutine until the block ends."""
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tick(pbs: Pbs, clock: Callable[[], float]) -> None:
    while True:
        pbs.step(clock())
        await asyncio.sleep(TICK_S)


async def _serve_client(
    pbs: Pbs, clock: Callable[[], float], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        reply = answer(pbs, _call(await reader.read(), _peer(writer), clock()))
        writer.write(ZERO.join((str(reply.code).encode(), reply.err.encode(errors="replace"), reply.out)))
        await writer.drain()
    finally:
        writer.close()


def _call(request: bytes, user: str, now_s: float) -> PbsCall:
    claims, program, text, *arguments = (part.decode(errors="replace") for part in request.split(ZERO))
    named = program if program in PROGRAMS else "qstat"
    return PbsCall(named, tuple(arguments), claims if user == "root" and claims else user, text, now_s)


def _peer(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(peer)
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


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


LOOK_S = 0.1
CPUS = 8
SOCKET = "pbs.sock"


@asynccontextmanager
async def pbs_of_room(
    kind: str, room: MachineRoom, folder: Path, clock: Callable[[], float] = time.time
) -> AsyncIterator[Pbs]:
    """Run a server over the room's nodes until the block ends; its programs are in `folder`/bin."""
    now_s = int(clock())
    pbs = new_pbs(kind, {name: SimNode(name, CPUS, changed_s=now_s, last_used_s=now_s) for name in room.nodes})
    write_programs(folder, folder / SOCKET)
    async with served(pbs, folder / SOCKET, clock), _beside(_follow(room, pbs, clock)):
        yield pbs


async def _follow(room: MachineRoom, pbs: Pbs, clock: Callable[[], float]) -> None:
    while True:
        for name, node in room.nodes.items():
            _execute_order(node, pbs.cluster.nodes[name])
            up = node.now().state == ACTIVE
            if up != pbs.cluster.nodes[name].alive:
                (pbs.cluster.comes_up if up else pbs.cluster.goes_down)(name, clock())
        await asyncio.sleep(LOOK_S)


def _execute_order(node: LiveNode, known: SimNode) -> None:
    power_order, known.power_order = known.power_order, ""
    if power_order == RUNNING:
        node.on()
    elif power_order == SHUTDOWN:
        node.soft_off()
