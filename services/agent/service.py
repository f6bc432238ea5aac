"""The agent as a service: start and end, signals, settings that are read again, systemd's watchdog, and the socket.

`run_agent` is the entry of `offpeak agent`. systemd is notified by datagrams to $NOTIFY_SOCKET (sd_notify(3)), if the
variable is set.
"""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from offpeak.display import duration_text
from offpeak.door.effect import Mode
from offpeak.errors import CannotWrite, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.log_lines import begin_log
from offpeak.machines.node_sets import fold
from offpeak.plugin.queue_hook.facts import PLAN
from offpeak.power.wake_list import make_wake_list, make_wake_pace, write_wake_list
from offpeak.process import exclusive_lock
from offpeak.services.accounts.job_bills import read_job_bills
from offpeak.services.agent import admin_requests
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import LOG, ProblemLog
from offpeak.services.agent.reports import explain_job, make_site_report, make_snapshot, make_status
from offpeak.services.agent.requests import NodeRequest, WakeReply
from offpeak.services.agent.restore import give_back
from offpeak.services.agent.site_context import PartitionModes, SiteContext, make_site_context, parse_modes
from offpeak.services.agent.socket_server import SocketServer, serve_socket
from offpeak.services.agent.standby import Standby
from offpeak.settings.table import Settings
from offpeak.text import counted, printable

STATUS_LETTERS = 1000
"""Room for a problem and its remedy."""
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


