"""The agent as a service: signals, settings that are read again, systemd's watchdog, and the socket.

systemd is notified by one datagram to $NOTIFY_SOCKET (sd_notify(3)), and by nothing where the variable is not set.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from offpeak.door.effect import US, Mode
from offpeak.errors import OffpeakError, SchedulerError
from offpeak.machines.node_sets import fold
from offpeak.settings.table import Settings
from offpeak.text import printable
from plugin.queue_hook.facts import PLAN
from power.wake_list import make_wake_list, make_wake_pace, write_wake_list
from services.agent.agent import SiteAgent
from services.agent.holds import change_hold, parse_hold_request
from services.agent.loop import LOG
from services.agent.node_memory import read_last_sleep_orders
from services.agent.reports import SiteReporter, make_snapshot, make_status
from services.agent.requests import NodeRequest
from services.agent.restore import on_their_way, open_nodes, restore_queue
from services.agent.site_context import PartitionModes, SiteContext, make_site_context, parse_modes
from services.agent.socket_server import SocketServer, serve_socket
from services.agent.wake_reply import WakeReply

STATUS_LETTERS = 1000
"""Room for a problem and its remedy."""
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


def notify(*states: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send the states together; returns whether somebody took them. Never raises, never waits."""
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
    """Return the states that say: settings are read again since then; READY follows."""
    since_s = time.monotonic() if monotonic_s is None else monotonic_s
    return f"RELOADING=1\nMONOTONIC_USEC={since_s * 1e6:.0f}"


