"""The savings of sleeping nodes over their sleep periods, compared with a cluster whose nodes are all on.

A sleep period is the time in which a node was not on: on its way down, asleep, on its way up. It saves what it would
have drawn idle, less what it drew on its way down, asleep, and on its way up. States, readings and prices come from
the ledger. The idle power of a node is what its meters said while it was on without a job in the same days, and the
spread of these readings is the range of the saving; without them it is that of its class, whose error is not known.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from offpeak.door.effect import SCHEDULER
from offpeak.ledger.database import open_ledger
from offpeak.ledger.node_energy import node_means, quarter_load, spans_energy
from offpeak.ledger.prices import MeanPrice, mean_prices
from offpeak.ledger.records import states_in
from offpeak.ledger.rows import NodeStateRecord, SavingRecord
from offpeak.machines.inventory import Enclosure
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH, J_PER_MWH, QUARTER_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTH_OF_STATE
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from offpeak.power.lifecycle.node_record import ASLEEP
from offpeak.prices.bill import demand_periods
from offpeak.prices.tariff import Tariff
from offpeak.services.accounts.account_of_savings import BASELINE, DEMAND, SLEEP
from offpeak.services.accounts.ended_jobs import find_node_runs
from offpeak.services.accounts.power_bill import charge_terms, day_cost, demand_baseline
from offpeak.text import counted

RESTING_STATES = ASLEEP | {NodeState.GOING_DOWN, NodeState.BOOTING}
NO_ENCLOSURES: Mapping[str, Enclosure] = {}
SAVING_ACTORS = frozenset({"offpeak", SCHEDULER})
"""The actors whose sleep periods count: offpeak, and the scheduler, which has nodes woken for a job."""


@dataclass(frozen=True)
class SleepPeriod:
    """A node from when it left ON until it was ON again, or the time ended: seconds in each state.

    For `beside_s` of them it slept while another node of its enclosure was awake.
    """

    node: str
    from_unix_s: float
    until_unix_s: float
    seconds: Mapping[NodeState, float]
    beside_s: float = 0.0

    @property
    def length_s(self) -> float:
        """The length of the sleep period."""
        return self.until_unix_s - self.from_unix_s


def find_sleep_periods(
    states: Iterable[NodeStateRecord], span: TimeRange, enclosure_of: Mapping[str, Enclosure] = NO_ENCLOSURES
) -> tuple[SleepPeriod, ...]:
    """Return the sleep periods within a time, by node; `states` are in order of time, with what each was at the start.

    A time for which another actor switched the node off is none. It ends where the state is not known.
    """
    by_node = _by_node(states)
    whole = {
        enclosure.name: _whole_times([by_node.get(node, ()) for node in enclosure.nodes], span)
        for enclosure in {each.name: each for each in enclosure_of.values()}.values()
    }
    periods = (period for node in sorted(by_node) for period in _find_sleep_periods_of_node(node, by_node[node], span))
    return tuple(
        replace(period, beside_s=_beside_s(period, whole[of.name])) if (of := enclosure_of.get(period.node)) else period
        for period in periods
    )


def _by_node(states: Iterable[NodeStateRecord]) -> Mapping[str, Sequence[NodeStateRecord]]:
    by_node: dict[str, list[NodeStateRecord]] = {}
    for state in states:
        by_node.setdefault(state.node, []).append(state)
    return by_node


def _whole_times(nodes: Sequence[Sequence[NodeStateRecord]], span: TimeRange) -> list[TimeRange]:
    """Return the times in which all these nodes sleep."""
    asleep = [each for states in nodes if states for each in _stretches(states, span) if each[0] in DEPTH_OF_STATE]
    edges = sorted(edge for _, _, from_s, until_s in asleep for edge in ((from_s, 1), (until_s, -1)))
    whole, sleeping, since_s = list[TimeRange](), 0, 0.0
    for at_s, step in edges:
        if sleeping == len(nodes) and at_s > since_s:
            whole.append(TimeRange(since_s, at_s))
        sleeping, since_s = sleeping + step, at_s
    return whole


def _beside_s(period: SleepPeriod, whole: Iterable[TimeRange]) -> float:
    asleep_s = sum(seconds for state, seconds in period.seconds.items() if state in DEPTH_OF_STATE)
    both = (min(period.until_unix_s, each.until_unix_s) - max(period.from_unix_s, each.from_unix_s) for each in whole)
    return asleep_s - sum(max(each, 0.0) for each in both)


def _find_sleep_periods_of_node(node: str, states: Sequence[NodeStateRecord], span: TimeRange) -> Iterator[SleepPeriod]:
    for is_away, stretch in groupby(_stretches(states, span), key=lambda piece: piece[0] in RESTING_STATES):
        parts = list(stretch)
        # Whoever took the node out decides: a scheduler that wakes it for a job makes none of an admin's order.
        if is_away and parts[0][1]:
            seconds: dict[NodeState, float] = {}
            for state, _, from_s, until_s in parts:
                seconds[state] = seconds.get(state, 0.0) + until_s - from_s
            yield SleepPeriod(node, parts[0][2], parts[-1][3], seconds)


def _pieces(
    periods: Iterable[SleepPeriod], states: Iterable[NodeStateRecord], span: TimeRange
) -> Iterator[SleepPeriod]:
    """Yield each sleep period state by state; each piece names the depth of the whole, even without time in it."""
    by_node = _by_node(states)
    for period in periods:
        depths = {state: 0.0 for state in period.seconds if state in DEPTH_OF_STATE}
        asleep_s = sum(period.seconds[state] for state in depths)
        for state, _, from_s, until_s in _stretches(by_node[period.node], span):
            if period.from_unix_s <= from_s and until_s <= period.until_unix_s:
                length_s = until_s - from_s
                beside_s = period.beside_s * length_s / asleep_s if state in depths else 0.0
                yield SleepPeriod(period.node, from_s, until_s, {**depths, state: length_s}, beside_s)


def _stretches(states: Sequence[NodeStateRecord], span: TimeRange) -> Iterator[tuple[NodeState, bool, float, float]]:
    """Yield each state, whether it was ours, and its start and end within the time."""
    ends = [*(record.at_unix_s for record in states[1:]), span.until_unix_s]
    for record, end_s in zip(states, ends, strict=True):
        from_s, until_s = max(record.at_unix_s, span.from_unix_s), min(end_s, span.until_unix_s)
        if from_s < until_s:
            yield NodeState(record.observed), record.by in SAVING_ACTORS, from_s, until_s


@dataclass(frozen=True)
class RestUse:
    """A sleep period, the energy of the node in it and that of an idle node [J], and the mean price of that time.

    The idle energy is within `idle_error_j` of `idle_j` in 19 of 20 cases, None if it is by the class of the node.
    """

    period: SleepPeriod
    energy_j: float
    idle_j: float
    measured: bool
    price: MeanPrice
    idle_error_j: float | None = None


def sleep_energy_j(period: SleepPeriod, node_class: NodeClass) -> float | None:
    """Return the energy of such a node over a sleep period; None if the class does not have the depth of its sleep."""
    slept = [depth for state, depth in DEPTH_OF_STATE.items() if state in period.seconds]
    # A sleep period that midnight cut off before the node slept, or after: such nodes are mostly switched off.
    depth = node_class.find_depth(max(slept)) if slept else (node_class.depths[-1] if node_class.depths else None)
    if depth is None:
        return None
    draw_w: Mapping[NodeState, float] = {
        NodeState.GOING_DOWN: depth.enter.power_w,
        NodeState.BOOTING: depth.leave.power_w,
    }
    asleep_j = sum(draw_w.get(state, depth.power_w) * seconds for state, seconds in period.seconds.items())
    return asleep_j + node_class.overhead_w * period.beside_s


def sum_savings(span: TimeRange, uses: Iterable[RestUse]) -> SavingRecord | None:
    """Return the sum of the sleep periods of a time, without cost if one has no price; None without a sleep period."""
    every = tuple(uses)
    if not every:
        return None
    idle_j, energy_j = sum(use.idle_j for use in every), sum(use.energy_j for use in every)
    idle_cost, cost = _cost(every, [use.idle_j for use in every]), _cost(every, [use.energy_j for use in every])
    currency = every[0].price.currency if cost is not None else ""
    # A sleep period without readings may draw nothing, or twice what its class says.
    error = _cost(every, [(use.idle_error_j or 0.0) + (0.0 if use.measured else use.energy_j) for use in every])
    if idle_cost is None or cost is None or any(use.idle_error_j is None for use in every):
        error = None
    saved = (idle_cost or 0.0) - (cost or 0.0)
    rest_s = sum(use.period.length_s for use in every)
    hours = rest_s / HOUR_S
    nodes = counted(len({use.period.node for use in every}), "node")
    asleep, idle = (
        _basis_of([use.period for use in every if is_measured(use)], hours)
        for is_measured in (lambda use: use.measured, lambda use: use.idle_error_j is not None)
    )
    return SavingRecord(
        from_unix_s=span.from_unix_s,
        until_unix_s=span.until_unix_s,
        baseline=BASELINE,
        baseline_energy_j=idle_j,
        baseline_cost=idle_cost,
        energy_j=energy_j,
        cost=cost,
        currency=currency,
        basis=f"{nodes} asleep for {hours:.1f} h; {asleep}; idle {idle}",
        lever=SLEEP,
        low_cost=None if error is None else saved - abs(error),
        high_cost=None if error is None else saved + abs(error),
        saved_carbon_g=_carbon_g(every),
        measured_share=_measured_s(every) / rest_s if rest_s else 0.0,
        node_hours=hours,
    )


def _cost(uses: Iterable[RestUse], energies_j: Iterable[float]) -> float | None:
    pairs = list(zip(uses, energies_j, strict=True))
    if any(use.price.price_per_mwh is None for use, _ in pairs) or len({use.price.currency for use, _ in pairs}) > 1:
        return None
    return sum((use.price.price_per_mwh or 0.0) * energy_j for use, energy_j in pairs) / J_PER_MWH


def _measured_s(uses: Iterable[RestUse]) -> float:
    """Return the measured seconds of the sleep periods: half of them by their own energy, half by the idle power."""
    return sum(use.period.length_s * (use.measured + (use.idle_error_j is not None)) / 2 for use in uses)


def _carbon_g(uses: Iterable[RestUse]) -> float | None:
    every = tuple(uses)
    if any(use.price.carbon_g_per_kwh is None for use in every):
        return None
    return sum((use.price.carbon_g_per_kwh or 0.0) * (use.idle_j - use.energy_j) for use in every) / J_PER_KWH


def _basis_of(measured: Iterable[SleepPeriod], hours: float) -> str:
    share = sum(period.length_s for period in measured) / HOUR_S / hours if hours else 0.0
    return f"{share:.0%} measured" + ("" if share > ALL else ", else by node class")


ENOUGH_MEASURED = 0.9
"""A sleep period with a smaller measured share counts with the energy of its class."""

LEAST_QUARTERS = 4
"""The least number of idle quarter-hours that tell the idle power of a node."""
TWO_SIDED, MAD_TO_SIGMA, MEDIAN_ERROR = 1.96, 1.4826, 1.2533
"""Of the normal distribution: 19 of 20 cases, the deviation by the median absolute one, and the error of a median."""
AROUND_JOBS_S = 300.0
"""Nodes draw more for some minutes around a job: clocks differ, prologs and epilogs run, readings hold."""
ALL = 0.995

ClassOf = Callable[[str], NodeClass | None]


class IdlePower(NamedTuple):
    """The median power of an idle node, and its error in 19 of 20 cases; None where it is that of the class."""

    power_w: float
    error_w: float | None


def book_savings(
    url: str,
    span: TimeRange,
    nodes: Iterable[str],
    class_of: ClassOf,
    enclosure_of: Mapping[str, Enclosure] = NO_ENCLOSURES,
    tariff: Tariff | None = None,
    *,
    goes_on: bool = False,
) -> tuple[SavingRecord, ...]:
    """Return the savings of these nodes in a time: one row, with a tariff one more for each demand charge.

    If the day `goes_on`, the quarter-hour before its end may lack readings: it has no part in demand charges. There is
    no row without sleep periods, and for nodes without a class. It reads the ledger at once: an event loop calls it in
    a thread. Raises BadLedger if that cannot be read, BadInput if its prices are in two currencies.
    """
    named = sorted(nodes)
    if not named or span.until_unix_s <= span.from_unix_s:
        return ()
    with open_ledger(url) as connection:
        beside = {node for name in named if name in enclosure_of for node in enclosure_of[name].nodes}
        states = [NodeStateRecord(**record) for record in states_in(connection, span, sorted(beside.union(named)))]
        periods = [period for period in find_sleep_periods(states, span, enclosure_of) if period.node in set(named)]
        idle = _measure_idle(connection, span, {period.node for period in periods}, class_of) if periods else {}
        uses = tuple(_sleep_uses(connection, periods, class_of, idle))
        saved = sum_savings(span, uses)
        settled_s = (span.until_unix_s - (QUARTER_S if goes_on else 0)) // QUARTER_S * QUARTER_S
        settled = TimeRange(span.from_unix_s, settled_s)
        of_demand: Iterable[SavingRecord] = ()
        if tariff and tariff.demand:
            pieces = _sleep_uses(connection, _pieces(periods, states, span), class_of, idle)
            of_demand = _book_demand(connection, settled, tuple(pieces), tariff)
        return (*([saved] if saved else []), *of_demand)


def _book_demand(
    connection: Connection, span: TimeRange, uses: Iterable[RestUse], tariff: Tariff
) -> Iterator[SavingRecord]:
    """Yield for each demand charge the highest quarter-hour as metered, and with all nodes on, as energies.

    The cost is that of the charge's whole period if no other day is higher. A use saves the same power at all times: it
    is that of one state, because a node that boots may draw more than an idle one. Nodes without meters have no part.
    """
    load = quarter_load(connection, span)
    saved_w, silent_s = np.zeros(len(load.start_s)), np.zeros(len(load.start_s))
    for use in (use for use in uses if use.period.node in load.nodes):
        until_s = np.minimum(load.start_s + QUARTER_S, use.period.until_unix_s)
        inside_s = np.maximum(until_s - np.maximum(load.start_s, use.period.from_unix_s), 0.0)
        saved_w += (use.idle_j - use.energy_j) / use.period.length_s * inside_s / QUARTER_S
        silent_s += 0.0 if use.measured else inside_s
    # Meters inside a node say nothing while it sleeps, and that is no gap.
    is_gap = load.covered_s < ENOUGH_MEASURED * np.maximum(QUARTER_S * len(load.nodes) - silent_s, 0.0)
    for charge, period, mask, _ in demand_periods(tariff, load.start_s, span) if len(load.start_s) else ():
        name, terms = demand_baseline(BASELINE, f"{charge.name} {period}"), charge_terms(tariff, charge)
        saving = SavingRecord(span.from_unix_s, span.until_unix_s, name, None, None, None, cost=None, currency="")
        saving = replace(saving, lever=DEMAND, basis=f"not known, because readings are missing; {terms}")
        counted_w = np.where(mask, load.power_w, np.nan)
        if not (mask & is_gap).any() and not np.isnan(counted_w).all():
            peak_j, without_j = (QUARTER_S * float(np.nanmax(each)) for each in (counted_w, counted_w + saved_w))
            basis, currency = f"highest quarter-hour of the day; {terms}", tariff.currency
            saving = replace(
                saving, energy_j=peak_j, cost=day_cost(tariff, charge, peak_j), currency=currency, basis=basis
            )
            saving = replace(saving, baseline_energy_j=without_j, baseline_cost=day_cost(tariff, charge, without_j))
        if mask.any():
            yield saving


def _measure_idle(
    connection: Connection, span: TimeRange, nodes: Iterable[str], class_of: ClassOf
) -> Mapping[str, IdlePower]:
    """Return the idle power of nodes by their readings in a time and the day before it.

    A quarter-hour counts if the node was on all the time, and no job touched it. A node without enough of them has the
    median of the nodes of its class, and without those the power that its class states.
    """
    before = TimeRange(span.from_unix_s - DAY_S, span.until_unix_s)
    means = node_means(connection, before)
    on = {
        node: [(from_s, until_s) for state, _, from_s, until_s in _stretches(its, before) if state is NodeState.ON]
        for node, its in _by_node([NodeStateRecord(**record) for record in states_in(connection, before)]).items()
    }
    runs = find_node_runs(connection, before)
    idle: dict[str, list[float]] = {}
    for at_s, node, power_w in means:
        times = on.get(node, ())
        is_on = any(from_s <= at_s and at_s + QUARTER_S <= until_s for from_s, until_s in times)
        first_s, last_s = at_s - AROUND_JOBS_S, at_s + QUARTER_S + AROUND_JOBS_S
        if is_on and not any(from_s < last_s and until_s > first_s for from_s, until_s in runs.get(node, ())):
            idle.setdefault(node, []).append(power_w)
    of_class: dict[str, list[float]] = {}
    for node, powers in idle.items():
        if (node_class := class_of(node)) is not None:
            of_class.setdefault(node_class.name, []).extend(powers)
    return {
        node: _idle_power(idle.get(node, ())) or _idle_power(of_class.get(node_class.name, ())) or by_class
        for node in nodes
        if (node_class := class_of(node)) is not None and (by_class := IdlePower(node_class.idle_w, None))
    }


def _idle_power(powers_w: Sequence[float]) -> IdlePower | None:
    if len(powers_w) < LEAST_QUARTERS:
        return None
    middle_w = median(powers_w)
    spread_w = MAD_TO_SIGMA * median(abs(power_w - middle_w) for power_w in powers_w)
    return IdlePower(middle_w, TWO_SIDED * MEDIAN_ERROR * spread_w / math.sqrt(len(powers_w)))


def _sleep_uses(
    connection: Connection, found: Iterable[SleepPeriod], class_of: ClassOf, idle: Mapping[str, IdlePower]
) -> Iterator[RestUse]:
    # With the energy of the node's class in each period [J]; without a class it is not known.
    modelled = list[tuple[SleepPeriod, float, IdlePower]]()
    for period in found:
        node_class = class_of(period.node)
        if node_class is not None and (energy_j := sleep_energy_j(period, node_class)) is not None:
            modelled.append((period, energy_j, idle[period.node]))
    spans = [TimeRange(period.from_unix_s, period.until_unix_s) for period, _, _ in modelled]
    measured = spans_energy(connection, spans, [(period.node,) for period, _, _ in modelled])
    for (period, modelled_j, power), used, price in zip(
        modelled, measured, mean_prices(connection, spans), strict=True
    ):
        use = used.get(period.node)
        covered = (use.covered or 0.0) if use else 0.0
        measured_j = use.energy_j / covered if use and covered >= ENOUGH_MEASURED else None
        energy_j = modelled_j if measured_j is None else measured_j
        error_j = None if power.error_w is None else power.error_w * period.length_s
        yield RestUse(period, energy_j, power.power_w * period.length_s, measured_j is not None, price, error_j)
