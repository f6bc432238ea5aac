"""The server of the agent's socket: one line of JSON in, one line out, then closed.

A client that hangs or sends too much delays no other client.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput, OffpeakError
from offpeak.process import user_name
from plugin.day_plan.day_plan import DayPlan
from plugin.federation.site_report import SiteReport, report_json
from services.agent.holds import END_HOLD, HOLD
from services.agent.plan_reply import make_plan_reply
from services.agent.requests import (
    FOR_ADMINS,
    FOR_BROKERS,
    SNAPSHOT,
    AgentRequest,
    Callers,
    NodeRequestSink,
    Rights,
    WakeableNodes,
    error_reply,
    jobs_seen,
    make_reply,
    not_ready,
    parse_request,
)
from services.agent.status_snapshot import StatusReply, StatusSnapshot, snapshot_json
from services.unix_socket import Peer, bound_socket, peer_of, remove_socket

PATIENCE_S = 5.0
MOST_BYTES = 1024 * 1024
"""Of a request by who may tell: Slurm's file has a record for each job that is to start."""
MOST_BYTES_OF_OTHERS = 4096
MOST_CLIENTS, MOST_OF_ONE_USER = 64, 8
"""Of one user with rights, and of all users without rights together; of one user without rights."""


MakeSiteReport = Callable[[], Awaitable[SiteReport | None]]
"""Gives what brokers are told, None before there is anything. It may take a while."""
MakeSnapshot = Callable[[float | None], StatusSnapshot | None]
"""Gives the picture for who has seen the jobs of that instant, None before there is anything."""


HOLD_REQUESTS = (HOLD, END_HOLD)
HOLD_PATIENCE_S = 30.0
"""An order under way has to end before a hold is confirmed."""
ChangeHold = Callable[[dict[str, Any], str], Awaitable[dict[str, Any]]]
"""Begins or ends a hold for a person, and returns once that is in force."""


async def refuse_holds(_request: dict[str, Any], _person: str) -> dict[str, Any]:
    """Refuse: there is no power loop."""
    raise OffpeakError("this agent holds no nodes")


class SocketServer:
    """Answers those who connect; `published`, `site`, `picture` and `plan` give the latest, None before the first."""

    def __init__(
        self,
        published: Callable[[], StatusReply | None],
        hear: NodeRequestSink,
        callers: Callers,
        *,
        site: MakeSiteReport,
        picture: MakeSnapshot,
        plan: Callable[[], DayPlan | None],
        wakes: WakeableNodes = tuple,
        change_hold: ChangeHold = refuse_holds,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._published, self._hear, self._callers = published, hear, callers
        self._site, self._picture, self._plan, self._wakes = site, picture, plan, wakes
        self._patience_s, self._change_hold = patience_s, change_hold
        self._clients: Counter[int] = Counter()
        self._others: Counter[int] = Counter()
        # Names may come from a server that hangs: then only those wait who need a name.
        self._names = ThreadPoolExecutor(2, thread_name_prefix="user-names")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client."""
        peer = peer_of(writer.get_extra_info("socket"))
        if self._too_many(peer):
            writer.transport.abort()
            return
        clients = (self._clients, *(() if self._callers.rights_of(peer).sees_all else (self._others,)))
        for each in clients:
            each[peer.uid] += 1
        try:
            async with asyncio.timeout(self._patience_s) as limit:
                await self._exchange(peer, reader, writer, limit)
        except (TimeoutError, OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            for each in clients:
                each[peer.uid] -= 1
            writer.close()

    def close(self) -> None:
        """Let no more names be asked for."""
        self._names.shutdown(wait=False, cancel_futures=True)

    def _too_many(self, peer: Peer) -> bool:
        # Users among themselves must keep neither the scheduler nor an operator out.
        if self._callers.rights_of(peer).sees_all:
            return self._clients[peer.uid] >= MOST_CLIENTS
        return self._clients[peer.uid] >= MOST_OF_ONE_USER or self._others.total() >= MOST_CLIENTS

    async def _exchange(
        self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> None:
        may_tell = self._callers.rights_of(peer).may_tell
        line = await _read_line(reader, MOST_BYTES if may_tell else MOST_BYTES_OF_OTHERS)
        said = await self._answer(peer, line, limit)
        writer.write(json.dumps(said).encode() + b"\n")
        await writer.drain()

    async def _answer(self, peer: Peer, line: bytes | None, limit: asyncio.Timeout) -> dict[str, Any]:
        try:
            if line is None:
                raise OffpeakError("a request is one line, and not so long")
            request, rights = parse_request(line), self._callers.rights_of(peer)
            if request == FOR_BROKERS:
                return await self._site_said()
            if request == FOR_ADMINS:
                return make_plan_reply(self._plan(), rights)
            if request.get("tell") in HOLD_REQUESTS:
                return await self._hold(peer, request, rights, limit)
            user = None if rights.sees_all else await self._name(peer.uid)
            person = await self._person(peer) if request.get("tell") == "order" else ""
            question = AgentRequest(request, rights, user, person)
            if request.get("ask") == SNAPSHOT:
                return self._drawn(question)
            return make_reply(question, self._published(), self._hear, self._wakes)
        except OffpeakError as problem:
            return error_reply(problem)

    async def _site_said(self) -> dict[str, Any]:
        said = await self._site()
        if said is None:
            raise not_ready()
        return {"snapshot": report_json(said)}

    def _drawn(self, question: AgentRequest) -> dict[str, Any]:
        picture = self._picture(jobs_seen(question))
        if picture is None:
            raise not_ready()
        return {"picture": snapshot_json(picture)}

    async def _hold(
        self, peer: Peer, request: dict[str, Any], rights: Rights, limit: asyncio.Timeout
    ) -> dict[str, Any]:
        if not rights.may_hold:
            hint = "be root, or in the group that operators below [agent] names"
            raise BadInput("only operators may hold nodes and release them", hint=hint)
        limit.reschedule(asyncio.get_running_loop().time() + HOLD_PATIENCE_S)
        return await self._change_hold(request, await self._person(peer))

    async def _person(self, peer: Peer) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._names, lambda: peer.person)

    async def _name(self, uid: int) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._names, user_name, uid)


@asynccontextmanager
async def serve_socket(path: Path, server: SocketServer) -> AsyncIterator[None]:
    """Listen at that path until the block ends; errors as `bound_socket`."""
    listener = bound_socket(path)
    number = path.stat().st_ino
    listening = await asyncio.start_unix_server(server.serve, sock=listener, limit=65_536)
    try:
        yield
    finally:
        listening.close()
        remove_socket(path, number)
        server.close()


async def _read_line(reader: asyncio.StreamReader, most: int) -> bytes | None:
    """Return the first line, or all there is; None where it is longer than that."""
    read = bytearray()
    while len(read) <= most and (part := await reader.read(65_536)):
        read += part
        if b"\n" in part:
            break
    line = bytes(read).partition(b"\n")[0]
    return line if len(line) <= most else None
