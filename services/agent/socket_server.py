"""The server of the agent's socket: one line of JSON in, one line out, then closed.

A client that hangs or sends too much delays no other client.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput, OffpeakError
from offpeak.plugin.day_plan.day_plan import DayPlan, plan_to_json
from offpeak.plugin.federation.site_report import SiteReport, report_json
from offpeak.plugin.scheduler.job import Job
from offpeak.power.live.cycle_watch import CycleWatch, watch_to_json
from offpeak.process import user_name
from offpeak.services.accounts.job_bills import BillQuery, JobBill, bills_json
from offpeak.services.agent import requests as agent_requests
from offpeak.services.agent.status import FOR_ADMINS, FOR_BROKERS, SNAPSHOT, StatusReply, StatusSnapshot, snapshot_json
from offpeak.services.unix_socket import Peer, bound_socket, peer_of, remove_socket

PATIENCE_S = 5.0
MOST_BYTES = 1024 * 1024
"""The largest request of a caller with rights: Slurm's file has a record for each job that must start."""
MOST_BYTES_OF_OTHERS = 4096
MOST_CLIENTS, MOST_OF_ONE_USER = 64, 8
"""Connections of one user with rights, and of all users without rights together; of one user without rights."""
HOLD_REQUESTS = (agent_requests.HOLD, agent_requests.END_HOLD, agent_requests.CAP, agent_requests.SHED)
"""Requests of operators that wait until devices have followed."""
HOLD_PATIENCE_S, CAP_PATIENCE_S, SWEEP_PATIENCE_S = 30.0, 60.0, 15.0
"""An order under way must end before a hold is confirmed; the sweep of a collector waits for the ledger."""