def read_watchdog_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return within how many seconds ALIVE is expected, None if nobody waits for it."""
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None


STATUS_EVERY_S = 1.0
LAST_ROUNDS_S = 10.0
GIVE_BACK_S = 30.0
"""What an end may take at most, before and after no round runs any more. Logging out and a ledger that hangs may take
half a minute more; TimeoutStopSec= of the unit allows for all of it."""
GIVE_BACK_EVERY_S = 60.0
NO_MODES = PartitionModes(Mode.SHADOW, {})
"""What stays of the agent when it ends."""


class Service:
    """Runs an agent until SIGTERM or SIGINT; SIGHUP has the settings read again."""

    def __init__(self, agent: SiteAgent, reread: Callable[[], Settings]) -> None:
        self._agent, self._reread = agent, reread
        self._ended, self._read_again, self._has_next = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._next: SiteContext | None = None
        self._exchanging = asyncio.Lock()
        # The modes in which something was done that is not given back yet.
        self._acted, self._left = agent.parts.modes, dict[str, str]()

    async def run(self) -> None:
        """Run until a signal ends it, and leave a safe state."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended.set)
        loop.add_signal_handler(signal.SIGHUP, self._read_again.set)
        agent = self._agent
        words = SiteReporter(agent)
        server = SocketServer(
            lambda: make_status(agent),
            self._hear,
            agent.parts.callers,
            site=words.said,
            picture=lambda seen: make_snapshot(agent, seen),
            wakes=agent.wakes,
            change_hold=lambda request, person: change_hold(agent, parse_hold_request(request, person)),
            plan=lambda: agent.plan.standing if agent.parts.settings.agent.queue == PLAN else None,
        )
        async with AsyncExitStack() as end:
            await end.enter_async_context(serve_socket(agent.parts.settings.agent.socket, server))
            self._write_wake_list(agent.parts)
            tasks = [asyncio.create_task(rounds.run(), name=rounds.name) for rounds in agent.rounds]
            others = (self._reload, self._exchange, self._give_back_the_rest, self._report_to_systemd)
            tasks += [asyncio.create_task(each()) for each in others]
            notify(READY)
            LOG.info("started in mode %s", agent.parts.modes.usual)
            _log_http_bmcs(agent.parts)
            await self._ended.wait()
            notify(STOPPING)
            await self._end(tasks)
            self._acted = self._acted.widened(agent.parts.modes)
            await self._give_back(NO_MODES)
        LOG.info("ended")

    def _hear(self, told: NodeRequest) -> WakeReply | None:
        if self._ended.is_set():
            hint = "Slurm's own program wakes nodes; `systemctl status offpeak-agent`"
            raise OffpeakError("the agent is ending", hint=hint)
        return self._agent.hear(told)

    def end(self) -> None:
        """End it as SIGTERM does."""
        self._ended.set()

    async def ends(self) -> None:
        """Wait for the signal, or the call, that ends it."""
        await self._ended.wait()

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Let what is under way come to its end first: what is told to a scheduler goes on, whoever waits for it."""
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
        """Give the site its own order, and the nodes that are up; begin times end by themselves and stay."""
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                left = await give_back(self._agent, self._acted, stays)
        except Exception as problem:
            LOG.warning("not all was given back: %s; it is tried again, at the end by `agent --restore`", problem)
            return
        if not left:
            self._acted = stays
        elif left != self._left:
            ends = self._ended.is_set()
            then = "`offpeak agent --restore` tries again" if ends else "the agent tries again"
            for why in dict.fromkeys(left.values()):
                LOG.warning("closed still: %s: %s; %s", fold(node for node in left if left[node] == why), why, then)
        self._left = left

    async def _give_back_the_rest(self) -> None:
        """Give back, once it can be, what could not be when a mode closed the door."""
        while True:
            await asyncio.sleep(GIVE_BACK_EVERY_S)
            async with self._exchanging:
                # Also those of settings whose parts cannot be used: the door is closed by them.
                modes = self._agent.modes
                if self._acted.widened(modes) != modes:
                    await self._give_back(modes)

    async def _reload(self) -> None:
        """Read the settings at each SIGHUP, and put a mode that closes the door in force at once."""
        while True:
            await self._read_again.wait()
            self._read_again.clear()
            notify(reloading_state())
            before = self._agent.modes
            try:
                settings = self._reread()
                # The mode counts even if another setting cannot be used: an admin who closes the door means it.
                modes = self._agent.next_modes = parse_modes(settings.agent)
                self._next = replace(make_site_context(settings, self._agent.parts.clock), modes=modes)
                self._has_next.set()
            except OffpeakError as problem:
                LOG.error("settings: the old ones stay: %s; %s", problem, problem.hint)
                notify(READY)
            except Exception as problem:
                # The next reload has to find this task alive: it may be the one that closes the door.
                LOG.error("settings: the old ones stay: %s: %s", type(problem).__name__, problem, exc_info=problem)
                notify(READY)
            if self._agent.modes != before:
                usual = self._agent.modes.usual
                LOG.info("settings: mode=%s holds at once; the others follow the rounds under way", usual)

    async def _exchange(self) -> None:
        """Have the agent work with the settings that were read last, once the rounds under way have ended."""
        agent = self._agent
        while True:
            await self._has_next.wait()
            async with self._exchanging, agent.between_rounds():
                self._has_next.clear()
                parts, self._next = self._next, None
                if parts is not None:
                    try:
                        await self._exchange_for(parts)
                    except Exception as problem:
                        # The next reload finds this task alive, and systemd does not wait for the end of this one.
                        LOG.error("settings: not all are in force: %s: %s", type(problem).__name__, problem)
                    notify(READY)

    async def _exchange_for(self, parts: SiteContext) -> None:
        agent = self._agent
        for what in _fixed_changes(agent.parts.settings, parts.settings):
            LOG.warning("settings: %s is another: that holds after a restart", what)
        self._acted = self._acted.widened(agent.parts.modes)
        if self._acted.widened(parts.modes) != parts.modes:
            await self._give_back(parts.modes)
        await agent.exchange(parts)
        self._write_wake_list(parts)
        LOG.info("settings are read again: mode %s", parts.modes.usual)
        _log_http_bmcs(parts)

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

    def _stuck(self) -> list[str]:
        """Return the rounds that hang: systemd starts a program anew that no longer says that it is alive."""
        now_s = time.monotonic()
        return [each.name for each in self._agent.rounds if now_s > each.stuck_s]

    def _write_wake_list(self, parts: SiteContext) -> None:
        try:
            handed_over = os.environ.get("CREDENTIALS_DIRECTORY")
            credentials = Path(handed_over) if handed_over else None
            ways, settings = make_wake_list(parts.inventory, credentials=credentials), parts.settings.agent
            write_wake_list(settings.state_folder, ways, make_wake_pace(settings, parts.inventory))
        except (OffpeakError, OSError) as problem:
            self._agent.problem_log.report("wake list", str(problem))


async def give_back(agent: SiteAgent, acted: PartitionModes, stays: PartitionModes) -> dict[str, str]:
    """Undo what holds jobs back without us: the order that we wrote, and nodes that we closed and that are up.

    It may do what was allowed in the modes in which the agent has `acted`; what `stays` active is left as it is. A node
    that was ordered to sleep of late stays closed unless it was seen since to come up again. Returns why nodes are
    closed still; SchedulerError where nobody can tell.
    """
    view, traits = await agent.observer.view(at_most_s=0.0), agent.observer.traits
    if view is None or traits is None:
        raise SchedulerError("the scheduler does not answer", hint="`offpeak check` says why")
    # They bring what is known of nodes, which tells those that go down.
    await agent.orders()
    orders = agent.undoing(acted)
    jobs = [job for job in view.jobs if stays.of(job.partitions) is not Mode.ACTIVE]
    nodes = [node for node in view.nodes if stays.of(node.partitions) is not Mode.ACTIVE]
    ranks = [mark for mark in await agent.queue.marks() if mark.kind.startswith("rank")]
    await restore_queue(jobs, ranks, traits.ranking, orders, by=US)
    now = agent.power.now
    sleep_orders = await asyncio.to_thread(read_last_sleep_orders, agent.ledger, now.unix_s)
    but = on_their_way(nodes, agent.power.lives, sleep_orders, now)
    return await open_nodes(nodes, orders, by=US, but=but)


def _fixed_changes(old: Settings, new: Settings) -> list[str]:
    pairs = (
        ("[ledger] url", old.ledger.url, new.ledger.url),
        ("[agent] state_folder", old.agent.state_folder, new.agent.state_folder),
        ("[agent] socket", old.agent.socket, new.agent.socket),
    )
    return [name for name, before, after in pairs if before != after]


def _log_http_bmcs(parts: SiteContext) -> None:
    nodes = [name for name, machine in parts.by_name.items() if (machine.bmc or "").startswith("http://")]
    if nodes:
        LOG.warning("%s: their BMCs are asked by http, passwords travel unencrypted", fold(nodes))
