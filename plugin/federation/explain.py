"""Puts a decision into words: why there, what the second best would have cost, what is missing where."""

import numpy as np

from plugin.federation.choice import Choice, Estimate
from plugin.federation.compatible import Fit, fit_of, misses
from plugin.federation.cycle import Cycle
from plugin.federation.decision import NOBODY, Decision, Why

REASONS = {
    Why.IMPOSSIBLE: "no site can run it: {missing}",
    Why.NEXT_CYCLE: "sites that can run it have all the jobs that they take in this cycle, or its allocation is used",
    Why.HOME: "it stays at home",
    Why.NOT_AT_HOME: "its home cannot run it now",
    Why.TURN: "it is {site}'s turn",
    Why.IDLE: "{site} has enough idle and nobody waits there",
    Why.SHORTEST_WAIT: "it starts soonest at {site}, in {delay}",
    Why.LEAST: "{site} takes least: {figures}",
    Why.NEXT_BEST: "{site} takes least of those that are not too late or too full: {figures}",
    Why.NONE_IN_TIME: "no site can end it in time; it starts soonest at {site}, in {delay}",
    Why.ALL_QUEUES_LONG: "all queues are over the limit; it starts soonest at {site}, in {delay}",
    Why.CHEAPEST: "{site} suits it best: {figures}",
    Why.GIVES_WAY: "{second} would suit it better, but all jobs of the cycle together cost less so: {site}, {figures}",
}


def choices(cycle: Cycle, decision: Decision) -> tuple[Choice, ...]:
    """Return the choice of each job of the cycle in words, in their order."""
    fit = fit_of(cycle, decision.predicted.units, decision.predicted.runtime_s)
    return tuple(_choice(cycle, decision, fit, job) for job in range(len(decision)))


def _choice(cycle: Cycle, decision: Decision, fit: Fit, job: int) -> Choice:
    place = int(decision.site[job])
    chosen = None if place == NOBODY else estimate(cycle, decision, job, place)
    second = _second(cycle, decision, job)
    missing = misses(cycle, fit, decision.predicted.runtime_s, job)
    words = {
        "missing": "; ".join(f"{miss.site}: {miss.text}" for miss in missing),
        "second": second.site if second else "another site",
        "site": chosen.site if chosen else "",
        "delay": _time(chosen.delay_s) if chosen else "",
        "figures": _figures(chosen, cycle.states.price[0].currency) if chosen else "",
    }
    reason = REASONS[Why(int(decision.why[job]))].format(**words)
    return Choice(int(cycle.jobs.job_id[job]), chosen.site if chosen else None, reason, chosen, second, missing)


def estimate(cycle: Cycle, decision: Decision, job: int, site: int) -> Estimate:
    """Return what the job would take at the site."""
    predicted, at = decision.predicted, (job, site)
    score = float(decision.score[at])
    return Estimate(
        cycle.grid.names[site],
        float(predicted.delay_s[at]),
        float(predicted.runtime_s[at]),
        int(predicted.units[at]) * cycle.grid.sites[site].cores_per_unit,
        float(predicted.energy_j[at]),
        float(predicted.cost[at]),
        float(predicted.co2_g[at]),
        score if np.isfinite(score) else None,
    )


def _second(cycle: Cycle, decision: Decision, job: int) -> Estimate | None:
    """Return the best of the other sites by what the policy compared, None if there is no other."""
    others = decision.score[job].copy()
    if decision.site[job] != NOBODY:
        others[decision.site[job]] = np.inf
    best = int(np.argmin(others))
    return estimate(cycle, decision, job, best) if np.isfinite(others[best]) else None


def _figures(estimate: Estimate, currency: str) -> str:
    end_s = estimate.delay_s + estimate.runtime_s
    energy = f"{estimate.energy_j / 3.6e6:,.1f} kWh"
    return f"ends in {_time(end_s)}, {estimate.cost:,.2f} {currency}, {estimate.co2_g / 1000:,.2f} kg CO2, {energy}"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
