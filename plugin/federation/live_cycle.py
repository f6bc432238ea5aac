"""Makes a scheduling cycle of jobs from the reports of the sites, and explains the decision.

The text gives the reason for the site, the cost at the second best site, and what each other site lacks. Jobs that the
broker has already sent to sites count against allocations, and against the load until the site reports them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from offpeak.display import co2_text, duration_text, energy_text, money_text
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, J_PER_KWH
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import (
    NO_SITE,
    DecisionReason,
    GridCycle,
    GridDecision,
    GridRules,
    SiteChoice,
    SiteEstimate,
    SiteStates,
)
from offpeak.plugin.federation.jobs import PlacementRequest, request_columns
from offpeak.plugin.federation.placement_costs import SiteFit, check_fit, find_mismatches, transfer_s
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.site_report import Curve, SiteReport, SiteWait, WaitRows, expected_wait
from offpeak.plugin.federation.sites import Grid, Site, mix_carbon, tariff_price

REASONS = {
    DecisionReason.IMPOSSIBLE: "no site can run it: {missing}",
    DecisionReason.NEXT_CYCLE: (
        "sites that can run it have all the jobs that they take in this cycle, or its allocation is used"
    ),
    DecisionReason.HOME: "it stays at home",
    DecisionReason.NOT_AT_HOME: "its home cannot run it now",
    DecisionReason.TURN: "it is {site}'s turn",
    DecisionReason.IDLE: "{site} has enough idle units and an empty queue",
    DecisionReason.SHORTEST_WAIT: "it starts soonest at {site}, in {delay}",
    DecisionReason.LEAST: "{site} takes least: {figures}",
    DecisionReason.NEXT_BEST: "{site} takes least of those that are not too late or too full: {figures}",
    DecisionReason.NONE_IN_TIME: "no site can end it in time; it starts soonest at {site}, in {delay}",
    DecisionReason.ALL_QUEUES_LONG: "all queues are over the limit; it starts soonest at {site}, in {delay}",
    DecisionReason.CHEAPEST: "{site} suits it best: {figures}",
    DecisionReason.GIVES_WAY: (
        "{second} would suit it better, but all jobs of the cycle together cost less so: {site}, {figures}"
    ),
}

ON_THE_WAY_S = 5.0
"""A job that was sent this shortly before a site's report may be missing in it."""

AHEAD_S = 8 * DAY_S

NO_SITES: Mapping[str, str] = {}
DEFAULT_RULES = GridRules()


def explain_decision(cycle: GridCycle, decision: GridDecision) -> tuple[SiteChoice, ...]:
    """Return the choice of each job of the cycle in words, in their order."""
    fit = check_fit(cycle, decision.predicted.units, decision.predicted.runtime_s)
    return tuple(_explain_choice(cycle, decision, fit, job) for job in range(len(decision)))


def _explain_choice(cycle: GridCycle, decision: GridDecision, fit: SiteFit, job: int) -> SiteChoice:
    place = int(decision.site[job])
    chosen = None if place == NO_SITE else estimate_at(cycle, decision, job, place)
    others = decision.score[job].copy()
    if decision.site[job] != NO_SITE:
        others[decision.site[job]] = np.inf
    best = int(np.argmin(others))
    second = estimate_at(cycle, decision, job, best) if np.isfinite(others[best]) else None
    missing = find_mismatches(cycle, fit, decision.predicted.runtime_s, job)
    parts = {
        "missing": "; ".join(f"{miss.site}: {miss.text}" for miss in missing),
        "second": second.site if second else "another site",
        "site": chosen.site if chosen else "",
        "delay": duration_text(chosen.delay_s) if chosen else "",
        "figures": _figures_text(chosen, cycle.states.price[0].currency) if chosen else "",
    }
    reason = REASONS[DecisionReason(int(decision.why[job]))].format(**parts)
    return SiteChoice(
        job_id=int(cycle.jobs.job_id[job]),
        site=chosen.site if chosen else None,
        reason=reason,
        chosen=chosen,
        second=second,
        misses=missing,
        may_wait=decision.why[job] == DecisionReason.NEXT_CYCLE,
    )


def estimate_at(cycle: GridCycle, decision: GridDecision, job: int, site: int) -> SiteEstimate:
    """Return what the job would take at the site."""
    predicted, at = decision.predicted, (job, site)
    score = float(decision.score[at])
    return SiteEstimate(
        site=cycle.grid.names[site],
        delay_s=float(predicted.delay_s[at]),
        runtime_s=float(predicted.runtime_s[at]),
        cores=int(predicted.units[at]) * cycle.grid.sites[site].cores_per_unit,
        energy_j=float(predicted.energy_j[at]),
        cost=float(predicted.cost[at]),
        co2_g=float(predicted.co2_g[at]),
        score=score if np.isfinite(score) else None,
        transfer_s=float(transfer_s(cycle.jobs.take(np.array([job])), cycle.grid)[0, site]),
    )


