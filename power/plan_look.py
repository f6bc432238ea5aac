"""What a plan needs to know, asked once, and the plan that comes of it."""

import asyncio
import time
from dataclasses import dataclass, replace

from offpeak.errors import BadPrices
from offpeak.ledger.rows import JobMark
from offpeak.model.local_time import DAY_S
from plugin.day_plan.day_plan import DayPlan
from plugin.day_plan.make import plan_day
from plugin.planner.searches import budget_of
from plugin.queue_hook.facts import QueueFacts
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.accounts import job_powers, run_times
from power.accounts.declared_draws import declared_by
from power.accounts.job_powers import JobPowers
from power.accounts.node_kinds import kinds_of
from power.accounts.run_times import RunTimes
from power.agent.facts import queue_facts, queue_rules
from power.agent.outside_loop import OutsideLoop
from power.agent.parts import Parts
from power.agent.price_loop import AHEAD_S
from power.agent.voice import Voice
from power.plan_sight import plan_sight
from predictors.feeds.port import INCOMPLETE
from predictors.price_curve import price_curve
from predictors.price_forecast import PriceSource

SEARCH_S = 5.0


@dataclass(frozen=True, eq=False)
class Look:
    """What was asked for a plan; `voice` knows the troubles with what was asked."""

    parts: Parts
    view: SchedulerView
    traits: SchedulerTraits
    facts: QueueFacts
    outside: OutsideLoop
    voice: Voice


def look_of(parts: Parts, marks: tuple[JobMark, ...]) -> Look:
    """Ask the scheduler, the sources of prices, weather and caps, once; errors of the scheduler."""
    settings, voice = parts.settings, Voice()
    outside = OutsideLoop(voice, time.time)
    asyncio.run(outside.round(parts))
    traits, view = parts.scheduler.traits(), parts.scheduler.view()
    ahead_s = int(max(AHEAD_S, settings.agent.longest_delay_s + DAY_S))
    curve = price_curve(parts.prices, parts.peak_rule, parts.zone, now_s=view.at_s, ahead_s=ahead_s)
    voice.trouble("prices", "; ".join(str(each) for each in curve.troubles if each.condition not in INCOMPLETE) or None)
    folder, kinds = settings.agent.state_folder, kinds_of(view.nodes, parts.node_class)
    powers = JobPowers(declared_by(settings.power), path=folder / job_powers.FILE)
    draws = powers.of(view.jobs, kinds, at_s=view.at_s)
    run_s = RunTimes(path=folder / run_times.FILE).of(view.jobs, at_s=view.at_s)
    facts = queue_facts(view, traits.ranking, curve, draws=draws, run_s=run_s, marks=marks, told={})
    return Look(parts, view, traits, facts, outside, voice)


def planned(look: Look) -> DayPlan:
    """Return the plan; BadPrices where no price is known, BadInput for a facility that cannot be read."""
    sight = plan_sight(
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
