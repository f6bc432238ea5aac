"""What the order of the queue saved, and what order and sleep would have saved where the door kept them back.

The engine replays what really came: the ledger's jobs in the site's own order with all nodes on, in the order of
offpeak, and with nodes that sleep by its capacity policy. Of each period the ledger says whether the orders of a lever
were done, or refused by the mode; where it says neither, the present mode counts. A row of the other mode counts no
more. Where the door did both, or partitions have different modes, nothing is known. Replays begin some days before the
first period, so that a job that offpeak moves over midnight leaves the one day and comes in the other.

The savings of nodes that really slept are measured: offpeak.services.accounts.savings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from offpeak.door.effect import MODE_RULE
from offpeak.errors import BadInput, BadLedger, OffpeakError
from offpeak.ledger import records
from offpeak.ledger.database import open_ledger
from offpeak.ledger.prices import mean_prices
from offpeak.ledger.rows import JobUse, SavingRecord
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.step_series import Series
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.power.capacity.levers import with_capacity
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP
from offpeak.services.accounts.counterfactual import (
    REPLAYS,
    BilledDays,
    Bills,
    PolicyReplay,
    bill_days,
    find_ordered_peaks,
    ledger_trace,
    read_replay_inputs,
    site_policies,
    with_ledger_prices,
)
from offpeak.services.accounts.job_use import PRICED
from offpeak.services.accounts.lever_site import LeverSite
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import PoweredPools, ReplayCase, ReplayMachine, prepare
from offpeak.sim_backend.comparison.replications import LARGEST_SHIFT_S, interval_of
from offpeak.sim_backend.engine.rules import NO_PEAKS
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.traces.filters import between
from offpeak.text import counted

LEAD_IN_S = 3 * DAY_S
MOST_LEFT_OUT = 0.1
"""Where more of the jobs cannot be replayed, nothing is known."""
MODEL_SHARE = 0.05
"""Replays know neither the agent's cycles nor all limits of the door: a saving may differ by this share, as
`python -m benchmarks.shadow` measures, beyond the differences between replays.
"""
MARK_S = LARGEST_SHIFT_S + 1
CARRIED_OUT, KEPT_BACK = "the lever was carried out in that time", "the lever was kept back in that time"
IN_PART = "the lever was carried out in a part of the partitions or of that time only"
OWN_ORDER = "the site's own order"
SHADOW_BASELINES = {ORDER: "as it was, in the site's own order", SLEEP: "as it was, all nodes on"}


@dataclass(frozen=True)
class LeverDays:
    """For each period whether order and sleep were carried out, and whether they were kept back; both is in part."""

    ordered: NDArray[np.bool_]
    order_kept: NDArray[np.bool_]
    slept: NDArray[np.bool_]
    sleep_kept: NDArray[np.bool_]

    def levers(self, period: int) -> tuple[tuple[str, bool, str], ...]:
        """Return the rows of a period: lever, whether it is one of shadow mode, and why it has no figures, else ""."""
        rows: list[tuple[str, bool, str]] = []
        for lever, done, kept in ((ORDER, self.ordered, self.order_kept), (SLEEP, self.slept, self.sleep_kept)):
            is_done, is_kept = done[period], kept[period]
            if is_done or is_kept:
                rows.append((lever, True, (IN_PART if is_kept else CARRIED_OUT) if is_done else ""))
                rows.append((lever, False, (IN_PART if is_done else KEPT_BACK) if is_kept else ""))
        return tuple(row for row in rows if row[:2] != (SLEEP, False))


def book_levers(url: str, site: LeverSite, spans: Sequence[TimeRange]) -> tuple[SavingRecord, ...]:
    """Return the savings of the levers in these periods, which are in order of time.

    A row without figures says why in its basis; it replaces booked figures only where the door's record contradicts
    these. It takes seconds to minutes: call it in a process of its own. Raises BadLedger.
    """
    begin_s = max(spans[0].from_unix_s - LEAD_IN_S, min(site.known_since, spans[0].from_unix_s))
    window = TimeRange(float(int(begin_s)), spans[-1].until_unix_s)
    midnights = day_edges(window, site.zone)
    edges_s = np.unique(
        [int(edge) for span in spans for edge in vars(span).values()] + [int(each) for each in midnights]
    )
    with open_ledger(url) as connection:
        days = read_lever_days(connection, edges_s, site)
        periods = [(span, int(np.searchsorted(edges_s, int(span.from_unix_s)))) for span in spans]
        before = records.savings_in(connection, window)
        booked = {(row["from_unix_s"], row["baseline"]) for row in before if row["energy_j"] is not None}
        wanted: list[tuple[TimeRange, int, str, bool]] = []
        unknown: list[SavingRecord] = []
        for span, at in periods:
            for lever, shadow, why in days.levers(at):
                if not why:
                    wanted.append((span, at, lever, shadow))
                elif why == IN_PART or (span.from_unix_s, _baseline(lever, shadow)) in booked:
                    unknown.append(_unknown_row(span, lever, shadow, why))
        if not wanted:
            return tuple(unknown)
        try:
            replayed = _replay_levers(connection, site, window, edges_s, days)
            priced = [each.known >= PRICED for each in mean_prices(connection, spans)]
        except BadLedger:
            raise
        except OffpeakError as problem:
            lost = [_unknown_row(span, lever, shadow, str(problem)) for span, _, lever, shadow in wanted]
            return *unknown, *(row for row in lost if (row.from_unix_s, row.baseline) not in booked)
    is_priced = dict(zip(spans, priced, strict=True))
    return *unknown, *(
        replayed.row(span, at, lever, is_shadow=shadow, is_priced=is_priced[span]) for span, at, lever, shadow in wanted
    )


def read_lever_days(connection: Connection, edges_s: Int64, site: LeverSite) -> LeverDays:
    """Return what the door did in each of the periods between the edges."""
    span, agent = TimeRange(float(edges_s[0]), float(edges_s[-1])), site.settings.agent

    def done(orders: Sequence[str]) -> NDArray[np.bool_]:
        return np.asarray(np.histogram(records.own_orders(connection, span, orders), edges_s)[0] > 0)

    def kept(orders: Sequence[str]) -> NDArray[np.bool_]:
        return np.asarray(np.histogram(records.own_orders(connection, span, orders, MODE_RULE), edges_s)[0] > 0)

    ordered, slept = done(records.QUEUE_ORDERS), done(records.NODE_ORDERS)
    orders_kept, sleep_kept = kept(records.QUEUE_ORDERS), kept(records.KEPT_NODE_ORDERS)
    is_kept = np.bool_(not site.is_active)
    has_order, may_sleep = agent.queue != "off", any(each is not None and each.depths for each in site.classes)
    orders_kept = (orders_kept | (~ordered & is_kept)) & has_order
    sleep_kept = (sleep_kept | (~slept & is_kept)) & may_sleep
    if site.is_active is None:
        ordered = orders_kept = ordered | orders_kept
        slept = sleep_kept = slept | sleep_kept
    return LeverDays(ordered, orders_kept, slept, sleep_kept)


def _replay_levers(
    connection: Connection, site: LeverSite, window: TimeRange, edges_s: Int64, days: LeverDays
) -> "LeverReplays":
    settings = site.settings
    if settings.agent.queue == "plan" and (days.ordered | days.order_kept).any():
        raise BadInput("a replay cannot follow a plan that changed in each cycle")
    if settings.agent.queue == "off" and days.ordered.any():
        raise BadInput("jobs were moved, and the settings no longer name the policy")
    ahead = TimeRange(window.from_unix_s, window.until_unix_s + DAY_S)
    inputs = read_replay_inputs(connection, ahead, site.zone, settings.prices)
    if inputs is None:
        raise BadInput("the ledger has no prices for that time")
    begin_unix_s = window.from_unix_s
    # A job of no time before all others: without it replays begin with the first job, their nodes all on.
    at_s = begin_unix_s - MARK_S
    marker = JobUse("", at_s, at_s, "", "", "", nodes="", energy_j=0.0, cost=None, currency="")
    found = ledger_trace(
        connection,
        window,
        site.cluster,
        (replace(marker, submitted_unix_s=at_s, node_count=1, cpus=1), *site.not_ended),
    )
    jobs = found.trace.jobs
    if found.left_out > MOST_LEFT_OUT * (len(jobs) - 1 + found.left_out):
        raise BadInput(f"{counted(found.left_out, 'job')} of that time were booked without their submission")
    # Jobs that have not ended go on for as long as they are expected to.
    trace = between(found.trace, -MARK_S, int((jobs.logged_start_s + jobs.runtime_s).max()))
    prices = replace(inputs.prices, price=_reaching(inputs.prices.price, ahead))
    inputs = replace(inputs, prices=prices, edges_unix_s=edges_s)
    own_power = replace(settings.power, job=None, node_class=None)
    prepared = prepare(trace, replace(settings, power=own_power), start=None, cluster=site.cluster)
    case = _with_classes(with_ledger_prices(prepared.case, trace, inputs), site)
    own, ordering = site_policies(settings)
    replays = [PolicyReplay(own, NO_PEAKS)]

    def add(policy: Policy, ordered: NDArray[np.bool_]) -> int:
        replays.append(PolicyReplay(policy, find_ordered_peaks(inputs, case, ordered)))
        return len(replays) - 1

    would_order = days.ordered | days.order_kept
    real = add(ordering, days.ordered) if days.ordered.any() else 0
    would = add(ordering, would_order) if days.order_kept.any() else real
    asleep = would
    if days.sleep_kept.any():
        policy = with_capacity(ordering if would else own, settings.agent.capacity, case, _bounds(settings))
        asleep = add(policy, would_order)
    edges = edges_s - (trace.unix_start_s or 0)
    billed = bill_days(case, tuple(replays), edges, seed=settings.power.seed)
    left_out = found.left_out + sum(len(each.job_ids) for each in prepared.rejected)
    return LeverReplays(billed, edges, (0, real, would, asleep), case.prices.aligned.series.currency, left_out)


def _bounds(settings: Settings) -> CapacitySettings:
    """Return the limits of the nodes that the agent obeys, as far as a policy knows them."""
    bounds, agent = settings.capacity, settings.agent
    per_day = [most for most in (bounds.cycles_per_day, agent.cycles_per_day) if most]
    return replace(bounds, keep_hot=max(bounds.keep_hot, agent.min_on), cycles_per_day=min(per_day, default=0))


def _reaching(series: Series, span: TimeRange) -> Series:
    """Return the series with gaps before it and behind it, if it does not reach over all of that time."""
    begin_s, end_s = int(span.from_unix_s), int(span.until_unix_s)
    start_s, value = series.start_s, series.value
    if start_s[0] > begin_s:
        start_s, value = np.insert(start_s, 0, begin_s), np.insert(value, 0, np.nan)
    if series.end_s < end_s:
        start_s, value = np.append(start_s, series.end_s), np.append(value, np.nan)
    return replace(series, start_s=start_s, value=value, end_s=max(series.end_s, end_s))


def _with_classes(case: ReplayCase, site: LeverSite) -> ReplayCase:
    """Return the case with the classes of the site's nodes; nodes that are not switched have one without sleep."""
    idle_w, sizes = site.settings.power.idle_node_w, [pool.nodes for pool in site.cluster.pools]
    classes = tuple(
        each or NodeClass("not switched", idle_w, ((0.0, idle_w), (1.0, idle_w)), ()) for each in site.classes
    )
    per_node = case.machine.size / site.cluster.nodes
    mean_w = sum(each.idle_w * nodes for each, nodes in zip(classes, sizes, strict=True)) / sum(sizes)
    case = replace(case, machine=ReplayMachine(case.machine.size, mean_w / per_node))
    if not any(each.depths for each in classes):
        return case
    if not case.is_mixed:
        seed = site.settings.power.seed
        return replace(case, nodes=PoweredMachine(case.machine.size, 1, classes[0], seed, site.enclosures[0]))
    return replace(case, nodes=PoweredPools(classes, tuple(sizes), max(1, round(per_node)), site.enclosures))


