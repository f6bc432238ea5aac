"""The agent's socket in its own thread, for tests of clients: replies are set, and requests are kept."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from offpeak.errors import OffpeakError
from offpeak.plugin.day_plan.day_plan import DayPlan
from offpeak.plugin.federation.site_report import SiteReport
from offpeak.services.accounts.account_of_savings import LeverSaving, SavingsAccount
from offpeak.services.accounts.job_bills import BillQuery, JobBill, read_job_bills
from offpeak.services.agent.requests import Callers, HoldRequest, NodeRequest, WakeReply
from offpeak.services.agent.socket_server import SocketServer, serve_socket
from offpeak.services.agent.status import (
    ForecastStatus,
    JobStatus,
    NodeCounts,
    PriceStatus,
    StatusReply,
    StatusSnapshot,
)

AT_S = 1_793_520_000
"""2026-11-01 09:00 in Berlin."""

PRICE = PriceStatus(92.4, "EUR/MWh", "published", on_peak=True, until_unix_s=AT_S + 12 * 3600)
PUBLISHED = StatusReply(
    at_unix_s=AT_S,
    mode="active",
    cluster="test",
    scheduler="slurm 22.05.8",
    cycle_s=30,
    price=PRICE,
    nodes=NodeCounts((("off", 2), ("on", 14)), 3512.0),
    saved_today=SavingsAccount(
        (LeverSaving("sleep", 1, 7.2e6, 0.35, 0.33, 0.37, measured_share=1.0),),
        *(7.2e6, 0.35, 0.33, 0.37, "EUR"),
        bill=3.15,
        days=1,
    ),
    jobs=(
        JobStatus(
            *("1841", "ann", "batch", "PENDING", 4, 3, 5, 412.0),
            "offpeak has put it back: on-peak until 21:00, 412 W/node against 180 W/node",
            *(AT_S + 50_400, AT_S + 86_400, 0.21, "EUR", "down 2"),
            cause="price",
            starts_from_unix_s=AT_S + 49_500,
            starts_by_unix_s=AT_S + 55_800,
            remedy="let it start as soon as it can: `scontrol update jobid=1841 comment=offpeak:now`",
            saves="0.21 EUR expected, compared with a start now",
        ),
        JobStatus(
            *("1846", "bob", "batch", "PENDING", 1, 1, 5, 180.0),
            "it needs 1 node, and 0 of the 16 that fit it are free",
            *(AT_S + 60, AT_S + 7200),
            moved="up 2",
            cause="nodes",
            starts_from_unix_s=AT_S + 60,
            starts_by_unix_s=AT_S + 240,
            remedy="request fewer nodes or a shorter time limit: it can then start in a gap",
        ),
        JobStatus(
            *("1850", "nobody", "long", "PENDING", 1, None, 0, None, "it depends on a job that has not ended"),
            opted_out=True,
            cause="dependency",
            start_condition="after the jobs that it depends on",
            remedy="wait, or remove the dependency: `scontrol update jobid=1850 dependency=`",
            saves="nothing: it opted out",
        ),
    ),
    problems=("prices are of yesterday",),
    forecasts=(
        ForecastStatus("price", "EUR/MWh", "week before", 21.4, "week before", 21.4, 336),
        ForecastStatus("run time", "s", "similar jobs", 1860.0, "time limit", 26_400.0, 500),
        ForecastStatus("job power", "W/node", "node class", None, "node class", None, 0),
    ),
)


@dataclass
class AgentSocket:
    """An agent that only answers."""

    path: Path
    published: StatusReply | None = PUBLISHED
    site: SiteReport | None = None
    snapshot: StatusSnapshot | None = None
    plan: DayPlan | None = None
    requests: list[NodeRequest] = field(default_factory=list)
    refuse: Exception | None = None
    held: list[tuple[str, str, str]] = field(default_factory=list)
    bills: list[JobBill] = field(default_factory=list)
    queries: list[BillQuery] = field(default_factory=list)
    ledger_url: str = ""
    """The ledger that has the bills, in place of `bills`."""
    replies: list[WakeReply] = field(default_factory=list)
    """The wake replies, the last one repeated; without any, all requested nodes are accepted."""

    async def change_hold(self, request: HoldRequest) -> dict[str, Any]:
        self.held.append((request.what, request.node, request.by))
        return {"by": request.by, "note": "", "owner": None}

    async def carry_out_nothing(self, _: object) -> dict[str, Any]:
        raise OffpeakError("this agent only answers")

    def receive(self, request: NodeRequest) -> WakeReply | None:
        if self.refuse:
            raise self.refuse
        self.requests.append(request)
        return self.replies[min(len(self.requests), len(self.replies)) - 1] if self.replies else None

    def give_snapshot(self, jobs_seen_unix_s: float | None) -> StatusSnapshot | None:
        if self.snapshot is None or jobs_seen_unix_s != self.snapshot.published.at_unix_s:
            return self.snapshot
        return replace(self.snapshot, published=replace(self.snapshot.published, jobs=()), jobs_left_out=True)

    def give_bills(self, query: BillQuery) -> tuple[JobBill, ...]:
        self.queries.append(query)
        if self.ledger_url:
            return read_job_bills(self.ledger_url, query)
        return tuple(bill for bill in self.bills if query.user in (None, bill.user) and query.job in (None, bill.job))

    async def give_report(self) -> SiteReport | None:
        return self.site

    def say(self, line: bytes | dict[str, str]) -> Any:
        """Return the answer to a line."""
        with self.connected() as connection:
            connection.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
            return json.loads(b"".join(iter(lambda: connection.recv(65_536), b"")))

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """Give a connection to it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(300)
            connection.connect(os.fspath(self.path))
            yield connection


@contextmanager
def agent_socket(path: Path, callers: Callers | None = None, *, patience_s: float = 300.0) -> Iterator[AgentSocket]:
    """Answer at that path until the block ends."""
    agent, begun = AgentSocket(path), threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    problems: list[Exception] = []

    async def run() -> None:
        closing = asyncio.Event()
        loops.append((asyncio.get_running_loop(), closing))
        server = SocketServer(
            callers=callers or Callers(os.geteuid()),
            published=lambda: agent.published,
            receive=agent.receive,
            report=agent.give_report,
            snapshot=agent.give_snapshot,
            plan=lambda: agent.plan,
            bills=agent.give_bills,
            patience_s=patience_s,
            change_hold=agent.change_hold,
            order_caps=agent.carry_out_nothing,
            order_event=agent.carry_out_nothing,
            receive_sweep=agent.carry_out_nothing,
        )
        try:
            async with serve_socket(path, server):
                begun.set()
                await closing.wait()
            # Who has connected just now is served, and hung up on when the loop ends.
            for _ in range(5):
                await asyncio.sleep(0)
        except OffpeakError as problem:
            problems.append(problem)
            begun.set()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait()
    if problems:
        thread.join()
        raise problems[0]
    try:
        yield agent
    finally:
        loop, closing = loops[0]
        loop.call_soon_threadsafe(closing.set)
        thread.join()