def _figures_text(estimate: SiteEstimate, currency: str) -> str:
    end_s = estimate.delay_s + estimate.runtime_s
    energy, co2 = energy_text(estimate.energy_j / J_PER_KWH), co2_text(estimate.co2_g / 1000)
    return f"ends in {duration_text(end_s)}, {money_text(estimate.cost, currency)}, {co2}, {energy}"


@dataclass(frozen=True)
class SentJob:
    """A job sent to `site` at `at_unix_s`: whole units of `cores` for `held_s`; `there` is False once cancelled."""

    site: str
    at_unix_s: float
    cores: int
    held_s: float
    project: str = ""
    there: bool = True

    @property
    def core_s(self) -> float:
        """What it has of the site at most [core seconds]."""
        return self.cores * self.held_s


def add_sent_jobs(report: SiteReport, sent: Iterable[SentJob]) -> SiteReport:
    """Return the report that the site would send if it knew the jobs that were sent to it since its last one.

    They use idle units or wait in the queue, and other waiting jobs wait behind their work, spread over the site.
    """
    idle_cores, queued, ahead_core_s = report.idle_cores, report.queued, 0.0
    for job in sent:
        if not job.there or job.at_unix_s < report.at_unix_s - ON_THE_WAY_S:
            continue
        ahead_core_s += job.core_s
        if not queued and job.cores <= idle_cores:
            idle_cores -= job.cores
        else:
            queued += 1
    later_s = ahead_core_s / max(report.cores, 1)
    return replace(
        report,
        idle_cores=idle_cores,
        queued=queued,
        waits=replace(report.waits, wait_s=_later(report.waits.wait_s, later_s)),
        pools=tuple(
            replace(pool, parts=tuple(replace(each, wait_s=_later(each.wait_s, later_s)) for each in pool.parts))
            for pool in report.pools
        ),
    )


def _later(wait_s: WaitRows, later_s: float) -> WaitRows:
    return tuple(tuple(None if value is None else value + later_s for value in row) for row in wait_s)


def left_core_s(grid: Grid, sent: Iterable[SentJob]) -> Float64:
    """Return the rest of the allocations [core seconds], shaped like `Grid.allocated_core_s`.

    A job counts with its whole request if it was sent after the start of the site's period.
    """
    left = grid.allocated_core_s.copy()
    projects = {name: row for row, name in enumerate(grid.projects)}
    places = {site.name: (at, site.allocations_since_s or 0) for at, site in enumerate(grid.sites)}
    for job in sent:
        at, since_s = places.get(job.site, (0, np.inf))
        if job.project in projects and job.at_unix_s >= since_s:
            left[projects[job.project], at] -= job.core_s
    return np.maximum(left, 0.0)


@dataclass(frozen=True)
class SiteReply:
    """The last report of a site, or the problem why there is none."""

    report: SiteReport | None = None
    problem: str = ""


NOT_POLLED = SiteReply(problem="was not queried")


@dataclass(frozen=True, eq=False)
class _SiteNow:
    """A site, its electricity [per MWh and g/kWh] and its report. A site with a `problem` is left out of the choice."""

    price: Series
    carbon: Series
    report: SiteReport | None
    problem: str = ""


@dataclass(frozen=True)
class CycleChoices:
    """The choice of each job of a cycle, in their order, and the site that is next by `turn`."""

    choices: tuple[SiteChoice, ...]
    turn: int


def choose_together(
    requests: Sequence[PlacementRequest],
    grid: Grid,
    replies: Mapping[str, SiteReply],
    *,
    policy: str,
    now_s: int,
    stale_s: float,
    sent: Sequence[SentJob] = (),
    without: Sequence[Mapping[str, str]] = (),
    rules: GridRules = DEFAULT_RULES,
    turn: int = 0,
) -> CycleChoices:
    """Return the sites of the jobs of a cycle and the reasons, by a policy of POLICIES. Deterministic.

    Sites without a report, or with one older than `stale_s`, are left out for all jobs, those in `without[job]` for
    that job, with the reason. Jobs `sent` to sites count against their allocations, and as load until the sites report
    them. Raises BadInput for a feature that no site has, BadPrices for prices in two currencies.
    """
    known = dict(replies)
    for name, reply in replies.items():
        if reply.report is not None:
            sent_there = [job for job in sent if job.site == name]
            known[name] = replace(reply, report=add_sent_jobs(reply.report, sent_there))
    sites = [_site_now(site, known.get(site.name, NOT_POLLED), now_s, stale_s) for site in grid.sites]
    cycle = _cycle(requests, grid, _unify_units(sites), now_s, without)
    states = replace(cycle.states, left_core_s=left_core_s(grid, sent))
    cycle = replace(cycle, states=states, rules=rules, turn=turn % len(grid))
    decision = grid_policy(policy).decide(cycle)
    return CycleChoices(explain_decision(cycle, decision), decision.turn)


