"""How much can ordering save at all? Samples of five logs, solved: `python -m benchmarks.ordering_bound [SECONDS]`.

A sample is a window of a log with its whole queue: the jobs that run when it begins, those that wait, and those that
are submitted within a day or two; then the machine drains. All times are rounded to quarter-hours before anything is
replayed, so each schedule starts jobs in slots only. Prices are real ones of a random zone and date, power is drawn
from 100 to 300 W a node, and the cost is that of the jobs' energy.

The optimum is the lowest cost of any schedule in which all jobs together wait no longer than under EASY, and no job
starts more than a day later than under EASY; all prices, run times and submissions are known to it. It lies between a
Lagrangian lower bound, which is proven, and the best schedule that list scheduling finds; CP-SAT then has SECONDS for
the first samples of each log. Two stricter rules count waits by node-hours, or delay no job. The repository's own
policies replay the same sample: EASY with greedy and with knapsack, and the order of the day plan.

Then some owners allow delays of 6, 24 and 72 hours: such a job may start that much later without a wait that counts.
What the live rule saves is the replay in which `begin times` hold these jobs back, on EASY and on greedy.

A sample's rows of ordering_bound.csv are written as soon as it is done; a second run computes only what is missing.
The tables of docs/science/ordering.md are made from it. Sources: A. A. B. Pritsker et al. 1969 (the time-indexed
model), M. L. Fisher 1981 (Lagrangian bounds), G. Schrimpf et al. 2000 (ruin and recreate).
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.logs import SHARED, trace_file
from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_MWH, WEEK_S
from offpeak.model.facility import Facility
from offpeak.model.jobs import Jobs
from offpeak.model.step_series import Series, value_at
from offpeak.plugin.day_plan.join import refit_plan
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.problem import NO_LIMIT, NodeCapacities, Problem, Rates, Running, Work
from offpeak.plugin.queue_hook.facts import PriceIntegral
from offpeak.plugin.window_policy import EXTERNAL, WindowPolicy, WindowView
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.prices.peak import parse_peak_rule
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices, peak_times
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine
from offpeak.sim_backend.comparison.compare import replay_policy
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.engine.state import State
from offpeak.sim_backend.replay.equal_nodes import replay, unit_replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.swf.read import read_swf

SLOT_S = 900
LATER_S = DAY_S
"""No job starts later than this after its start under EASY; the engine's own bound on overtaking is as long."""


class SampledLog(NamedTuple):
    """The units of the log's machine, how many of them are counted as one, and the days of a window."""

    size: int
    unit: int
    days: int


LOGS = {
    "KTH-SP2": SampledLog(100, 1, 2),
    "SDSC-SP2": SampledLog(128, 1, 2),
    "CTC-SP2": SampledLog(338, 1, 1),
    "SDSC-BLUE": SampledLog(1152, 8, 1),
    "theta_2022": SampledLog(4360, 1, 2),
}
ZONES = ("DE-LU", "FR", "NL", "AT", "CH", "US-CAL-CISO", "US-NY-NYIS", "US-TEX-ERCO")
SAMPLES, BOUNDED = 12, 4
"""The samples of each log that policies replay, and those of them with bounds."""
SEED = 1
LOW_W, HIGH_W = 100.0, 300.0
ORDERS = ("greedy", "knapsack")
SHARES, HOURS = (0.1, 0.3, 1.0), (6, 24, 72)
SEARCH_S = 20.0
SEARCHED, DELAYED = 1, 2
"""The samples of each log that CP-SAT solves, and those with delays."""
RECORD = Path(__file__).with_name("ordering_bound.csv")
TABLES = Path(__file__).parent.parent / "docs" / "figures" / "ordering"


@dataclass(frozen=True, eq=False)
class Sample:
    """A window of a log on prices. Jobs that run when it begins come first: they are submitted, and start, in slot 0.

    `offset_s` is what must be added to a second of the sample to get that of the prices. `draw` is a number from 0 to 1
    for each job: a job may be delayed if it is below the share of owners that allow it.
    """

    name: str
    zone: str
    jobs: Jobs
    power_w: Float64
    nodes: int
    prices: Series
    offset_s: int
    running: int
    draw: Float64

    @property
    def case(self) -> ReplayCase:
        """The sample as the engine takes it."""
        settings = PriceSettings()
        aligned = AlignedSeries(self.prices, self.offset_s, UTC, ())
        prices = ReplayPrices(aligned, parse_peak_rule(settings.peak_rule, zone=UTC))
        return ReplayCase(self.jobs, self.power_w, ReplayMachine(self.nodes, 0.0), prices, None)

    def cost(self, start_s: Int64) -> float:
        """Return the cost of the energy of the jobs that did not run at first."""
        per_watt = PriceIntegral(self.prices).per_watt(start_s + self.offset_s, self.jobs.runtime_s)
        return float((per_watt * self.power_w * self.jobs.size)[self.running :].sum()) / J_PER_MWH

    def wait_s(self, start_s: Int64) -> float:
        """Return the mean wait of the jobs that did not run at first."""
        return float((start_s - self.jobs.submit_s)[self.running :].mean())