def _baseline(lever: str, is_shadow: bool) -> str:
    return SHADOW_BASELINES[lever] if is_shadow else OWN_ORDER


def _unknown_row(span: TimeRange, lever: str, is_shadow: bool, why: str) -> SavingRecord:
    unknown = (None, None, None, None, "", f"not known, because {why}")
    return SavingRecord(span.from_unix_s, span.until_unix_s, _baseline(lever, is_shadow), *unknown, lever, is_shadow)


@dataclass(frozen=True)
class LeverReplays:
    """The bills of the periods; `runs` are the numbers of four replays among them.

    These are the site's own order, the real one, the one with the orders that were kept back, and the same with nodes
    that sleep. `left_out` jobs are in no replay.
    """

    billed: BilledDays
    edges_s: Int64
    runs: tuple[int, int, int, int]
    currency: str
    left_out: int

    def row(self, span: TimeRange, period: int, lever: str, *, is_shadow: bool, is_priced: bool) -> SavingRecord:
        """Return what a lever saved, or would have saved, in a period; without prices it has no cost."""
        own, real, would, asleep = self.runs
        first, second = (would, asleep) if lever == SLEEP else (real, would) if is_shadow else (own, real)

        def saved(values: Callable[[Bills], Float64]) -> Float64:
            return np.array([values(run[first])[period] - values(run[second])[period] for run in self.billed.replayed])

        logged = self.billed.logged
        cost, energy_j = float(logged.cost[period]), float(logged.energy_j[period])
        money, joules = saved(lambda bills: bills.cost), float(saved(lambda bills: bills.energy_j).mean())
        # The replay of what was is off by this share of the bill: so may be what replays say of a saving.
        error = abs(np.mean([run[real].cost[period] for run in self.billed.replayed]) - cost) / (abs(cost) or 1.0)
        interval, middle = interval_of(money), float(money.mean())
        margin = (float(error) + MODEL_SHARE) * abs(middle)
        has_carbon = logged.co2_kg is not None
        grams = (
            saved(lambda bills: np.zeros(1) if bills.co2_kg is None else 1000 * bills.co2_kg) if has_carbon else None
        )
        delayed, delay_s = self._delays(first, second, period)
        node_hours = -float(saved(lambda bills: bills.away_s).mean()) / HOUR_S
        # What really was is the baseline of shadow mode, and the result of an order that was carried out.
        before = (energy_j, cost) if is_shadow else (energy_j + joules, cost + middle)
        jobs = counted(int(self._came(0, period).sum()), "job")
        basis = f"{REPLAYS} replays of what came, {jobs} in that time; the replay of what was is {error:.1%} off"
        if self.left_out:
            basis += f"; {counted(self.left_out, 'job')} cannot be replayed"
        return SavingRecord(
            from_unix_s=span.from_unix_s,
            until_unix_s=span.until_unix_s,
            baseline=_baseline(lever, is_shadow),
            baseline_energy_j=before[0],
            baseline_cost=before[1] if is_priced else None,
            energy_j=before[0] - joules,
            cost=before[1] - middle if is_priced else None,
            currency=self.currency if is_priced else "",
            basis=basis if is_priced else f"{basis}; most of that time has no price",
            lever=lever,
            is_shadow=is_shadow,
            low_cost=interval.low - margin if is_priced else None,
            high_cost=interval.high + margin if is_priced else None,
            saved_carbon_g=None if grams is None else float(grams.mean()),
            measured_share=0.0,
            node_hours=node_hours if lever == SLEEP else None,
            delayed_jobs=delayed,
            delay_s=delay_s,
        )

    def _came(self, replay: int, period: int) -> NDArray[np.bool_]:
        submit_s = self.billed.submit_s[replay]
        return np.asarray((submit_s >= self.edges_s[period]) & (submit_s < self.edges_s[period + 1]))

    def _delays(self, first: int, second: int, period: int) -> tuple[int, float]:
        """Return how many of the jobs that came in a period the second replay delays, and for how long on average."""
        late_s = [
            (run[second].start_s - run[first].start_s)[self._came(number, period)]
            for number, run in enumerate(self.billed.replayed)
        ]
        count = sum(int((each > 0).sum()) for each in late_s)
        total_s = sum(int(each[each > 0].sum()) for each in late_s)
        return round(count / len(late_s)), total_s / count if count else 0.0