@dataclass(kw_only=True)
class SocketServer:
    """Replies to clients. The functions give the latest values, None before the first.

    `report` gives the report for brokers; it may take a while. `snapshot` leaves out the jobs of a view whose time the
    caller names, `explain` gives the status with all that is known of one job. `change_hold`, `order_caps` and
    `order_event` return the reply once the devices have followed.
    """

    callers: agent_requests.Callers
    published: Callable[[], StatusReply | None]
    receive: agent_requests.NodeRequestSink
    report: Callable[[], Awaitable[SiteReport | None]]
    snapshot: Callable[[float | None], StatusSnapshot | None]
    plan: Callable[[], DayPlan | None]
    bills: Callable[[BillQuery], Sequence[JobBill]]
    change_hold: Callable[[agent_requests.HoldRequest], Awaitable[dict[str, Any]]]
    order_caps: Callable[[agent_requests.CapRequest], Awaitable[dict[str, Any]]]
    order_event: Callable[[agent_requests.ShedRequest], Awaitable[dict[str, Any]]]
    receive_sweep: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    begin_cycle: Callable[[str, str], Sequence[str]] = lambda *_: ()
    watch: Callable[[], CycleWatch] = CycleWatch
    wakes: Callable[[], Iterable[str]] = tuple
    ended: Callable[[], Iterable[Job]] = tuple
    explain: Callable[[str], Awaitable[StatusReply | None]] | None = None
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Begin without clients."""
        self._clients: Counter[int] = Counter()
        self._others: Counter[int] = Counter()
        # Names may come from a server that hangs: then only requests that need a name wait.
        self._names = ThreadPoolExecutor(2, thread_name_prefix="user-names")
        # A ledger may hang as well: then only requests for bills wait.
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="bills")
        self._reading: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reply to one client."""
        peer = peer_of(writer.get_extra_info("socket"))
        # The page, a viewer, passes on the sweeps of collectors. Users without rights must keep neither the scheduler
        # nor an operator out.
        counters, most_bytes = [self._clients], MOST_BYTES
        is_full = self._clients[peer.uid] >= MOST_CLIENTS
        if not self.callers.rights_of(peer).sees_all:
            counters, most_bytes = [self._clients, self._others], MOST_BYTES_OF_OTHERS
            is_full = self._clients[peer.uid] >= MOST_OF_ONE_USER or self._others.total() >= MOST_CLIENTS
        if is_full:
            writer.transport.abort()
            return
        for counter in counters:
            counter[peer.uid] += 1
        try:
            async with asyncio.timeout(self.patience_s) as limit:
                reply = await self._reply(peer, await _read_line(reader, most_bytes), limit)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            for counter in counters:
                counter[peer.uid] -= 1
            writer.close()

    def close(self) -> None:
        """Look up no more names and bills."""
        for pool in (self._names, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _reply(self, peer: Peer, line: bytes | None, limit: asyncio.Timeout) -> dict[str, Any]:
        try:
            if line is None:
                raise OffpeakError("a request is one line, and this one is too long")
            fields, rights = agent_requests.parse_request(line), self.callers.rights_of(peer)
            if fields == FOR_BROKERS:
                if (report := await self.report()) is None:
                    raise agent_requests.not_ready()
                return {"snapshot": report_json(replace(report, sent_unix_s=time.time()))}
            if fields.get("tell") == agent_requests.SWEEP:
                limit.reschedule(asyncio.get_running_loop().time() + SWEEP_PATIENCE_S)
                return await self.receive_sweep(fields)
            if fields == FOR_ADMINS:
                return make_plan_reply(self.plan(), rights)
            if fields.get("tell") in HOLD_REQUESTS:
                return await self._hold(peer, fields, rights, limit)
            if agent_requests.CYCLE in (fields.get("ask"), fields.get("tell")):
                return await self._reply_about_cycle(peer, fields, rights)
            user = None if rights.sees_all else await self._look_up(user_name, peer.uid)
            person = await self._person(peer) if fields.get("tell") == "order" else ""
            request = agent_requests.AgentRequest(fields, rights, user, person)
            if fields.get("ask") == agent_requests.BILLS:
                return await self._reply_with_bills(peer, request)
            if fields.get("ask") == SNAPSHOT:
                if (snapshot := self.snapshot(agent_requests.jobs_seen(request))) is None:
                    raise agent_requests.not_ready()
                return {"picture": snapshot_json(snapshot)}
            if fields.get("ask") == agent_requests.WHY and self.explain is not None:
                published = await self.explain(str(fields.get("job", "")))
            else:
                published = self.published()
            return agent_requests.make_reply(request, published, self.receive, self.wakes, self.ended)
        except OffpeakError as problem:
            return {"error": str(problem), "hint": problem.hint}

    async def _reply_about_cycle(
        self, peer: Peer, request: dict[str, Any], rights: agent_requests.Rights
    ) -> dict[str, Any]:
        """Begin the whole cycle of a node, or return how far it is."""
        if not rights.may_tell:
            raise BadInput("only root and the agent's user may watch a cycle", hint="sudo offpeak check --cycle NODE")
        if "tell" not in request:
            return {"cycle": watch_to_json(self.watch())}
        return {"partitions": list(self.begin_cycle(str(request.get("nodes")), await self._person(peer)))}

    async def _reply_with_bills(self, peer: Peer, request: agent_requests.AgentRequest) -> dict[str, Any]:
        query = agent_requests.parse_bill_query(request)
        if peer.uid in self._reading:
            raise OffpeakError("another of your questions about bills is being answered", hint="ask again in a minute")
        self._reading.add(peer.uid)
        answer = asyncio.get_running_loop().run_in_executor(self._readers, self.bills, query)

        def end_reading(done: "asyncio.Future[Sequence[JobBill]]") -> None:
            self._reading.discard(peer.uid)
            if not done.cancelled():
                # Nobody waits for the error of an answer whose connection has ended.
                done.exception()

        # A thread cannot be stopped: its user waits for it, also after the connection has ended.
        answer.add_done_callback(end_reading)
        return {"bills": bills_json(await asyncio.shield(answer))}

    async def _hold(
        self, peer: Peer, request: dict[str, Any], rights: agent_requests.Rights, limit: asyncio.Timeout
    ) -> dict[str, Any]:
        if not rights.may_hold:
            hint = "be root, or in the group that operators below [agent] names"
            raise BadInput("only operators may hold, release and cap nodes, and order events", hint=hint)
        what = request["tell"]
        patience_s = CAP_PATIENCE_S if what == agent_requests.CAP else HOLD_PATIENCE_S
        limit.reschedule(asyncio.get_running_loop().time() + patience_s)
        person = await self._person(peer)
        if what == agent_requests.CAP:
            return await self.order_caps(agent_requests.parse_cap_request(request, person))
        if what == agent_requests.SHED:
            return await self.order_event(agent_requests.parse_shed_request(request, person))
        return await self.change_hold(agent_requests.parse_hold_request(request, person))

    async def _person(self, peer: Peer) -> str:
        return await self._look_up(lambda: peer.person)

    async def _look_up(self, find: Callable[..., str], *arguments: int) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._names, find, *arguments)


def make_plan_reply(plan: DayPlan | None, rights: agent_requests.Rights) -> dict[str, Any]:
    """Return the present plan. Raises BadInput if there is none, or if the caller may not see all jobs."""
    if not rights.sees_all:
        raise BadInput("the plan names other users' jobs", hint="`offpeak queue` shows the jobs that are yours")
    if plan is None:
        raise BadInput("the agent makes no plan", hint='queue = "plan" below [agent], and a price that is known')
    return {"plan": plan_to_json(plan)}


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
    """Return the first line, or all that was sent; None if it is longer than `most`."""
    read = bytearray()
    while len(read) <= most and (part := await reader.read(65_536)):
        read += part
        if b"\n" in part:
            break
    line = bytes(read).partition(b"\n")[0]
    return line if len(line) <= most else None
