"""A plan of the present queue, made once without the agent, and applied once if an admin orders it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from offpeak.door.effect import ADMIN, Mode
from offpeak.errors import BadLedger, BadPrices, BadSetting
from offpeak.files import is_there
from offpeak.ledger.database import sqlite_file
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.model.site_devices_file import read_devices
from offpeak.plugin.day_plan.day_plan import DayPlan, constraints_of, planned_of
from offpeak.plugin.day_plan.make import plan_beside_devices, plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.queue_hook.facts import PLAN, QueueFacts
from offpeak.plugin.queue_hook.queue_plan import QueuePlan
from offpeak.power.door.scheduler_orders import ALLOW_OWN_POLICIES, find_partitions
from offpeak.predictors.price_forecast import PriceSource
from offpeak.process import exclusive_lock, login_name
from offpeak.services.accounts.job_draws import find_node_kinds
from offpeak.services.agent.accounting_loops import open_forecasts
from offpeak.services.agent.demand_response import CapSection, OrderedCaps, PeakLoop, Surroundings
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import (
    ClusterObservation,
    WeatherLoop,
    describe_problems,
    observe_cluster,
)
from offpeak.services.agent.queue_loop import QueueController, QueueSection, make_plan_inputs, queue_facts
from offpeak.services.agent.site_context import PartitionModes, SiteContext, make_site_context, open_scheduler_door
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings

SEARCH_S = 5.0


@dataclass(frozen=True, eq=False)
class PlanContext:
    """The cluster, the facts about its queue, and its caps and weather; problems are in `problem_log`."""

    site: SiteContext
    observed: ClusterObservation
    facts: QueueFacts
    section: QueueSection
    surroundings: Surroundings
    problem_log: ProblemLog


def read_plan_context(site: SiteContext, marks: tuple[JobMark, ...]) -> PlanContext:
    """Read the scheduler, prices, weather and caps once. Raises SchedulerError."""
    settings, problem_log = site.settings, ProblemLog()
    surroundings = asyncio.run(_read_surroundings(site, problem_log))
    observed = observe_cluster(site.scheduler, site.price_section)
    view, prices = observed.view, observed.prices
    problem_log.report("prices", describe_problems(prices.problems) if prices else None)
    powers, times = open_forecasts(settings.agent.state_folder, settings.power)
    draws = powers.of(view.jobs, find_node_kinds(view.nodes, site.node_class), at_s=view.at_s)
    facts = queue_facts(observed, draws=draws, run_s=times.of(view.jobs, at_s=view.at_s), marks=marks)
    return PlanContext(site, observed, facts, QueueSection.of(site), surroundings, problem_log)


async def _read_surroundings(site: SiteContext, problem_log: ProblemLog) -> Surroundings:
    settings = site.settings
    caps_section = CapSection(settings.plan, site.zone, settings.feeds.timeout_s)
    caps = OrderedCaps(lambda: caps_section, problem_log, time.time)
    weather = WeatherLoop(lambda: settings.feeds, problem_log, time.time)
    peaks = PeakLoop(lambda: (settings, site.zone), problem_log, time.time)
    await asyncio.gather(caps.read_file(), caps.query_server(), weather.round())
    # Before the agent has run, there is no ledger, and the target alone is the cap.
    with suppress(BadLedger):
        await peaks.round()
    return Surroundings((*caps.ahead(), *peaks.caps()), weather.weather)


def make_plan(context: PlanContext) -> DayPlan:
    """Return the plan.

    Raises BadPrices if no price is known, BadInput for a facility or devices that cannot be read.
    """
    inputs = make_plan_inputs(context.facts, context.section, context.observed, context.surroundings)
    # The first run compiles kernels; their compilation does not count as time of the search.
    plan_day(inputs, None, budget_of(0.0))
    file, budget = context.site.settings.plan.devices, budget_of(SEARCH_S)
    plan = plan_beside_devices(inputs, read_devices(file), budget) if file else plan_day(inputs, None, budget)
    if plan is None:
        raise BadPrices("no price is known, so nothing can be planned", hint="`offpeak prices` says why")
    return replace(plan, remarks=(*_price_remark(context.site.prices), *plan.remarks))


def _price_remark(prices: PriceSource) -> tuple[str, ...]:
    """Name the tariff if it alone gives the cost of a start."""
    if not prices.is_tariff:
        return ()
    tariff = prices.tariff
    return (f"prices: {tariff.description}" + (f" ({tariff.assumed})" if tariff.assumed else ""),)


@dataclass(frozen=True, eq=False)
class AppliedPlan:
    """A plan that was applied: the changes of the queue hook, the mode in force, and the problems with its inputs."""

    plan: DayPlan
    written: QueuePlan
    mode: Mode
    problems: tuple[str, ...]


def plan_once(settings: Settings) -> tuple[DayPlan, tuple[str, ...]]:
    """Return the plan of the present queue, and the problems with its inputs; nothing is changed.

    Raises SchedulerError if the scheduler cannot be read, BadInput or BadPrices for inputs that cannot be used.
    """
    site = make_site_context(settings)
    try:
        context = read_plan_context(site, _read_marks(settings.ledger))
        return make_plan(context), context.problem_log.problems
    finally:
        asyncio.run(site.close())


def apply_once(settings: Settings) -> AppliedPlan:
    """Make the plan and apply its order and begin times through the door. In mode shadow it is only recorded.

    It is an admin's order, so mode advise applies it too. Raises AlreadyRunning while an agent runs, which applies
    plans itself. Raises CannotWrite if the ledger cannot be written, BadSetting if the order is that of a policy from
    outside which may not change the queue; errors as `plan_once`.
    """
    if settings.agent.own_policy_is_shadowed:
        raise BadSetting(
            f"agent.queue: the order of the own policy {settings.agent.own_policy} is only recorded, not applied",
            hint=ALLOW_OWN_POLICIES,
        )
    with exclusive_lock(settings.agent.state_folder):
        site = make_site_context(settings)
        ledger = Ledger(settings.ledger)
        try:
            ledger.claim_for_command()
            ledger.ready()
            context = read_plan_context(site, ledger.marks())
            plan = make_plan(context)
            written = asyncio.run(_apply(context, plan, ledger))
            return AppliedPlan(plan, written, site.modes.usual, context.problem_log.problems)
        finally:
            asyncio.run(site.close())
            ledger.close()


async def _apply(context: PlanContext, plan: DayPlan, ledger: Ledger) -> QueuePlan:
    modes, site = context.site.modes, context.site
    orders = open_scheduler_door(
        site.scheduler, ledger, lambda effect: modes.of(find_partitions(effect) or ()), nodes=()
    )
    # Mode advise applies an admin's order, as active does.
    for_admin = PartitionModes(
        _mode_for_admin(modes.usual), {partition: _mode_for_admin(mode) for partition, mode in modes.own.items()}
    )
    controller = QueueController(ledger, context.problem_log, by=f"{ADMIN}{login_name()}")
    facts = replace(context.facts, planned=planned_of(plan), constraints=constraints_of(plan))
    rules = replace(context.section.rules, policy=PLAN, own_policy=None)
    return await controller.run_cycle(facts, rules, orders, for_admin)


def _mode_for_admin(mode: Mode) -> Mode:
    return Mode.SHADOW if mode is Mode.SHADOW else Mode.ACTIVE


def _read_marks(settings: LedgerSettings) -> tuple[JobMark, ...]:
    """Return our changes of jobs; none if there is no ledger yet."""
    file = sqlite_file(settings.url)
    if file and not is_there(file):
        return ()
    ledger = Ledger(settings)
    try:
        return ledger.marks()
    finally:
        ledger.close()
