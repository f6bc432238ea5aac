"""A plan of the present queue, made once without the agent, and applied once where an admin orders it."""

import asyncio
import time
from dataclasses import dataclass, replace

from offpeak.door.effect import ADMIN, Mode
from offpeak.errors import BadPrices
from offpeak.ledger.database import sqlite_file
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.model.constants import DAY_S
from offpeak.process import exclusive_lock, login_name
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from plugin.day_plan.day_plan import DayPlan, planned_of
from plugin.day_plan.make import plan_day
from plugin.planner.searches import budget_of
from plugin.queue_hook.facts import PLAN, QueueFacts
from plugin.queue_hook.queue_plan import QueuePlan
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.door.scheduler_orders import SchedulerOrders, find_partitions, make_scheduler_door
from predictors.feeds.port import INCOMPLETE
from predictors.price_curve import price_curve
from predictors.price_forecast import PriceSource
from services.accounts.job_draws import find_node_kinds, read_declared_draws
from services.accounts.job_forecasts import JOB_POWER_FILE, RUN_TIMES_FILE, JobPowers, RunTimes
from services.agent.feed_loops import PRICES_AHEAD_S, OutsideLoop
from services.agent.loop import ProblemLog
from services.agent.plan_loop import make_plan_inputs
from services.agent.queue_loop import QueueLoop, queue_facts, queue_rules
from services.agent.site_context import PartitionModes, SiteContext, make_site_context

SEARCH_S = 5.0


@dataclass(frozen=True, eq=False)
class PlanContext:
    """What was asked for a plan; `problem_log` knows the troubles with what was asked."""

    parts: SiteContext
    view: SchedulerView
    traits: SchedulerTraits
    facts: QueueFacts
    outside: OutsideLoop
    problem_log: ProblemLog


def read_plan_context(parts: SiteContext, marks: tuple[JobMark, ...]) -> PlanContext:
    """Ask the scheduler, the sources of prices, weather and caps, once; errors of the scheduler."""
    settings, problem_log = parts.settings, ProblemLog()
    outside = OutsideLoop(problem_log, time.time)
    asyncio.run(outside.round(parts))
    traits, view = parts.scheduler.traits(), parts.scheduler.view()
    ahead_s = int(max(PRICES_AHEAD_S, settings.agent.longest_delay_s + DAY_S))
    curve = price_curve(parts.prices, parts.peak_rule, parts.zone, now_s=view.at_s, ahead_s=ahead_s)
    problem_log.report(
        "prices", "; ".join(str(each) for each in curve.troubles if each.condition not in INCOMPLETE) or None
    )
    folder, kinds = settings.agent.state_folder, find_node_kinds(view.nodes, parts.node_class)
    powers = JobPowers(read_declared_draws(settings.power), path=folder / JOB_POWER_FILE)
    draws = powers.of(view.jobs, kinds, at_s=view.at_s)
    run_s = RunTimes(path=folder / RUN_TIMES_FILE).of(view.jobs, at_s=view.at_s)
    facts = queue_facts(view, traits.ranking, curve, draws=draws, run_s=run_s, marks=marks, told={})
    return PlanContext(parts, view, traits, facts, outside, problem_log)


def make_plan(look: PlanContext) -> DayPlan:
    """Return the plan; BadPrices where no price is known, BadInput for a facility that cannot be read."""
    sight = make_plan_inputs(
        look.facts,
        queue_rules(look.parts),
        look.parts.settings,
        nodes=look.view.nodes,
        shared_nodes=look.traits.shared_nodes,
        caps=look.outside.caps(),
        weather=look.outside.weather,
    )
    # A first run compiles kernels: that is not to be taken off the time of the search.
    plan_day(sight, None, budget_of(0.0))
    plan = plan_day(sight, None, budget_of(SEARCH_S))
    if plan is None:
        raise BadPrices("no price is known, so nothing can be planned", hint="`offpeak prices` says why")
    return replace(plan, remarks=(*_price_remark(look.parts.prices), *plan.remarks))


def _price_remark(prices: PriceSource) -> tuple[str, ...]:
    """Name the tariff where it alone tells what a start costs."""
    if not prices.is_tariff:
        return ()
    tariff = prices.tariff
    return (f"prices: {tariff.description}" + (f" ({tariff.assumed})" if tariff.assumed else ""),)


@dataclass(frozen=True, eq=False)
class AppliedPlan:
    """What carrying out came to: the plan, what the queue hook wrote, and the mode that it met."""

    plan: DayPlan
    written: QueuePlan
    mode: Mode
    troubles: tuple[str, ...]


def plan_once(settings: Settings) -> tuple[DayPlan, tuple[str, ...]]:
    """Return the plan of the queue as it is, and what was wrong with what was asked; nothing is changed.

    SchedulerError where the scheduler cannot tell, BadInput or BadPrices for what cannot be used.
    """
    look = read_plan_context(make_site_context(settings), _read_marks(settings.ledger))
    return make_plan(look), look.problem_log.problems


def apply_once(settings: Settings) -> AppliedPlan:
    """Make the plan and carry it out through the door: the order, and begin times. In shadow mode it is recorded only.

    It is an admin's order, so it is done in mode advise too. AlreadyRunning while an agent runs, which carries plans
    out itself; CannotWrite where nothing can be remembered; errors as `plan_once`.
    """
    with exclusive_lock(settings.agent.state_folder):
        ledger = Ledger(settings.ledger)
        try:
            ledger.claim()
            ledger.ready()
            look = read_plan_context(make_site_context(settings), ledger.marks())
            plan = make_plan(look)
            written = asyncio.run(_carry_out(look, plan, ledger))
            return AppliedPlan(plan, written, look.parts.modes.usual, look.problem_log.problems)
        finally:
            ledger.close()


async def _carry_out(look: PlanContext, plan: DayPlan, ledger: Ledger) -> QueuePlan:
    modes, parts = look.parts.modes, look.parts
    holds = ledger.holds(time.time())
    door = make_scheduler_door(
        ledger, lambda effect: modes.of(find_partitions(effect) or ()), time.time, nodes=(), hold_of=holds.get
    )
    # What an admin orders is done in mode advise, as in active.
    ordered = PartitionModes(
        _mode_for_admin(modes.usual), {partition: _mode_for_admin(mode) for partition, mode in modes.own.items()}
    )
    loop = QueueLoop(ledger, look.problem_log, by=f"{ADMIN}{login_name()}")
    facts, rules = replace(look.facts, planned=planned_of(plan)), replace(queue_rules(parts), policy=PLAN)
    written = await loop.round(facts, rules, SchedulerOrders(door, parts.scheduler), ordered)
    await parts.close()
    return written


def _mode_for_admin(mode: Mode) -> Mode:
    return Mode.SHADOW if mode is Mode.SHADOW else Mode.ACTIVE


def _read_marks(settings: LedgerSettings) -> tuple[JobMark, ...]:
    """Return what was changed of jobs; nothing where no ledger was begun yet."""
    file = sqlite_file(settings.url)
    if file and not file.exists():
        return ()
    ledger = Ledger(settings)
    try:
        return ledger.marks()
    finally:
        ledger.close()