def notify(*states: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send the states together; return whether they were sent. It never raises and never waits."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # "@" stands for the NUL byte of an abstract socket.
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto("\n".join(states).encode(), name)
        except OSError:
            return False
    return True


def status_state(text: str) -> str:
    """Return the state that `systemctl status` shows as one line."""
    return f"STATUS={printable(text, enough=STATUS_LETTERS)}"


def reloading_state(monotonic_s: float | None = None) -> str:
    """Return the states of a reload that began at that time; READY follows."""
    since_s = time.monotonic() if monotonic_s is None else monotonic_s
    return f"RELOADING=1\nMONOTONIC_USEC={since_s * 1e6:.0f}"


def read_watchdog_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the seconds within which systemd expects ALIVE, None if it does not."""
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None


STATUS_EVERY_S = 1.0
LAST_ROUNDS_S = 10.0
GIVE_BACK_S = 30.0
"""The longest time to finish rounds at the end, and then to give back. Logging out and a ledger that hangs may take
half a minute more; TimeoutStopSec= of the unit allows for all of it."""
GIVE_BACK_EVERY_S = 60.0
WATCH_LEASE_S = 0.2
LEASE_IS_LOST = os.EX_TEMPFAIL
"""The exit status of an agent that another one has replaced: systemd starts it again, as the standby agent."""
NO_MODES = PartitionModes(Mode.SHADOW, {})
"""The modes after the end of the agent."""


class Service:
    """Runs an agent until SIGTERM or SIGINT; at SIGHUP it reads the settings again."""

    def __init__(self, agent: SiteAgent, reread: Callable[[], Settings], *, ended: asyncio.Event | None = None) -> None:
        self._agent, self._reread = agent, reread
        self._ended, self._read_again, self._has_next = ended or asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._next: SiteContext | None = None
        self._exchanging = asyncio.Lock()
        # The modes in which something was done that is not given back yet.
        self._acted, self._left = agent.site.modes, dict[str, str]()
        # The nodes that the agent switches no longer and that are not given back yet.
        self._leaves = frozenset[str]()

    async def run(self) -> None:
        """Run until a signal ends it, and leave a safe state."""
        event_loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            event_loop.add_signal_handler(number, self._ended.set)
        event_loop.add_signal_handler(signal.SIGHUP, self._read_again.set)
        agent = self._agent
        server = SocketServer(
            callers=agent.site.callers,
            published=lambda: make_status(agent),
            receive=self._receive,
            report=lambda: make_site_report(agent),
            snapshot=lambda seen: make_snapshot(agent, seen),
            explain=lambda job: explain_job(agent, job),
            wakes=partial(admin_requests.wakes, agent),
            ended=partial(admin_requests.ended_jobs, agent),
            change_hold=partial(admin_requests.change_hold, agent),
            order_caps=partial(admin_requests.order_caps, agent),
            order_event=partial(admin_requests.order_event, agent),
            receive_sweep=agent.meters.receive_sweep,
            begin_cycle=partial(admin_requests.begin_cycle, agent),
            watch=lambda: agent.power.watch,
            plan=lambda: agent.planner.latest if agent.site.settings.agent.queue == PLAN else None,
            bills=lambda query: read_job_bills(agent.site.settings.ledger.url, query),
        )
        async with AsyncExitStack() as end:
            await end.enter_async_context(serve_socket(agent.site.settings.agent.socket, server))
            _write_wake_list(agent.site, agent.problem_log)
            tasks = [asyncio.create_task(runner.run(), name=runner.name) for runner in agent.runners]
            others = (
                self._reload,
                self._exchange,
                self._give_back_the_rest,
                self._report_left_nodes,
                self._report_to_systemd,
                self._watch_lease,
                self._watch_clock,
            )
            tasks += [asyncio.create_task(task()) for task in others]
            notify(READY)
            LOG.info("started in mode %s", agent.site.modes.usual)
            _log_http_bmcs(agent.site)
            await self._ended.wait()
            notify(STOPPING)
            await self._end(tasks)
            # An admin's order under way must set no cap behind this.
            agent.node_caps.records.is_closed = True
            await agent.lift_caps(tuple(agent.node_caps.records.by_node), "the agent ends")
            self._acted = self._acted.widened(agent.site.modes)
            await self._give_back(NO_MODES)
        LOG.info("ended")

    def _receive(self, request: NodeRequest) -> WakeReply | None:
        if self._ended.is_set():
            hint = "Slurm's own program wakes nodes; `systemctl status offpeak-agent`"
            raise OffpeakError("the agent is ending", hint=hint)
        return admin_requests.receive(self._agent, request)

    def end(self) -> None:
        """End the service as SIGTERM does."""
        self._ended.set()

    async def ends(self) -> None:
        """Wait for the signal, or the call, that ends the service."""
        await self._ended.wait()

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the present rounds first: an order to the scheduler would go on without the agent."""
        async with AsyncExitStack() as still:
            try:
                async with asyncio.timeout(LAST_ROUNDS_S):
                    await still.enter_async_context(self._agent.between_rounds())
            except TimeoutError:
                LOG.warning("a round under way is cut off after %g s", LAST_ROUNDS_S)
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _give_back(self, stays: PartitionModes) -> None:
        """Give the site its own order, the jobs that a cap holds back, and the nodes that are up."""
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                left = await give_back(self._agent, self._acted, stays, leaves=self._leaves)
        except Exception as problem:
            LOG.warning(
                "not everything was restored: %s; the agent tries again, and `agent --restore` does at the end", problem
            )
            return
        if not left:
            self._acted, self._leaves = stays, frozenset()
        elif left != self._left:
            ends = self._ended.is_set()
            then = "`offpeak agent --restore` tries again" if ends else "the agent tries again"
            for why in dict.fromkeys(left.values()):
                LOG.warning("closed still: %s: %s; %s", fold(node for node in left if left[node] == why), why, then)
        self._left = left

    async def _give_back_the_rest(self) -> None:
        """Restore later what could not be restored when a mode closed the door, or when a node left the settings."""
        while True:
            await asyncio.sleep(GIVE_BACK_EVERY_S)
            async with self._exchanging:
                # Also the modes of settings that cannot be used otherwise: they close the door.
                modes = self._agent.modes
                if self._leaves or self._acted.widened(modes) != modes:
                    await self._give_back(modes)

    async def _report_left_nodes(self) -> None:
        """Report once which nodes an agent that was killed has left closed, if this one does not open them."""
        agent = self._agent
        while agent.observer.latest is None:
            await asyncio.sleep(STATUS_EVERY_S)
        switched, modes = agent.site.machines, agent.modes
        left = [
            node.name
            for node in agent.observer.latest.nodes
            if node.closed_by_us and (node.name not in switched or modes.of(node.partitions) is not Mode.ACTIVE)
        ]
        if left:
            why = "closed by an agent before this one, which does not open them by its mode or its nodes"
            LOG.warning("%s: %s; end it, and `offpeak agent --restore` opens them", fold(left), why)

    async def _reload(self) -> None:
        """Read the settings at each SIGHUP, and put a mode that closes the door in force at once."""
        while True:
            await self._read_again.wait()
            self._read_again.clear()
            notify(reloading_state())
            before = self._agent.modes
            try:
                settings = self._reread()
                # The mode counts even if another setting is invalid: closing the door must not fail because of it.
                modes = self._agent.next_modes = parse_modes(settings.agent)
                self._next = replace(make_site_context(settings, self._agent.site.clock), modes=modes)
                self._has_next.set()
            except OffpeakError as problem:
                LOG.error("settings: the old ones stay in force: %s; %s", problem, problem.hint)
                notify(READY)
            except Exception as problem:
                # The next reload must find this task alive: it may be the one that closes the door.
                LOG.error(
                    "settings: the old ones stay in force: %s: %s", type(problem).__name__, problem, exc_info=problem
                )
                notify(READY)
            if self._agent.modes != before:
                usual = self._agent.modes.usual
                LOG.info(
                    "settings: mode=%s takes effect at once; the other settings follow the rounds under way", usual
                )

    async def _exchange(self) -> None:
        """Let the agent work with the settings that were read last, once the present rounds have ended."""
        agent = self._agent
        while True:
            await self._has_next.wait()
            async with self._exchanging, agent.between_rounds():
                self._has_next.clear()
                site, self._next = self._next, None
                if site is not None:
                    try:
                        await self._exchange_for(site)
                    except Exception as problem:
                        # The next reload finds this task alive, and systemd does not wait for the end of this one.
                        LOG.error("settings: not all are in force: %s: %s", type(problem).__name__, problem)
                    notify(READY)

    async def _exchange_for(self, site: SiteContext) -> None:
        agent = self._agent
        for name in _fixed_changes(agent.site.settings, site.settings):
            LOG.warning("settings: %s has changed: that takes effect after a restart", name)
        self._acted = self._acted.widened(agent.site.modes)
        self._leaves = (self._leaves | agent.site.machines.keys()) - site.machines.keys()
        if self._leaves or self._acted.widened(site.modes) != site.modes:
            await self._give_back(site.modes)
        await agent.exchange(site)
        _write_wake_list(site, agent.problem_log)
        LOG.info("settings are read again: mode %s", site.modes.usual)
        _log_http_bmcs(site)

    async def _report_to_systemd(self) -> None:
        limit_s, alive_s, shown = read_watchdog_s(), float("-inf"), ""
        while True:
            text = self._agent.observer.status
            if text != shown:
                notify(status_state(text))
                shown = text
            now_s = time.monotonic()
            if limit_s is not None and now_s - alive_s >= limit_s / 3 and not self._stuck():
                notify(ALIVE)
                alive_s = now_s
            await asyncio.sleep(min(STATUS_EVERY_S, (limit_s or STATUS_EVERY_S) / 3))

    async def _watch_lease(self) -> None:
        """End the program at once when another agent has the lease, or when the lease ends during an order.

        It gives nothing back: what it has done is the other agent's from now on.
        """
        ledger, log = self._agent.ledger, self._agent.problem_log
        while (state := ledger.lease.state()) is not None:
            log.report("lease", None if ledger.may_act() else state.text)
            if ledger.lease.lost_to or (not ledger.may_act() and ledger.open_intents):
                why = f"{ledger.lease.lost_to} has it now" if ledger.lease.lost_to else "it has ended during an order"
                LOG.error("the lease is lost: %s; this agent ends, and stands by after its restart", why)
                logging.shutdown()
                os._exit(LEASE_IS_LOST)
            await asyncio.sleep(WATCH_LEASE_S)

    async def _watch_clock(self) -> None:
        """Log when the clock of the machine was set."""
        before = self._agent.power.now
        while True:
            await asyncio.sleep(STATUS_EVERY_S)
            now = self._agent.power.now
            if stepped_s := now.stepped_s(before):
                way = "forward" if stepped_s > 0 else "back"
                LOG.warning(
                    "clock: set %s by %s; waits go on as if it had not been", way, duration_text(abs(stepped_s))
                )
            before = now

    def _stuck(self) -> list[str]:
        """Return the loops that are stuck: systemd restarts a program that stops sending its watchdog signal."""
        return [runner.name for runner in self._agent.runners if runner.left_s < 0]


def _write_wake_list(site: SiteContext, problem_log: ProblemLog) -> None:
    try:
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        credentials = Path(folder) if folder else None
        wake_list, settings = make_wake_list(site.inventory, credentials=credentials), site.settings.agent
        write_wake_list(settings.state_folder, wake_list, make_wake_pace(settings, site.inventory))
    except (OffpeakError, OSError) as problem:
        problem_log.report("wake list", str(problem))


def _fixed_changes(old: Settings, new: Settings) -> list[str]:
    pairs = (
        ("[ledger]", old.ledger, new.ledger),
        ("[agent] state_folder", old.agent.state_folder, new.agent.state_folder),
        ("[agent] socket", old.agent.socket, new.agent.socket),
    )
    return [name for name, before, after in pairs if before != after]


def _log_http_bmcs(site: SiteContext) -> None:
    nodes = [name for name, machine in site.by_name.items() if machine.is_unencrypted]
    if nodes:
        LOG.warning("%s: their BMCs are reached over http, passwords travel unencrypted", fold(nodes))


MOST_CALLS = 64
"""The number of concurrent blocking calls: each order of a round queries the scheduler, and some replies may hang."""
LAST_CALLS_S = 1.0


class CallThreads(ThreadPoolExecutor):
    """Threads of blocking calls, such as programs of the scheduler; the end of the agent waits for none of them."""

    def __init__(self) -> None:
        super().__init__(MOST_CALLS, thread_name_prefix="call")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Take no more calls."""
        super().shutdown(wait=False, cancel_futures=True)

    def are_done(self, within_s: float) -> bool:
        """Return whether all calls have ended, or end within that time."""
        until_s = time.monotonic() + within_s
        for thread in tuple(self._threads):
            thread.join(max(0.0, until_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


class AgentEventLoop(asyncio.SelectorEventLoop):
    """Looks up names in threads of their own: each may wait for a dead name server for half a minute, and hundreds of
    BMCs and PDUs have names. Calls of the scheduler and the ledger do not queue behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = CallThreads()

    async def getaddrinfo(self, host: Any, port: Any, **options: int) -> Any:
        """Return the addresses of a host."""
        return await self.run_in_executor(self.lookups, partial(socket.getaddrinfo, host, port, **options))


def run_agent(settings: Settings, reread: Callable[[], Settings]) -> int:
    """Run the agent until a signal; return the exit code. Raises BadInput for unusable settings or inventory."""
    # Log to the journal, which adds the time, or to a terminal with the time.
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    begin_log(form)
    for noisy in ("pyghmi", "asyncssh", "sqlalchemy", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with exclusive_lock(settings.agent.state_folder):
        ledger, calls, event_loop = Ledger(settings.ledger), CallThreads(), AgentEventLoop()
        try:
            with asyncio.Runner(loop_factory=lambda: event_loop) as runner:
                lost = runner.run(_serve(settings, ledger, reread, calls))
        except OffpeakError:
            ledger.close()
            raise
        if lost:
            LOG.error("%s did not reach the ledger", counted(lost, "row"))
        event_loop.lookups.shutdown()
        if not (calls.are_done(LAST_CALLS_S) and event_loop.lookups.are_done(LAST_CALLS_S)):
            LOG.warning("a call that hangs is abandoned")
            logging.shutdown()
            # A normal exit of Python would wait for its thread.
            os._exit(1 if lost else 0)
    return 1 if lost else 0


M_MMAP_THRESHOLD = -3
LARGE_BYTES = 128 * 1024


def limit_memory() -> None:
    """Return large blocks to the system once they are free, and leave the loaded modules out of garbage collection.

    glibc raises the size from which a block is mapped on its own to that of the largest freed one (mallopt(3)), so the
    text of a long queue would stay in the heap. Collecting garbage among the modules takes longer than the rest of a
    cycle with a long queue.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    gc.freeze()


async def _serve(settings: Settings, ledger: Ledger, reread: Callable[[], Settings], calls: CallThreads) -> int:
    asyncio.get_running_loop().set_default_executor(calls)
    ended, problem_log = asyncio.Event(), ProblemLog()
    ledger.lease.end_frozen_process()
    if ledger.lease.state() is not None:
        standby = Standby(settings, ledger, reread)

        def report(line: str) -> None:
            notify(READY, ALIVE, status_state(line))

        if not await standby.wait(lambda site: _write_wake_list(site, problem_log), report):
            return ledger.close()
        settings, ended = standby.settings, standby.ended
    site = make_site_context(settings)
    try:
        ledger.claim()
        ledger.ready()
    except CannotWrite as problem:
        LOG.warning("ledger: %s; %s: nothing is done until it answers", problem, problem.hint)
    agent = SiteAgent(site, ledger, problem_log)
    limit_memory()
    try:
        await Service(agent, reread, ended=ended).run()
    finally:
        lost = await agent.close()
    return lost
