"""From what sites said to a scheduling cycle of one job, and its answer in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.local_time import DAY_S
from offpeak.model.step_series import Series
from plugin.federation.choice import Choice, Miss
from plugin.federation.cycle import Cycle, SiteStates
from plugin.federation.explain import choices
from plugin.federation.grid import Grid
from plugin.federation.own_series import own_carbon, own_price
from plugin.federation.policies import grid_policy
from plugin.federation.request import Request, column_of, policy_for
from plugin.federation.sent import Sent, as_if_told, left_core_s
from plugin.federation.site import Site
from plugin.federation.site_said import Curve, SiteSaid

AHEAD_S = 8 * DAY_S


@dataclass(frozen=True)
class Heard:
    """What is known of a site: its last answer, or why there is none to go by."""

    said: SiteSaid | None = None
    trouble: str = ""


NOT_ASKED = Heard(trouble="was not asked")


@dataclass(frozen=True, eq=False)
class _SiteNow:
    """A site that counts, its electricity [per MWh and g/kWh] and what it said; `trouble` why it does not count."""

    price: Series
    carbon: Series
    said: SiteSaid | None
    trouble: str = ""


def choose(
    request: Request,
    grid: Grid,
    heard: Mapping[str, Heard],
    *,
    now_s: int,
    stale_s: float,
    sent: Sequence[Sent] = (),
) -> Choice:
    """Return where the job goes and why; `misses` names every site that is left out. The same to the same, always.

    Sites that said nothing, or longer than `stale_s` ago, are left out. What sites were `sent` counts against their
    allocations, and as theirs until they tell of it. BadInput for a latest finish that has passed and for a feature
    that no site has, BadPrices for prices in two currencies.
    """
    _check(request, now_s)
    known = _with_sent(heard, sent)
    sites = [_site_now(site, known.get(site.name, NOT_ASKED), now_s, stale_s) for site in grid.sites]
    cycle = _cycle(request, grid, _in_one_unit(sites), now_s)
    cycle = replace(cycle, states=replace(cycle.states, left_core_s=left_core_s(grid, sent)))
    (choice,) = choices(cycle, grid_policy(policy_for(request)).decide(cycle))
    return _with_troubles(choice, {site.name: now.trouble for site, now in zip(grid.sites, sites, strict=True)})


def _with_sent(heard: Mapping[str, Heard], sent: Sequence[Sent]) -> dict[str, Heard]:
    def known(name: str, said: SiteSaid) -> SiteSaid:
        return as_if_told(said, [job for job in sent if job.site == name])

    return {
        name: each if each.said is None else replace(each, said=known(name, each.said)) for name, each in heard.items()
    }


def _check(request: Request, now_s: int) -> None:
    if request.latest_end_s is not None and request.latest_end_s <= now_s:
        raise BadInput("--latest-finish has passed", hint="give a later time, or leave it")


def _cycle(request: Request, grid: Grid, sites: list[_SiteNow], now_s: int) -> Cycle:
    idle = [now.said.idle_cores // site.cores_per_unit if now.said else 0 for site, now in _pairs(grid, sites)]
    states = SiteStates(
        idle_units=np.array(idle, np.int64),
        queued=np.array([now.said.queued if now.said else 0 for now in sites], np.int64),
        stale=np.array([bool(now.trouble) for now in sites]),
        price=tuple(now.price for now in sites),
        carbon=tuple(now.carbon for now in sites),
        left_core_s=grid.allocated_core_s,
    )
    jobs = column_of(request, grid, now_s)
    waits = [_wait_s(now.said, site, request) for site, now in _pairs(grid, sites)]
    return Cycle(now_s, grid, jobs, states, np.array([waits], np.float64))


def _pairs(grid: Grid, sites: list[_SiteNow]) -> zip:  # type: ignore[type-arg]
    return zip(grid.sites, sites, strict=True)


def _wait_s(said: SiteSaid | None, site: Site, request: Request) -> float:
    """Return how long the job would wait in whole units of the site; nobody waits where enough is free and no queue."""
    cores = -(-request.cores // site.cores_per_unit) * site.cores_per_unit
    if said is None:
        return float("nan")
    at_once = not said.queued and cores <= said.idle_cores
    # Of a job that is too wide it is said so: its wait is not what is missing.
    return 0.0 if at_once or cores > site.cores else said.waits.of(cores, request.limit_s)


def _site_now(site: Site, heard: Heard, now_s: int, stale_s: float) -> _SiteNow:
    said, trouble = heard.said, heard.trouble
    if said is None:
        trouble = trouble or "has not answered"
    elif now_s - said.at_unix_s > stale_s:
        trouble = f"its last answer is {now_s - said.at_unix_s:.0f} s old"
    price = own_price(site, now_s, now_s + AHEAD_S) or _told(said.price if said else None, site.name)
    carbon = own_carbon(site, now_s, now_s + AHEAD_S) or _told(said.carbon if said else None, site.name)
    if not trouble and (price is None or carbon is None):
        trouble = "its agent knows no price" if price is None else "its agent knows no carbon intensity"
    return _SiteNow(price or _nothing(now_s, ""), carbon or _nothing(now_s, "g/kWh"), said, trouble)


def _told(curve: Curve | None, name: str) -> Series | None:
    return None if curve is None else curve.series(name)


def _nothing(now_s: int, unit: str) -> Series:
    """Return what stands in the place of a site's series that is left out."""
    return Series(np.array([now_s]), now_s + DAY_S, np.array([0.0]), unit, "nobody")


def _in_one_unit(sites: list[_SiteNow]) -> list[_SiteNow]:
    """Return the sites with the prices of those left out in the unit of the others, so that they contradict nobody."""
    units = [now.price.unit for now in sites if not now.trouble]
    if not units:
        units = [now.price.unit for now in sites if now.price.unit] or ["EUR/MWh"]
    return [replace(now, price=replace(now.price, unit=units[0])) if now.trouble else now for now in sites]


def _with_troubles(choice: Choice, troubles: Mapping[str, str]) -> Choice:
    """Return the choice with what is really wrong of each site that was left out."""
    misses = tuple(Miss(miss.site, troubles[miss.site] or miss.text) for miss in choice.misses)
    if choice.site is not None:
        return replace(choice, misses=misses)
    missing = "; ".join(f"{miss.site}: {miss.text}" for miss in misses)
    return replace(choice, misses=misses, reason=f"no site can run it: {missing}" if missing else choice.reason)


def currency_of(grid: Grid, heard: Mapping[str, Heard], *, now_s: int) -> str:
    """Return the currency of the first site that has a price, "" where none has."""
    for site in grid.sites:
        said = heard.get(site.name, NOT_ASKED).said
        price = own_price(site, now_s, now_s + AHEAD_S) or _told(said.price if said else None, site.name)
        if price is not None:
            return price.currency
    return ""
