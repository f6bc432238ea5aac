"""What the agent publishes, made when somebody asks."""

from collections import Counter

from offpeak.ledger.rows import SavingRecord
from offpeak.prices.peak import Peak
from power.agent.agent import Agent
from power.agent.facts import queue_rules
from power.agent.jobs_said import jobs_said
from power.agent.published import NO_SCHEDULER, NodesSaid, PriceSaid, Published, SavedSaid
from predictors.price_curve import PriceCurve


def published(agent: Agent, *, with_jobs: bool = True) -> Published | None:
    """Return what is known since the last round of the queue; before the first what is wrong, None if nothing is."""
    facts, traits, troubles = agent.facts, agent.observer.traits, agent.voice.troubles
    if facts is None and not troubles:
        return None
    now_s = agent.now_unix_s
    at_s = now_s if facts is None else facts.now_s
    return Published(
        at_unix_s=at_s,
        mode=str(agent.modes.usual),
        cluster=traits.cluster if traits else "",
        scheduler=f"{traits.name} {traits.version}" if traits else NO_SCHEDULER,
        cycle_s=agent.parts.settings.agent.cycle_s,
        price=price_said(agent.prices.curve, int(at_s)),
        nodes=_nodes(agent),
        saved_today=_saved(agent.savings.today),
        jobs=jobs_said(facts, queue_rules(agent.parts), agent.queue.changed.latest) if facts and with_jobs else (),
        troubles=troubles,
        now_unix_s=now_s,
        clock_factor=agent.parts.clock.factor,
        first_round_until_unix_s=agent.first_round_until_unix_s,
        has_looked=facts is not None,
    )


def price_said(curve: PriceCurve | None, now_s: int) -> PriceSaid:
    """Return the present price."""
    at = -1 if curve is None else curve.at(now_s)
    if curve is None or at < 0:
        return PriceSaid(None, "", "no price is known")
    peak = curve.peak_at(now_s)
    on_peak = None if peak is Peak.UNKNOWN else peak is Peak.ON_PEAK
    price = float(curve.series.value[at])
    return PriceSaid(price, curve.series.unit, curve.basis[at], on_peak, float(curve.peak_until_s(now_s)))


def _saved(saving: SavingRecord | None) -> SavedSaid:
    if saving is None:
        return SavedSaid()
    cost = None if saving.cost is None or saving.baseline_cost is None else saving.baseline_cost - saving.cost
    return SavedSaid(saving.baseline_energy_j - saving.energy_j, cost, saving.currency, saving.basis)


def _nodes(agent: Agent) -> NodesSaid:
    states = Counter(str(life.seen.state) for life in agent.power.lives.nodes.values())
    return NodesSaid(tuple(states.most_common()), agent.meters.watts)
