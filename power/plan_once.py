"""A plan of the queue as it is now, made once for who asks, and carried out once where that is ordered."""

import asyncio
import time
from dataclasses import dataclass, replace

from offpeak.door.effect import ADMIN, Mode
from offpeak.ledger.database import sqlite_file
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.process import exclusive_lock, login_name
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from plugin.day_plan.day_plan import DayPlan, planned_of
from plugin.queue_hook.facts import PLAN
from plugin.queue_hook.queue_plan import QueuePlan
from power.agent.facts import queue_rules
from power.agent.modes import Modes
from power.agent.parts import parts_of
from power.agent.queue_loop import QueueLoop
from power.door.scheduler_orders import SchedulerOrders, find_partitions, make_scheduler_door
from power.plan_look import Look, look_of, planned


@dataclass(frozen=True, eq=False)
class Applied:
    """What carrying out came to: the plan, what the queue hook wrote, and the mode that it met."""

    plan: DayPlan
    written: QueuePlan
    mode: Mode
    troubles: tuple[str, ...]


def plan_once(settings: Settings) -> tuple[DayPlan, tuple[str, ...]]:
    """Return the plan of the queue as it is, and what was wrong with what was asked; nothing is changed.

    SchedulerError where the scheduler cannot tell, BadInput or BadPrices for what cannot be used.
    """
    look = look_of(parts_of(settings), _marks(settings.ledger))
    return planned(look), look.voice.troubles


def apply_once(settings: Settings) -> Applied:
    """Make the plan and carry it out through the door: the order, and begin times. In shadow mode it is recorded only.

    It is an admin's order, so it is done in mode advise too. AlreadyRunning while an agent runs, which carries plans
    out itself; CannotWrite where nothing can be remembered; errors as `plan_once`.
    """
    with exclusive_lock(settings.agent.state_folder):
        ledger = Ledger(settings.ledger)
        try:
            ledger.claim()
            ledger.ready()
            look = look_of(parts_of(settings), ledger.marks())
            plan = planned(look)
            written = asyncio.run(_carry_out(look, plan, ledger))
            return Applied(plan, written, look.parts.modes.usual, look.voice.troubles)
        finally:
            ledger.close()


async def _carry_out(look: Look, plan: DayPlan, ledger: Ledger) -> QueuePlan:
    modes, parts = look.parts.modes, look.parts
    holds = ledger.holds(time.time())
    door = make_scheduler_door(
        ledger, lambda effect: modes.of(find_partitions(effect) or ()), time.time, nodes=(), hold_of=holds.get
    )
    # What an admin orders is done in mode advise, as in active.
    ordered = Modes(_done(modes.usual), {partition: _done(mode) for partition, mode in modes.own.items()})
    loop = QueueLoop(ledger, look.voice, by=f"{ADMIN}{login_name()}")
    facts, rules = replace(look.facts, planned=planned_of(plan)), replace(queue_rules(parts), policy=PLAN)
    written = await loop.round(facts, rules, SchedulerOrders(door, parts.scheduler), ordered)
    await parts.close()
    return written


def _done(mode: Mode) -> Mode:
    return Mode.SHADOW if mode is Mode.SHADOW else Mode.ACTIVE


def _marks(settings: LedgerSettings) -> tuple[JobMark, ...]:
    """Return what was changed of jobs; nothing where no ledger was begun yet."""
    file = sqlite_file(settings.url)
    if file and not file.exists():
        return ()
    ledger = Ledger(settings)
    try:
        return ledger.marks()
    finally:
        ledger.close()
