"""The entry of `offpeak agent`: starts the agent, or gives the site's own order back."""

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from offpeak.door.effect import ADMIN, Mode
from offpeak.errors import BadInventory, BadLedger, CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.process import AlreadyRunning, exclusive_lock, login_name
from offpeak.settings.table import Settings
from offpeak.text import counted
from plugin.scheduler.node import NodePower
from power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from power.drivers.poll import poll_drivers
from power.drivers.port import PowerDriver, PowerState
from power.lifecycle.node_record import Instant
from services.agent.agent import SiteAgent
from services.agent.loop import LOG, ProblemLog
from services.agent.node_memory import load_node_records, read_last_sleep_orders
from services.agent.power_loop import LONGEST_LOOKS
from services.agent.restore import (
    ON_ITS_WAY,
    clear_comments,
    hand_over_off_nodes,
    on_their_way,
    open_nodes,
    restore_queue,
)
from services.agent.service import Service
from services.agent.site_context import SiteContext, make_site_context

MOST_CALLS = 64
"""So many calls that block may be under way: each order of a round asks the scheduler, and some answers may hang."""
LAST_CALLS_S = 1.0


class CallThreads(ThreadPoolExecutor):
    """Threads of calls that block, such as a program of the scheduler; an end waits for none of them."""

    def __init__(self) -> None:
        super().__init__(MOST_CALLS, thread_name_prefix="call")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Take no more calls."""
        super().shutdown(wait=False, cancel_futures=True)

    def are_done(self, within_s: float) -> bool:
        """Return whether all calls have ended, or end within so long."""
        until_s = time.monotonic() + within_s
        for thread in tuple(self._threads):
            thread.join(max(0.0, until_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


def run_agent(settings: Settings, reread: Callable[[], Settings]) -> int:
    """Run until a signal ends it; returns the exit code. BadInput for what cannot be used."""
    _log_to_stderr()
    with exclusive_lock(settings.agent.state_folder):
        parts, ledger = make_site_context(settings), Ledger(settings.ledger)
        try:
            ledger.claim()
            ledger.ready()
        except CannotWrite as problem:
            LOG.warning("ledger: %s; %s: until it answers nothing is done", problem, problem.hint)
        except (AlreadyRunning, BadLedger):
            ledger.close()
            raise
        calls = CallThreads()
        lost = asyncio.run(_serve(parts, ledger, reread, calls))
        if lost:
            LOG.error("%s did not reach the ledger", counted(lost, "row"))
        if not calls.are_done(LAST_CALLS_S):
            LOG.warning("a call that hangs is left behind")
            logging.shutdown()
            # Python itself would wait for its thread.
            os._exit(1 if lost else 0)
    return 1 if lost else 0


async def _serve(parts: SiteContext, ledger: Ledger, reread: Callable[[], Settings], calls: CallThreads) -> int:
    asyncio.get_running_loop().set_default_executor(calls)
    agent = SiteAgent(parts, ledger, ProblemLog())
    # What is loaded by now stays: looking through it for garbage takes longer than all else in a cycle of a long queue.
    gc.freeze()
    try:
        await Service(agent, reread).run()
    finally:
        lost = await agent.close()
    return lost


@dataclass(frozen=True)
class RestoreResult:
    """The nodes that are open to jobs again, and what could not be given back, in words."""

    nodes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def run_restore(settings: Settings) -> RestoreResult:
    """Undo what was changed in the scheduler's queue and nodes; returns what became of it.

    It is an admin's order, so the mode does not matter. AlreadyRunning while an agent runs, SchedulerError or
    CannotWrite where nothing can be asked or looked up.
    """
    with exclusive_lock(settings.agent.state_folder):
        parts, ledger = make_site_context(settings), Ledger(settings.ledger)
        try:
            ledger.claim()
            ledger.ready()
            return asyncio.run(_restore(parts, ledger))
        finally:
            ledger.close()


async def _restore(parts: SiteContext, ledger: Ledger) -> RestoreResult:
    by, scheduler = f"{ADMIN}{login_name()}", parts.scheduler
    holds = ledger.holds(time.time())
    door = make_scheduler_door(ledger, lambda _: Mode.ADVISE, time.time, nodes=parts.machines, hold_of=holds.get)
    orders = SchedulerOrders(door, scheduler)
    view, marks, now = scheduler.view(), ledger.marks(), Instant(time.monotonic(), time.time())
    lives = load_node_records(ledger, parts.machines, unix_s=now.unix_s, monotonic_s=now.monotonic_s)
    sleep_orders = read_last_sleep_orders(ledger, now.unix_s)
    answers = await restore_queue(view.jobs, marks, scheduler.traits().ranking, orders, by=by)
    answers += await clear_comments(view.jobs, orders, by=by)
    refused = [each.answer.said for each in answers if not each.done]
    failed = [f"job {job}: {why}" for each in answers for job, why in each.failed.items()]
    if not refused and not failed:
        ledger.forget_marks(marks)
    # One that its scheduler takes for up may be off since an order of long ago.
    off = await _find_off_nodes(
        [node.name for node in view.nodes if node.closed_by_us and node.power is not NodePower.DOWN], parts
    )
    but = on_their_way(view.nodes, lives, sleep_orders, now) | off
    closed = await open_nodes(view.nodes, orders, by=by, but=but)
    back = await hand_over_off_nodes(off, lambda: scheduler.view().nodes, orders, by=by)
    left = {node: why for node, why in closed.items() if node not in back}
    still = [
        f"{node}: closed still: {why}" + ("; try again in some minutes" if why == ON_ITS_WAY else "")
        for node, why in left.items()
    ]
    opened = [node.name for node in view.nodes if node.closed_by_us and node.name not in left]
    return RestoreResult(tuple(opened), (*refused, *failed, *still))


async def _find_off_nodes(nodes: Iterable[str], parts: SiteContext) -> frozenset[str]:
    """Return those of the nodes that are off, as their BMCs say."""
    drivers: dict[str, PowerDriver] = {}
    for node in nodes:
        # The inventory may not know it any more.
        with suppress(BadInventory):
            drivers[node] = parts.ways.bmc_of(node)
    try:
        seen = await poll_drivers(drivers, timeout_s=LONGEST_LOOKS * parts.wire.timeout_s, clock=parts.wire.clock)
    finally:
        await parts.close()
    return frozenset(node for node, each in seen.items() if each.state is PowerState.OFF)


def _log_to_stderr() -> None:
    """Log to the journal, which knows the time itself, or to a terminal with it."""
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(format=form, level=logging.INFO, stream=sys.stderr)
    for noisy in ("pyghmi", "asyncssh", "sqlalchemy", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