def _cycle(
    requests: Sequence[PlacementRequest],
    grid: Grid,
    sites: list[_SiteNow],
    now_s: int,
    without: Sequence[Mapping[str, str]],
) -> GridCycle:
    idle = [now.report.idle_cores // site.cores_per_unit if now.report else 0 for site, now in _pairs(grid, sites)]
    states = SiteStates(
        idle_units=np.array(idle, np.int64),
        queued=np.array([now.report.queued if now.report else 0 for now in sites], np.int64),
        stale=np.array([bool(now.problem) for now in sites]),
        price=tuple(now.price for now in sites),
        carbon=tuple(now.carbon for now in sites),
        left_core_s=grid.allocated_core_s,
    )
    wait_s, misfits = _waits(requests, grid, sites, without)
    return GridCycle(now_s, grid, request_columns(requests, grid, now_s), states, wait_s, misfits=misfits)


def _waits(
    requests: Sequence[PlacementRequest], grid: Grid, sites: list[_SiteNow], without: Sequence[Mapping[str, str]]
) -> tuple[Float64, dict[tuple[int, int], str]]:
    """Return the wait of each job at each site [s], float64[n, m], NaN where it cannot go, and the reasons."""
    wait_s = np.full((len(requests), len(sites)), np.nan)
    misfits: dict[tuple[int, int], str] = {}
    alike: dict[tuple[PlacementRequest, int], SiteWait] = {}
    for job, (request, left_out) in enumerate(zip_longest(requests, without, fillvalue=NO_SITES)):
        assert isinstance(request, PlacementRequest)
        assert isinstance(left_out, Mapping)
        for at, (site, now) in enumerate(_pairs(grid, sites)):
            reason = now.problem or left_out.get(site.name, "")
            if not reason and now.report is not None:
                if (request, at) not in alike:
                    alike[request, at] = expected_wait(now.report, site, request)
                wait_s[job, at], reason = alike[request, at].wait_s, alike[request, at].misfit
            if reason:
                misfits[job, at] = reason
    return wait_s, misfits


def _pairs(grid: Grid, sites: list[_SiteNow]) -> zip:  # type: ignore[type-arg]
    return zip(grid.sites, sites, strict=True)


def _site_now(site: Site, reply: SiteReply, now_s: int, stale_s: float) -> _SiteNow:
    report, problem = reply.report, reply.problem
    if report is None:
        problem = problem or "has not answered"
    elif now_s - report.at_unix_s > stale_s:
        problem = f"its last answer is {now_s - report.at_unix_s:.0f} s old"
    price = tariff_price(site, now_s, now_s + AHEAD_S) or _curve_series(report.price if report else None, site.name)
    carbon = mix_carbon(site, now_s, now_s + AHEAD_S) or _curve_series(report.carbon if report else None, site.name)
    if not problem and (price is None or carbon is None):
        problem = "its agent knows no price" if price is None else "its agent knows no carbon intensity"
    return _SiteNow(price or _empty_series(now_s, ""), carbon or _empty_series(now_s, "g/kWh"), report, problem)


def _curve_series(curve: Curve | None, name: str) -> Series | None:
    return None if curve is None else curve.series(name)


def _empty_series(now_s: int, unit: str) -> Series:
    """Return a placeholder for the series of a site that is left out."""
    return Series(np.array([now_s]), now_s + DAY_S, np.array([0.0]), unit, "nobody")


def _unify_units(sites: list[_SiteNow]) -> list[_SiteNow]:
    """Return the sites with the prices of those left out in the unit of the others, so that units agree."""
    units = [now.price.unit for now in sites if not now.problem]
    if not units:
        units = [now.price.unit for now in sites if now.price.unit] or ["EUR/MWh"]
    return [replace(now, price=replace(now.price, unit=units[0])) if now.problem else now for now in sites]


def currency_of(grid: Grid, replies: Mapping[str, SiteReply], *, now_s: int) -> str:
    """Return the currency of the first site that has a price, "" if none has."""
    for site in grid.sites:
        report = replies.get(site.name, NOT_POLLED).report
        price = tariff_price(site, now_s, now_s + AHEAD_S) or _curve_series(report.price if report else None, site.name)
        if price is not None:
            return price.currency
    return ""