@cache
def easy_on(name: str) -> tuple[Jobs, Int64]:
    """Return the log's jobs, and their starts under EASY with users' estimates."""
    log = LOGS[name]
    jobs, _ = runnable(read_swf(trace_file(name)), log.size)
    jobs = replace(jobs.as_logged(), size=-(-jobs.size // log.unit), request=None)
    policy = parse_policy("easy", SchedulingSettings())
    return jobs, replay(jobs, np.ones(len(jobs)), machine_size=log.size // log.unit, policy=policy).start_s


@cache
def prices_of_zone(zone: str) -> Series:
    """Return the zone's hourly prices of several years."""
    (path,) = (SHARED / "prices").glob(f"price_{zone}_*.csv.gz")
    return read_series(path, parse_layout(""))


def draw_sample(name: str, number: int) -> Sample:
    """Return the sample of that number; one whose jobs cost nothing under EASY is drawn again."""
    for attempt in range(100):
        rng = np.random.default_rng((SEED, list(LOGS).index(name), number, attempt))
        sample = cut_sample(name, rng)
        if sample is not None:
            return sample
    raise SystemExit(f"{name}: no window has jobs and prices")


def cut_sample(name: str, rng: np.random.Generator) -> Sample | None:
    """Return a random window on random prices; None without jobs that wait or without known, positive prices."""
    log, (jobs, start_s) = LOGS[name], easy_on(name)
    end_s = start_s + jobs.runtime_s
    first_s, last_s = int(jobs.submit_s[0]), int(jobs.submit_s[-1])
    begin_s = (
        int(rng.uniform(first_s + 0.05 * (last_s - first_s), first_s + 0.95 * (last_s - first_s))) // SLOT_S * SLOT_S
    )
    runs = np.flatnonzero((start_s < begin_s) & (end_s > begin_s))
    waits = np.flatnonzero((jobs.submit_s < begin_s + log.days * DAY_S) & (start_s >= begin_s) & (jobs.runtime_s > 0))
    chosen = np.concatenate([runs, waits])
    slots = np.maximum(np.rint(jobs.runtime_s[chosen] / SLOT_S), 1)
    slots[: len(runs)] = np.ceil((end_s[runs] - begin_s) / SLOT_S) + 1
    estimate = np.maximum(np.ceil(jobs.estimate_s[chosen] / SLOT_S), slots)
    estimate[: len(runs)] = np.maximum(
        np.ceil((start_s + jobs.estimate_s)[runs] - begin_s) / SLOT_S + 1, slots[: len(runs)]
    )
    submit = np.ceil(np.maximum(jobs.submit_s[chosen] - begin_s, 0) / SLOT_S) + 1
    submit[: len(runs)] = 0
    cut = jobs.take(chosen)
    cut = replace(
        cut,
        job_id=np.arange(len(chosen)),
        submit_s=SLOT_S * submit.astype(np.int64),
        runtime_s=SLOT_S * slots.astype(np.int64),
        estimate_s=SLOT_S * np.ceil(estimate).astype(np.int64),
    )
    zone = ZONES[rng.integers(len(ZONES))]
    series = prices_of_zone(zone)
    # The second of the day stays: nights are nights.
    days = int(rng.integers(8, (series.end_s - int(series.start_s[0])) // DAY_S - 40))
    offset_s = int(series.start_s[0]) // DAY_S * DAY_S + days * DAY_S + begin_s % DAY_S - SLOT_S
    near = (series.start_s >= offset_s - WEEK_S - DAY_S) & (series.start_s < offset_s + 40 * DAY_S)
    known = series.known[near].all() and len(waits) >= 10
    end_of_near = int(series.start_s[near][-1]) + HOUR_S
    prices = Series(series.start_s[near], end_of_near, series.value[near], series.unit, series.source)
    power_w = rng.uniform(LOW_W, HIGH_W, len(chosen))
    nodes = log.size // log.unit
    sample = Sample(name, zone, cut, power_w, nodes, prices, offset_s, len(runs), rng.random(len(chosen)))
    return sample if known and sample.cost(cut.submit_s) > 0 else None


class Slots(NamedTuple):
    """What each start of each job that waits costs, and what its wait counts; float64[jobs, starts], inf where none is.

    A job starts in a slot from `first[j]` on. `free[t]` are the nodes that the first jobs leave. The sum of the counted
    waits, each less that of EASY, must not exceed 0.
    """

    first: Int64
    length: Int64
    size: Int64
    cost: Float64
    wait: Float64
    free: Int64


@dataclass(frozen=True)
class Rule:
    """What a schedule must keep: no job is later than `later_s` after EASY, and the waits count by job or by node-hour.

    The jobs of this `share` of owners may start `delay_s` later than under EASY without a wait that counts.
    """

    name: str
    later_s: int = LATER_S
    by_node_h: bool = False
    share: float = 0.0
    delay_s: int = 0


ORDER_RULES = (Rule("mean wait"), Rule("wait by node-hours", by_node_h=True), Rule("no job later", later_s=0))
DELAY_RULES = tuple(
    Rule(f"{100 * share:.0f} % {hours} h", share=share, delay_s=hours * HOUR_S) for share in SHARES for hours in HOURS
)


def slots_of(sample: Sample, easy_s: Int64, rule: Rule) -> Slots:
    """Return the tables of the sample under the rule."""
    may_delay = sample.draw < rule.share
    jobs = sample.jobs.take(np.arange(sample.running, len(sample.jobs)))
    easy = easy_s[sample.running :] // SLOT_S
    free_delay = np.where(may_delay[sample.running :], rule.delay_s // SLOT_S, 0)
    first, length = jobs.submit_s // SLOT_S, jobs.runtime_s // SLOT_S
    last = easy + np.maximum(rule.later_s // SLOT_S, free_delay)
    start = first[:, None] + np.arange(int((last - first).max()) + 1)
    over = start - easy[:, None]
    wait = np.where(over <= 0, over, np.maximum(over - free_delay[:, None], 0)).astype(np.float64)
    if rule.by_node_h:
        wait *= (jobs.size * length)[:, None]
    run_s, at_s = np.broadcast_to(jobs.runtime_s[:, None], start.shape), start * SLOT_S + sample.offset_s
    per_watt = PriceIntegral(sample.prices).per_watt(at_s, run_s)
    weight = sample.power_w[sample.running :] * jobs.size / J_PER_MWH
    cost = np.where(start <= last[:, None], per_watt * weight[:, None], np.inf)
    free = np.full(int((last + length).max()) + 1, sample.nodes)
    for size, end in zip(
        *(column[: sample.running].tolist() for column in (sample.jobs.size, sample.jobs.runtime_s)), strict=True
    ):
        free[: end // SLOT_S] -= size
    return Slots(first, length, jobs.size, cost, wait, free)


@kernel
def priced(slots: Slots, job: int, number: int, paid: Float64, per_wait: float) -> float:
    """Return the cost of one start of a job, with the prices of units and of its wait; `paid` sums those of units."""
    at = slots.first[job] + number
    units = slots.size[job] * (paid[at + slots.length[job]] - paid[at])
    return float(slots.cost[job, number] + units + per_wait * slots.wait[job, number])


@kernel
def cheapest_starts(slots: Slots, price: Float64, per_wait: float, chosen: Int64, used: Int64) -> float:
    """Write the start of each job that is cheapest with these prices of nodes and waits, and the nodes in use.

    Return the sum of the costs.
    """
    total = 0.0
    paid = np.zeros(len(price) + 1)
    paid[1:] = np.cumsum(price)
    used[:] = 0
    for job in range(len(slots.first)):
        least, first, length = np.inf, slots.first[job], slots.length[job]
        for number in range(slots.cost.shape[1]):
            if slots.cost[job, number] == np.inf:
                break
            value = priced(slots, job, number, paid, per_wait)
            if value < least:
                least = value
                chosen[job] = number
        total += least
        used[first + chosen[job] : first + chosen[job] + length] += slots.size[job]
    return total


@kernel
def place_in_order(slots: Slots, order: Int64, price: Float64, per_wait: float, chosen: Int64) -> bool:
    """Write the cheapest start of each job that is still free, one after the other; return whether all found one."""
    paid = np.zeros(len(price) + 1)
    paid[1:] = np.cumsum(price)
    free = slots.free.copy()
    for job in order:
        least, first, length, found = np.inf, slots.first[job], slots.length[job], -1
        for number in range(slots.cost.shape[1]):
            if slots.cost[job, number] == np.inf:
                break
            at = first + number
            value = priced(slots, job, number, paid, per_wait)
            if value >= least:
                continue
            fits = True
            for slot in range(at, at + length):
                if free[slot] < slots.size[job]:
                    fits = False
                    break
            if fits:
                least, found = value, number
        if found < 0:
            return False
        chosen[job] = found
        free[first + found : first + found + length] -= slots.size[job]
    return True


@kernel
def find_place(slots: Slots, job: int, free: Int64, per_wait: float) -> int:
    """Return the cheapest start of the job for which there are free nodes, -1 if there is none."""
    least, length, found = np.inf, slots.length[job], -1
    for number in range(slots.cost.shape[1]):
        if slots.cost[job, number] == np.inf:
            break
        value = slots.cost[job, number] + per_wait * slots.wait[job, number]
        if value >= least:
            continue
        fits, at = True, slots.first[job] + number
        for slot in range(at, at + length):
            if free[slot] < slots.size[job]:
                fits = False
                break
        if fits:
            least, found = value, number
    return found


@kernel
def ruin_and_recreate(slots: Slots, begin: Int64, per_wait: float, rounds: int, seed: int) -> Int64:
    """Return the cheapest schedule found: some jobs that start near each other are taken out and put in again.

    Worse schedules are accepted less and less. What the waits exceed their sum by costs five times their price.
    """
    np.random.seed(seed)
    count = len(begin)
    now, best, free = begin.copy(), begin.copy(), slots.free.copy()
    cost, wait = 0.0, 0.0
    for job in range(count):
        at = slots.first[job] + now[job]
        free[at : at + slots.length[job]] -= slots.size[job]
        cost += slots.cost[job, now[job]]
        wait += slots.wait[job, now[job]]
    least, warm, out = cost, 2e-3 * abs(cost), np.empty(16, np.int64)
    for number in range(rounds):
        pivot = np.random.randint(count)
        centre, reach = slots.first[pivot] + now[pivot], 2 ** np.random.randint(1, 7)
        wanted, taken = np.random.randint(2, 15), 1
        out[0] = pivot
        for _ in range(4 * wanted):
            job = np.random.randint(count)
            if taken >= wanted:
                break
            if abs(slots.first[job] + now[job] - centre) <= reach and not (out[:taken] == job).any():
                out[taken] = job
                taken += 1
        some = out[:taken]
        before = now[some].copy()
        new_cost, new_wait = cost, wait
        for job in some:
            at = slots.first[job] + now[job]
            free[at : at + slots.length[job]] += slots.size[job]
            new_cost -= slots.cost[job, now[job]]
            new_wait -= slots.wait[job, now[job]]
        order = np.arange(taken)
        np.random.shuffle(order)
        if np.random.random() < 0.5:
            order = np.argsort(-(slots.size[some] * slots.length[some]))
        weight, placed = per_wait * 4.0 ** np.random.uniform(-1.0, 1.0), 0
        for index in order:
            job = some[index]
            found = find_place(slots, job, free, weight)
            if found < 0:
                break
            placed += 1
            now[job] = found
            at = slots.first[job] + found
            free[at : at + slots.length[job]] -= slots.size[job]
            new_cost += slots.cost[job, found]
            new_wait += slots.wait[job, found]
        change = new_cost - cost + 5.0 * per_wait * (max(new_wait, 0.0) - max(wait, 0.0))
        heat = warm * (1.0 - number / rounds)
        if placed == taken and change <= -heat * np.log(max(np.random.random(), 1e-12)):
            cost, wait = new_cost, new_wait
            if wait <= 0.0 and cost < least:
                least = cost
                best[:] = now
            continue
        for index in order[:placed]:
            job = some[index]
            at = slots.first[job] + now[job]
            free[at : at + slots.length[job]] += slots.size[job]
        for place in range(taken):
            job = some[place]
            now[job] = before[place]
            at = slots.first[job] + now[job]
            free[at : at + slots.length[job]] -= slots.size[job]
    return best


class Bound(NamedTuple):
    """The proven lower bound of the cost, and the best schedule found with its cost: a number of a start for each job.

    `per_wait` is the price of a slot of waiting at the bound.
    """

    lower: float
    upper: float
    chosen: Int64
    per_wait: float = 0.0


def lagrangian(slots: Slots, easy: Int64, rounds: int = 1500) -> Bound:
    """Return the bound by subgradient steps on the prices of nodes and waits, with schedules made on the way."""
    at = np.arange(len(slots.first))
    best, upper = easy.copy(), float(slots.cost[at, easy].sum())
    price, per_wait, lower, step, stale = np.zeros(len(slots.free)), 0.0, -np.inf, 1.0, 0
    best_wait = 0.0
    chosen, used, placed = easy.copy(), np.zeros(len(slots.free), np.int64), easy.copy()
    # Both kinds of prices move in steps of one size: a wait counts as the node-slots of a mean job.
    scale = (
        float((slots.size * slots.length).mean())
        / len(at)
        / max(float(np.abs(np.diff(slots.wait[:, :2])).mean()), 1e-9)
    )
    for number in range(rounds):
        value = float(cheapest_starts(slots, price, per_wait, chosen, used)) - float(price @ slots.free)
        if value > lower + 1e-9 * abs(upper):
            stale, best_wait = 0, per_wait
        else:
            stale += 1
        lower = max(lower, value)
        if stale >= 20:
            step, stale = 0.7 * step, 0
        over = (used - slots.free).astype(np.float64)
        over[(price <= 0) & (over < 0)] = 0.0
        waits = float(slots.wait[at, chosen].sum())
        if per_wait <= 0 and waits < 0:
            waits = 0.0
        length = float(over @ over) + (waits * scale) ** 2
        if length == 0:
            break
        by = step * max(upper - value, 1e-6 * abs(upper)) / length
        if number % 25 == 24:
            for more in (1.0, 1.1, 1.3):
                order = np.lexsort((-slots.size * slots.length, slots.first + chosen))
                if not place_in_order(slots, order, price, more * per_wait, placed):
                    continue
                cost = float(slots.cost[at, placed].sum())
                if slots.wait[at, placed].sum() <= 0 and cost < upper:
                    best, upper = placed.copy(), cost
        price = np.maximum(price + by * over, 0.0)
        per_wait = max(per_wait + by * waits * scale * scale, 0.0)
    return Bound(lower, upper, best, best_wait)


def solve_exactly(slots: Slots, hint: Int64, seconds: float, seed: int = SEED) -> Bound:
    """Return what CP-SAT finds in that time: interval variables on one cumulative resource, costs by tables."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    count = np.isfinite(slots.cost).sum(axis=1)
    largest = max(float(np.abs(np.where(np.isfinite(slots.cost), slots.cost, 0)).max()), 1e-12)
    scale = 1e6 / largest
    starts, costs, waits, intervals = [], [], [], []
    for job, (first, length, many) in enumerate(
        zip(slots.first.tolist(), slots.length.tolist(), count.tolist(), strict=True)
    ):
        table = np.rint(scale * slots.cost[job, :many]).astype(np.int64)
        counted = slots.wait[job, :many].astype(np.int64)
        number = model.new_int_var(0, many - 1, "")
        cost = model.new_int_var(int(table.min()), int(table.max()), "")
        model.add_element(number, table.tolist(), cost)
        wait: Any = int(counted[0]) + int(counted[-1] - counted[0]) // max(many - 1, 1) * number
        if len(np.unique(np.diff(counted))) > 1:
            wait = model.new_int_var(int(counted.min()), int(counted.max()), "")
            model.add_element(number, counted.tolist(), wait)
        starts.append(number)
        costs.append(cost)
        waits.append(wait)
        intervals.append(model.new_fixed_size_interval_var(number + first, length, ""))
        model.add_hint(number, int(hint[job]))
        model.add_hint(cost, int(table[hint[job]]))
    most = int(slots.free.max())
    taken = most - slots.free
    edges = np.flatnonzero(np.diff(taken, prepend=-1))
    held = [
        (int(a), int(b - a), int(taken[a])) for a, b in zip(edges, [*edges[1:], len(taken)], strict=True) if taken[a]
    ]
    fixed = [model.new_fixed_size_interval_var(at, length, "") for at, length, _ in held]
    model.add_cumulative([*intervals, *fixed], [*slots.size.tolist(), *(load for *_, load in held)], most)
    model.add(sum(waits) <= 0)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.interleave_search = True
    solver.parameters.random_seed = seed
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model)
    # Each cost is rounded by half a unit at the most.
    lower = (solver.best_objective_bound - len(starts) / 2) / scale
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Bound(lower, np.inf, hint)
    chosen = np.array([solver.value(start) for start in starts], np.int64)
    return Bound(lower, float(slots.cost[np.arange(len(chosen)), chosen].sum()), chosen)


def check(slots: Slots, chosen: Int64) -> None:
    """Raise SystemExit unless the schedule keeps the machine and the sum of waits."""
    load = np.zeros(len(slots.free), np.int64)
    for first, length, size in zip(slots.first + chosen, slots.length, slots.size, strict=True):
        load[first : first + length] += size
    counted = slots.wait[np.arange(len(chosen)), chosen].sum()
    if (load > slots.free).any() or counted > 0 or not np.isfinite(slots.cost[np.arange(len(chosen)), chosen]).all():
        raise SystemExit("a schedule breaks a rule")


class PlanOrder:
    """The order of the day plan, as a window policy: it plans the queue at each pass, with what is known then.

    Prices are known until the end of the day, from 13:00 until the end of the next day; later ones are those of the
    week before. `state` is that of the engine, which shows the jobs that run.
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.state: State | None = None
        self._room = Facility("none", np.array([1.0]), np.array([15.0]), np.array([[1.0]]))

    def __call__(self, view: WindowView) -> Sequence[int]:
        """Return the window's jobs in the order of their planned starts."""
        sample, jobs, none = self.sample, self.sample.jobs, np.zeros(len(view.size), np.int64)
        assert self.state is not None
        started = self.state.start_s
        runs = np.flatnonzero((started != NOT_YET) & (started + jobs.runtime_s > view.now_s))
        until_s = np.maximum(started[runs] + jobs.estimate_s[runs] - view.now_s, SLOT_S)
        earned = PlanSettings().revenue_per_core_h / HOUR_S
        work = Work(
            view.job_id, none + 1, view.size, none, none, view.estimate_s, none, none + NO_LIMIT,
            (view.node_power_w * view.size).astype(np.float64), earned * view.size.astype(np.float64),
        )  # fmt: skip
        held, zero = jobs.size[runs], np.zeros(len(runs), np.int64)
        running = Running(
            zero, until_s, held, zero, zero, sample.power_w[runs] * held, earned * held.astype(np.float64)
        )
        machine = NodeCapacities(np.array([sample.nodes]), np.zeros(1, np.int64), np.zeros(1, np.int64))
        problem = Problem(work, machine, running, self._rates(view.now_s), self._room)
        plan = refit_plan(problem, None, [np.arange(len(work))], budget_of(60.0))
        planned_s = np.where(plan.placed, plan.start_s, NO_LIMIT)
        return [int(rank) for rank in np.argsort(planned_s, kind="stable")]

    def _rates(self, now_s: int) -> Rates:
        now = now_s + self.sample.offset_s
        known_s = (now // DAY_S + (2 if now % DAY_S >= 13 * HOUR_S else 1)) * DAY_S
        hours = np.unique([now, *range(now // HOUR_S * HOUR_S + HOUR_S, now + 3 * DAY_S, HOUR_S)])
        source_s = np.where(hours[:-1] < known_s, hours[:-1], hours[:-1] - WEEK_S)
        price = value_at(self.sample.prices, source_s) / 1000
        return Rates(hours - now, price, np.full(len(price), 15.0), np.full(len(price), NO_LIMIT))


def replay_plan(sample: Sample) -> Int64:
    """Return the starts under EASY on the order of the day plan."""
    order = PlanOrder(sample)
    easy = parse_policy("easy", SchedulingSettings(window=100))
    window = WindowPolicy("plan", EXTERNAL, "the order of the day plan", order=order)
    policy = replace(easy, name="plan", rules=easy.rules._replace(policy=EXTERNAL), window_policy=window)
    made = unit_replay(sample.jobs, sample.power_w, sample.nodes, policy, peaks=peak_times(sample.case.prices))
    order.state = made.state
    made.run()
    return made.start_s.copy()


def starts_under(sample: Sample, name: str, longest_s: Int64 | None = None) -> Int64:
    """Return the starts under that policy, with jobs held back for cheaper hours for up to so long."""
    policy = parse_policy(name, SchedulingSettings())
    if longest_s is not None:
        policy = replace(policy, hold=lambda _jobs: longest_s)
    case = sample.case
    return replay_policy(case, policy, peak_times(case.prices)).start_s


ROW = ("log", "sample", "rule", "jobs", "zone", "easy_cost", "easy_wait_s", "what", "saved_pct", "wait_s")
ROUNDS, LEAST_PRICE = 100_000, 0.003
"""Attempts of a search, and the least price of a wait of one slot as a share of what a job costs."""


class Saving(NamedTuple):
    """What something saves of the cost under EASY [%], and the mean wait of all jobs [s]."""

    what: str
    saved_pct: float
    wait_s: float


def saving(sample: Sample, easy_s: Int64, what: str, start_s: Int64) -> Saving:
    """Return what these starts save."""
    return Saving(what, 100 * (1 - sample.cost(start_s) / sample.cost(easy_s)), sample.wait_s(start_s))


class Solution(NamedTuple):
    """A lower bound of the cost under a rule, and the starts of the best schedule that was found."""

    lower: float
    start_s: Int64


def starts_of(sample: Sample, slots: Slots, chosen: Int64) -> Int64:
    """Return the starts of all jobs of a schedule that breaks no rule; raise SystemExit if it breaks one."""
    check(slots, chosen)
    return np.concatenate([np.zeros(sample.running, np.int64), SLOT_S * (slots.first + chosen)])


def solve_sample(sample: Sample, easy_s: Int64, rule: Rule, begin_s: Int64) -> Solution:
    """Return the proven lower bound of the cost under the rule, and the best schedule that list scheduling found."""
    slots = slots_of(sample, easy_s, rule)
    at, first = np.arange(len(slots.first)), easy_s[sample.running :] // SLOT_S - slots.first
    found, best = lagrangian(slots, first), begin_s[sample.running :] // SLOT_S - slots.first
    # Where nodes alone limit the waits of the bound, waits have no price there; without one no schedule keeps the rule.
    per_slot = float(np.abs(np.diff(slots.wait[:, :2])).mean()) if slots.wait.shape[1] > 1 else 1.0
    least = LEAST_PRICE * float(np.abs(slots.cost[at, first]).mean()) / per_slot
    for seed, begin in enumerate((best, found.chosen)):
        tried = ruin_and_recreate(slots, begin, max(found.per_wait, least), ROUNDS, seed)
        best = min((best, begin, tried), key=lambda chosen: float(slots.cost[at, chosen].sum()))
    return Solution(found.lower, starts_of(sample, slots, best))


def search_sample(sample: Sample, easy_s: Int64, rule: Rule, begin_s: Int64, seconds: float) -> Solution:
    """Return what CP-SAT proves and finds if it begins with these starts."""
    slots = slots_of(sample, easy_s, rule)
    exact = solve_exactly(slots, begin_s[sample.running :] // SLOT_S - slots.first, seconds)
    return Solution(exact.lower, starts_of(sample, slots, exact.chosen))


def measure_sample(name: str, number: int, seconds: float) -> Iterator[list[str]]:
    """Yield the rows of a sample."""
    sample = draw_sample(name, number)
    easy_s = starts_under(sample, "easy")
    cost, jobs = sample.cost(easy_s), len(sample.jobs) - sample.running
    facts = [str(jobs), sample.zone, f"{cost:.4f}", f"{sample.wait_s(easy_s):.0f}"]

    def row(rule: str, saved: Saving) -> list[str]:
        return [name, str(number), rule, *facts, saved.what, f"{saved.saved_pct:.3f}", f"{saved.wait_s:.0f}"]

    for policy in ORDERS:
        yield row("policy", saving(sample, easy_s, policy, starts_under(sample, policy)))
    yield row("policy", saving(sample, easy_s, "plan", replay_plan(sample)))
    if number >= BOUNDED:
        return
    base_s = easy_s
    for rule in (*ORDER_RULES, *(DELAY_RULES if number < DELAYED else ())):
        solved = solve_sample(sample, easy_s, rule, base_s if rule.share else easy_s)
        base_s = solved.start_s if rule is ORDER_RULES[0] else base_s
        found = saving(sample, easy_s, "found", solved.start_s)
        yield row(rule.name, Saving("bound", 100 * (1 - solved.lower / cost), found.wait_s))
        yield row(rule.name, found)
        if rule is ORDER_RULES[0] and number < SEARCHED:
            searched = search_sample(sample, easy_s, rule, solved.start_s, seconds)
            by_search = saving(sample, easy_s, "CP-SAT found", searched.start_s)
            yield row(rule.name, Saving("CP-SAT bound", 100 * (1 - searched.lower / cost), by_search.wait_s))
            yield row(rule.name, by_search)
        if rule.share:
            runs = np.arange(len(sample.jobs)) < sample.running
            longest_s = np.where((sample.draw < rule.share) & ~runs, rule.delay_s, 0)
            for policy in ("easy", "greedy"):
                held_s = starts_under(sample, policy, longest_s)
                yield row(rule.name, saving(sample, easy_s, f"held {policy}", held_s))


def read_rows(path: Path = RECORD) -> list[list[str]]:
    """Return the rows of the file without its header, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def write_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def parts_of(rows: Sequence[Sequence[str]], rule: str, what: str, column: str = "saved_pct") -> list[float]:
    """Return a column of the rows of a rule, a value for each sample."""
    at = ROW.index(column)
    return [float(row[at]) for row in rows if (row[2], row[ROW.index("what")]) == (rule, what)]


def values_of(rows: Sequence[Sequence[str]], rule: str, what: str) -> list[float]:
    """Return what was found under a rule, or at most can be, for each sample.

    A schedule that keeps a rule keeps each looser one, too; a bound of a looser rule is one of each stricter.
    """
    names = {rule, *(_stricter(rule) if what == "found" else _looser(rule))}
    choose = max if what == "found" else min
    values: dict[tuple[str, str], float] = {}
    own = [row for row in rows if row[2] in names and row[7].removeprefix("CP-SAT ") == what]
    for row in sorted(own, key=lambda row: row[2] != rule):
        sample, value = (row[0], row[1]), float(row[8])
        if sample in values:
            values[sample] = choose(values[sample], value)
        elif row[2] == rule:
            values[sample] = value
    return list(values.values())


def _stricter(name: str) -> list[str]:
    (rule,) = (each for each in (*ORDER_RULES, *DELAY_RULES) if each.name == name)
    if not rule.share:
        return ["no job later"] if name != "no job later" else []
    smaller = [each.name for each in DELAY_RULES if each.share <= rule.share and each.delay_s <= rule.delay_s]
    return ["mean wait", "no job later", *smaller]


def _looser(name: str) -> list[str]:
    (rule,) = (each for each in (*ORDER_RULES, *DELAY_RULES) if each.name == name)
    larger = [each.name for each in DELAY_RULES if each.share >= rule.share and each.delay_s >= rule.delay_s]
    if rule.share:
        return larger
    return {"no job later": ["mean wait", "wait by node-hours", *larger], "mean wait": larger}.get(name, [])


def spread(values: Sequence[float]) -> str:
    """Return the median and the range, as in "6.1 (1.5 to 14.1)"; nothing for no value."""
    return f"{np.median(values):.1f} ({min(values):.1f} to {max(values):.1f})" if values else ""


def share_of(values: Sequence[float], found: Sequence[float]) -> str:
    """Return these savings in per cent of what was found, both summed over the samples."""
    return f"{100 * sum(values) / sum(found):.0f}"


def wait_text(rows: Sequence[Sequence[str]], what: str) -> str:
    """Return the mean wait over the samples in hours."""
    return f"{np.mean(parts_of(rows, 'policy', what, 'wait_s')) / HOUR_S:.2f}"


POLICY_HEAD = ("log", "samples", "wait EASY, h", "greedy, %", "knapsack, %", "plan, %", "wait greedy, h",
               "wait knapsack, h", "wait plan, h")  # fmt: skip
BOUND_HEAD = ("log", "samples", "same mean wait, %", "at most, %", "same wait by node-hours, %", "at most so, %",
              "no job later, %", "at most then, %", "greedy's share, %", "plan's share, %")  # fmt: skip
DELAY_HEAD = ("jobs that may wait", "for", "samples", "found, %", "at most, %", "begin times, %", "with greedy, %",
              "share of begin times, %", "share with greedy, %")  # fmt: skip


def policies_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return what the policies save on average, a row for each log and one for all."""
    table = []
    for name in (*LOGS, "all"):
        own = [row for row in rows if name in (row[0], "all")]
        easy_s = parts_of(own, "policy", "greedy", "easy_wait_s")
        policies = (*ORDERS, "plan")
        means = [f"{np.mean(parts_of(own, 'policy', what)):.2f}" for what in policies]
        waits = [wait_text(own, what) for what in policies]
        table.append([name, str(len(easy_s)), f"{np.mean(easy_s) / HOUR_S:.2f}", *means, *waits])
    return table


def bound_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return what a schedule could save, a row for each log and one for all."""
    table = []
    for name in (*LOGS, "all"):
        own = [row for row in rows if name in (row[0], "all")]
        found = values_of(own, "mean wait", "found")
        cells = [spread(values_of(own, rule.name, what)) for rule in ORDER_RULES for what in ("found", "bound")]
        bounded = [row for row in own if int(row[1]) < BOUNDED]
        shares = [share_of(parts_of(bounded, "policy", what), found) for what in ("greedy", "plan")]
        table.append([name, str(len(found)), *cells, *shares])
    return table


def delay_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return what consent is worth, a row for each share of jobs and each delay, over all logs."""
    table = []
    delayed = [row for row in rows if int(row[1]) < DELAYED]
    for rule in (ORDER_RULES[0], *DELAY_RULES):
        found, most = (values_of(delayed, rule.name, what) for what in ("found", "bound"))
        held = [
            parts_of(delayed, rule.name, what) if rule.share else parts_of(delayed, "policy", "greedy")
            for what in ("held easy", "held greedy")
        ]
        means = [f"{np.mean(values):.1f}" for values in held]
        shares = [share_of(values, found) for values in held]
        if not rule.share:
            means[0] = shares[0] = "0"
        names = (f"{100 * rule.share:.0f} %", f"{rule.delay_s // HOUR_S} h") if rule.share else ("none", "")
        table.append([*names, str(len(found)), spread(found), spread(most), *means, *shares])
    return table


def write_tables(rows: Sequence[Sequence[str]]) -> None:
    """Write the tables of the page."""
    write_rows(TABLES / "policies.csv", POLICY_HEAD, policies_table(rows))
    write_rows(TABLES / "bound.csv", BOUND_HEAD, bound_table(rows))
    write_rows(TABLES / "delays.csv", DELAY_HEAD, delay_table(rows))


def measure(seconds: float, path: Path = RECORD) -> None:
    """Append the rows of samples that the file does not have: the first sample of each log, then the second."""
    rows = read_rows(path)
    done = {(row[0], row[1]) for row in rows}
    for number in range(SAMPLES):
        for name in LOGS:
            if (name, str(number)) in done:
                continue
            own = list(measure_sample(name, number, seconds))
            rows += own
            write_rows(path, ROW, rows)
            print(name, number, *(f"{row[2]} {row[7]} {row[8]};" for row in own[:9]), file=sys.stderr, flush=True)


if __name__ == "__main__":
    measure(float(sys.argv[1]) if len(sys.argv) > 1 else SEARCH_S)
    write_tables(read_rows())
