"""How much can the place of jobs save? Federations on real electricity, solved: `python -m benchmarks.place_bound`.

A sample is a week of four logs: each machine stands in another market or country, drawn at random, and all jobs go to a
broker. Jobs run equally long everywhere and draw the same power, so only the electricity differs. The policies of
offpeak.plugin.federation place the jobs in a simulated grid, with the waits that sites publish; they know prices and
carbon intensities until the end of the day, and take those of the week before for later hours. What counts is the cost
or the CO2 of the jobs' energy.

The bounds are optima of linear programmes over node-hours, not jobs: in each hour each site runs node-hours of jobs
that it is large enough for, no more than it has nodes, and none sooner than if its job started at its submission. The
electricity and the jobs to come are known, and jobs may be split, stopped and moved. The schedule of a policy is one
of the feasible solutions, so it cannot cost less. Four rules limit the time, each with a schedule to compare with:

- same end: all work is done by the hour in which the schedule ends;
- same wait: besides, no more node-hours wait on average, counted at the full hours;
- place alone: in each hour as many node-hours run as in the schedule, but elsewhere;
- nodes without limit: the same, and each site takes any number of jobs that are not too wide for it.

The best schedule that list scheduling finds with the same wait, all known, says how much of the bound can be reached.

A sample's rows of place_bound.csv are written as soon as it is done; a second run computes only what is missing. The
tables of docs/science/federation-studies.md are made from it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from benchmarks.logs import SHARED, trace_file
from benchmarks.modern_sites import carbon_series
from benchmarks.ordering_bound import read_rows, spread, write_rows
from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_MWH
from offpeak.model.jobs import Jobs, make_jobs
from offpeak.model.step_integrals import StepIntegral, integrate_constant, integrate_steps
from offpeak.model.step_series import Series
from offpeak.model.weighing import Weights
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.jobs import Goal
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Site
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.filters import runnable
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.simulated_grid.broker import Decider, LongestWaits, run_grid
from offpeak_studies.simulated_grid.grid import AHEAD_DAYS, DayAhead, GridLog, SimulatedGrid, SimulatedSite
from offpeak_studies.simulated_grid.sites import GridSchedule, outcome_of

HOURS, WEEK_DAYS = 24, 7


class SampledMachine(NamedTuple):
    """The units of a log's machine, and how many of them are a node."""

    units: int
    per_node: int


LOGS = {
    "KTH-SP2": SampledMachine(100, 1),
    "SDSC-SP2": SampledMachine(128, 1),
    "CTC-SP2": SampledMachine(338, 1),
    "SDSC-BLUE": SampledMachine(1152, 8),
}
MARKETS = ("AT", "CH", "DE-LU", "FR", "NL")
COUNTRIES = ("DE", "FR", "IT", "PL", "SE")
"""Those with a carbon intensity beyond 2025."""
PRICE_YEARS, CARBON_YEAR = ("2020", "2021", "2022", "2023", "2024"), "2025-26"
SUBMIT_DAYS, DRAIN_DAYS = 7, 42
"""The days of a sample in which jobs are submitted, and those after them in which the electricity must be known."""
SAMPLES = dict.fromkeys((*PRICE_YEARS, CARBON_YEAR), 4)
"""How many of each year."""
SEED = 1
NODE_W = 300.0
PERIOD_S = 900
REFERENCE = "fastest"
RECORD = Path(__file__).with_name("place_bound.csv")
TABLES = Path(__file__).parent.parent / "docs" / "figures" / "federation"
ROW = ("year", "sample", "places", "what", "charge", "bound", "wait_h", "wait_by_node_h", "days")


# Electricity


@dataclass(frozen=True, eq=False)
class DailySeries:
    """Hourly values of a market by UTC day, float64[days, 24], NaN where one is not known; `start_s` is a midnight."""

    value: Float64
    start_s: int
    unit: str

    def days(self, from_s: int, count: int) -> "DailySeries":
        """Return so many days from a midnight on, fewer if the series does not have them all."""
        first = (from_s - self.start_s) // DAY_S
        return DailySeries(self.value[max(first, 0) : max(first + count, 0)], from_s, self.unit)

    @property
    def meter(self) -> StepIntegral:
        """What the energy is charged by."""
        hour = self.value.ravel()
        return integrate_steps(self.start_s + HOUR_S * np.arange(len(hour)), hour)

    def known(self, *, later: bool) -> DayAhead:
        """Return what a broker knows: also the later days if `later`, else it takes those of the week before."""
        days = np.arange(len(self.value))
        ahead = days[:, None] + np.arange(1, AHEAD_DAYS + 1)
        at = np.minimum(ahead, days[-1]) if later else np.maximum(ahead - WEEK_DAYS, 0)
        return DayAhead(self.value, self.value[at], self.start_s, self.unit)


def by_day(series: Series) -> DailySeries:
    """Return the whole UTC days of a series whose values change at full hours at most."""
    first_s, end_s = -(-int(series.start_s[0]) // DAY_S) * DAY_S, series.end_s // DAY_S * DAY_S
    at = np.searchsorted(series.start_s, np.arange(first_s, end_s, HOUR_S), side="right") - 1
    return DailySeries(series.value[at].reshape(-1, HOURS), first_s, series.unit)


@cache
def electricity_of(kind: str, place: str) -> DailySeries:
    """Return the prices of a market, or the carbon intensities of a country."""
    if kind == "CO2":
        return by_day(carbon_series(place))
    (path,) = (SHARED / "prices").glob(f"price_{place}_*.csv.gz")
    return by_day(read_series(path, parse_layout("")))


NOTHING = Series(np.array([0]), 2**33, np.array([0.0]), "none", "not counted")


@dataclass(frozen=True, eq=False)
class KnownElectricity:
    """What a broker knows of each site; `kind` is "cost" or "CO2", and the other counts as zero."""

    kind: str
    sites: tuple[DayAhead, ...]

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return the known prices of each site."""
        return self._known(now_s, "cost")

    def carbon(self, now_s: int) -> tuple[Series, ...]:
        """Return the known carbon intensities of each site."""
        return self._known(now_s, "CO2")

    def _known(self, now_s: int, kind: str) -> tuple[Series, ...]:
        return tuple(each.at(now_s) if kind == self.kind else NOTHING for each in self.sites)


# Samples


@dataclass(frozen=True, eq=False)
class Sample:
    """A grid on the electricity of its sites, of which one `kind` counts: "cost" or "CO2"."""

    kind: str
    places: str
    grid: SimulatedGrid
    electricity: tuple[DailySeries, ...]

    def charge(self, schedule: GridSchedule) -> float:
        """Return the cost of the jobs' energy, or its CO2 [kg]."""
        outcome = outcome_of(self.grid, schedule)
        return float(outcome.cost.sum() if self.kind == "cost" else outcome.co2_g.sum() / 1000)


@cache
def jobs_of(name: str) -> Jobs:
    """Return the log's jobs in nodes, none longer than its estimate."""
    machine = LOGS[name]
    jobs, _ = runnable(read_swf(trace_file(name)), machine.units)
    jobs = jobs.as_logged()
    runtime_s = np.maximum(np.minimum(jobs.runtime_s, jobs.estimate_s), 1)
    size = -(-jobs.size // machine.per_node)
    return replace(jobs, size=size, runtime_s=runtime_s, estimate_s=np.maximum(jobs.estimate_s, runtime_s))


def draw_sample(year: str, number: int) -> Sample:
    """Return the sample of that number in a year of prices, or in that of CO2."""
    kind, places = ("CO2", COUNTRIES) if year == CARBON_YEAR else ("cost", MARKETS)
    span = WEEK_DAYS + SUBMIT_DAYS + DRAIN_DAYS
    for attempt in range(1000):
        rng = np.random.default_rng((SEED, int(year[:4]), number, attempt))
        chosen = rng.choice(places, len(LOGS), replace=False).tolist()
        begin_s = first_midnight_s(year) + DAY_S * int(rng.integers(365))
        near = tuple(electricity_of(kind, place).days(begin_s - WEEK_DAYS * DAY_S, span) for place in chosen)
        if all(each.value.shape == (span, HOURS) and np.isfinite(each.value).all() for each in near):
            return Sample(kind, " ".join(chosen), lay_logs(kind, near, rng), near)
    raise SystemExit(f"{year}: no weeks are known in {len(LOGS)} places")


def first_midnight_s(year: str) -> int:
    """Return when the year begins [Unix s]."""
    return int(datetime(int(year[:4]), 1, 1, tzinfo=UTC).timestamp())


def lay_logs(kind: str, electricity: Sequence[DailySeries], rng: np.random.Generator) -> SimulatedGrid:
    """Return a week of the logs on the electricity, whose first week is over when the first jobs are submitted."""
    names = [list(LOGS)[at] for at in rng.permutation(len(LOGS))]
    begin_s = electricity[0].start_s + WEEK_DAYS * DAY_S
    parts: list[Jobs] = []
    for name in names:
        jobs = jobs_of(name)
        last_day = int(jobs.submit_s[-1]) // DAY_S
        from_s = DAY_S * int(rng.integers(last_day // 20, last_day - last_day // 20 - SUBMIT_DAYS))
        part = jobs.take((jobs.submit_s >= from_s) & (jobs.submit_s < from_s + SUBMIT_DAYS * DAY_S))
        parts.append(replace(part, submit_s=part.submit_s - from_s + begin_s))
    sizes = [LOGS[name].units // LOGS[name].per_node for name in names]
    return grid_of(kind, sizes, electricity, parts)


def grid_of(
    kind: str,
    sizes: Sequence[int],
    electricity: Sequence[DailySeries],
    parts: Sequence[Jobs],
    pue: Sequence[float] = (),
) -> SimulatedGrid:
    """Return sites of these sizes under EASY, with the jobs of each, all of which go to the broker."""
    easy, none = parse_policy("easy", SchedulingSettings()), integrate_constant(0.0)
    sites = tuple(
        SimulatedSite(
            Site(f"site {number}", size, NODE_W, pue=pue[number] if pue else 1.0),
            easy,
            each.meter if kind == "cost" else none,
            each.meter if kind == "CO2" else none,
        )
        for number, (size, each) in enumerate(zip(sizes, electricity, strict=True))
    )
    home = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    submit_s, size, runtime_s, estimate_s = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("submit_s", "size", "runtime_s", "estimate_s")
    )
    order = np.argsort(submit_s, kind="stable")
    jobs = make_jobs(submit_s[order], size[order], runtime_s[order], estimate_s[order])
    count = len(order)
    return SimulatedGrid(sites, GridLog(jobs, home[order], np.ones(count, np.bool_), np.zeros(count), np.ones(count)))


class PlacePolicy(NamedTuple):
    """A policy of plugin/federation, the share of time in its weights, and what it knows beyond what a broker does.

    `later`: all electricity to come. `run_times`: those of the jobs, as do the sites, instead of users' estimates.
    """

    name: str
    time_pct: float = 25.0
    later: bool = False
    run_times: bool = False


POLICIES = {
    "home": PlacePolicy("baseline"),
    "fastest": PlacePolicy("fastest"),
    "round-robin": PlacePolicy("round-robin"),
    "eca-queue": PlacePolicy("eca-queue"),
    "mcmf": PlacePolicy("mcmf"),
    "mcmf, w_t 0": PlacePolicy("mcmf", 0.0),
    "mcmf, electricity known": PlacePolicy("mcmf", later=True),
    "mcmf, run times known, too": PlacePolicy("mcmf", later=True, run_times=True),
}


def run_policy(sample: Sample, policy: PlacePolicy) -> GridSchedule:
    """Return the schedule of the policy."""
    is_cost, rest_pct = sample.kind == "cost", 100.0 - policy.time_pct
    weights = Weights(policy.time_pct, rest_pct if is_cost else 0.0, 0.0 if is_cost else rest_pct)
    rules = GridRules(weights=weights, goal=Goal.COST if is_cost else Goal.CO2)
    known = tuple(each.known(later=policy.later) for each in sample.electricity)
    grid, log = sample.grid, sample.grid.log
    if policy.run_times:
        grid = replace(grid, log=replace(log, jobs=replace(log.jobs, estimate_s=log.jobs.runtime_s)))
    decider = Decider(grid_policy(policy.name), rules, LongestWaits(), KnownElectricity(sample.kind, known))
    return run_grid(grid, decider, period_s=PERIOD_S)


# Bounds


@dataclass(frozen=True, eq=False)
class HourlyWork:
    """The work of a sample by hour, in node-hours, and what its schedule did.

    Jobs that fit the same sites are a class: `fits` is bool[classes, sites]. `soonest` float64[classes, hours] is the
    work if each job started when it was submitted, `done` that of the schedule. `nodes` are those of each site, and
    `value` float64[sites, hours] is what a node-hour costs there.
    """

    fits: NDArray[np.bool_]
    soonest: Float64
    done: Float64
    nodes: Int64
    value: Float64

    @property
    def waiting_node_h(self) -> float:
        """The sum over all hours of the node-hours that wait at their ends."""
        return float(np.cumsum((self.soonest - self.done).sum(axis=0)).sum())


def work_of(sample: Sample, schedule: GridSchedule) -> HourlyWork:
    """Return the work until the schedule ends."""
    grid, jobs = sample.grid, sample.grid.log.jobs
    nodes = grid.federation.units
    fits, kind = np.unique(jobs.size[:, None] <= nodes, axis=0, return_inverse=True)
    edge_s = np.arange(jobs.submit_s[0] // HOUR_S * HOUR_S, schedule.end_s.max() + HOUR_S, HOUR_S)
    hour = (edge_s[:-1] - sample.electricity[0].start_s) // HOUR_S
    if hour[-1] >= sample.electricity[0].value.size:
        raise SystemExit(f"{sample.places}: a job ends after the last hour whose electricity is known")
    # What an MWh costs, or emits in kg: a gram per kWh is a kilogram per MWh.
    value = np.stack([each.value.ravel()[hour] for each in sample.electricity])
    mwh = np.array([site.site.unit_w * site.site.pue for site in grid.sites]) * HOUR_S / J_PER_MWH

    def by_class(start_s: Int64) -> Float64:
        job_h = np.diff([np.clip(at_s - start_s, 0, jobs.runtime_s) * jobs.size for at_s in edge_s], axis=0) / HOUR_S
        return np.stack([job_h[:, kind == each].sum(axis=1) for each in range(len(fits))])

    return HourlyWork(fits, by_class(jobs.submit_s), by_class(schedule.start_s), nodes, value * mwh[:, None])


@dataclass(frozen=True)
class Rule:
    """Which times the work must keep to: at most the waits of the schedule, or in each hour as much work as in it."""

    name: str
    same_wait: bool = False
    same_hours: bool = False
    any_nodes: bool = False


RULES = (
    Rule("same end"),
    Rule("same wait", same_wait=True),
    Rule("place alone", same_hours=True),
    Rule("nodes without limit", same_hours=True, any_nodes=True),
)
SAME_WAIT, FOUND = RULES[1], "found"


class Bound(NamedTuple):
    """The least cost, and the prices at which the programme values a node-hour at a site, and an hour of its wait."""

    cost: float
    node: Float64
    wait: float


def lower_bound(work: HourlyWork, rule: Rule) -> Bound:
    """Return the least cost of the work under the rule."""
    at, site = np.nonzero(work.fits)
    classes, hours = work.soonest.shape
    # The unknowns: what runs by pair of class and site and by hour, then what waits by class at the end of each hour.
    runs = np.arange(len(at) * hours).reshape(-1, hours)
    waits = runs.size + np.arange(classes * hours).reshape(-1, hours)
    row = waits - runs.size
    equal, equal_to = [(row[at], runs, 1.0), (row, waits, 1.0), (row[:, 1:], waits[:, :-1], -1.0)], [work.soonest]
    if rule.same_hours:
        equal.append((row.size + np.broadcast_to(np.arange(hours), runs.shape), runs, 1.0))
        equal_to.append(work.done.sum(axis=0))
    nodes = np.full(len(work.nodes), work.done.sum()) if rule.any_nodes else work.nodes
    node = np.arange(len(nodes) * hours).reshape(-1, hours)
    most, most_is = [(node[site], runs, 1.0)], [np.repeat(nodes, hours)]
    if rule.same_wait:
        most.append((np.full(waits.shape, node.size), waits, 1.0))
        most_is.append(np.array([work.waiting_node_h]))
    highest = np.full(runs.size + waits.size, np.inf)
    highest[waits[:, -1]] = 0.0
    solved = linprog(
        np.concatenate([work.value[site].ravel(), np.zeros(waits.size)]),
        A_ub=_matrix(most, len(highest)),
        b_ub=_column(most_is),
        A_eq=_matrix(equal, len(highest)),
        b_eq=_column(equal_to),
        bounds=np.column_stack([np.zeros(len(highest)), highest]),
        method="highs",
    )
    if solved.status:
        raise SystemExit(f"{rule.name}: no bound: {solved.message}")
    price = -solved.ineqlin.marginals
    return Bound(float(solved.fun), price[: node.size].reshape(node.shape), float(price[node.size :].sum()))


def _matrix(parts: Sequence[tuple[Int64, Int64, float]], columns: int) -> coo_array:
    """Return a matrix of parts, each with its rows, its columns and its one value."""
    row = np.concatenate([part[0].ravel() for part in parts])
    column = np.concatenate([part[1].ravel() for part in parts])
    value = np.concatenate([np.full(part[0].size, part[2]) for part in parts])
    return coo_array((value, (row, column)), shape=(row.max() + 1, columns))


def _column(parts: Sequence[Float64 | Int64]) -> Float64:
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


# Found

SLOT_S = 900
STEPS = 10


class SlotJobs(NamedTuple):
    """The first slot in which each job can start, its run time in slots, and its nodes."""

    first: Int64
    length: Int64
    size: Int64


@kernel
def place_in_order(order: Int64, jobs: SlotJobs, free: Int64, price: Float64, per_wait: float) -> tuple[Int64, Int64]:
    """Return the site and the slot of each job at which it is cheapest while the jobs before it in the order stay.

    `free` are the free nodes of each site and slot, `price` those of a node. The site is -1 where a job has no place.
    """
    sites, slots = free.shape
    site, start = np.full(len(order), -1), np.zeros(len(order), np.int64)
    paid = np.zeros((sites, slots + 1))
    for number in range(sites):
        paid[number, 1:] = np.cumsum(price[number])
    left = free.copy()
    for job in order:
        first, length, size, least = jobs.first[job], jobs.length[job], jobs.size[job], np.inf
        for number in range(sites):
            for at in range(first, slots - length + 1):
                value = paid[number, at + length] - paid[number, at] + per_wait * length * (at - first)
                if value < least and left[number, at : at + length].min() >= size:
                    least, site[job], start[job] = value, number, at
        if site[job] >= 0:
            left[site[job], start[job] : start[job] + length] -= size
    return site, start


def find_schedule(sample: Sample, reference: GridSchedule, bound: Bound) -> GridSchedule:
    """Return the best schedule that we find under the rule of the same wait, the reference itself if none is better.

    Jobs are placed one after the other, those with most node-hours first, or in the order of submission, or of the
    starts under the reference, at the prices of the bound. That of a wait rises until the waits are allowed.
    """
    jobs = sample.grid.log.jobs
    work, per_hour = work_of(sample, reference), HOUR_S // SLOT_S
    begin_s = int(jobs.submit_s[0]) // HOUR_S * HOUR_S
    length = -(-jobs.runtime_s // SLOT_S)
    slot_jobs = SlotJobs(-(-(jobs.submit_s - begin_s) // SLOT_S), length, jobs.size)
    free = np.repeat(work.nodes[:, None], work.value.shape[1] * per_hour, axis=1)
    best, least = reference, sample.charge(reference)
    large_first = np.argsort(-length * jobs.size, kind="stable")
    for order in (large_first, np.arange(len(jobs)), np.argsort(reference.start_s, kind="stable")):
        for share in (0.0, 0.5, 1.0):
            price = np.repeat(work.value + share * bound.node, per_hour, axis=1) / per_hour
            low, high = np.log(max(bound.wait, float(work.value.std()) / 100) * np.array([0.1, 1e4]))
            for _ in range(STEPS):
                middle = (low + high) / 2
                site, start = place_in_order(order, slot_jobs, free, price, np.exp(middle) / per_hour**2)
                start_s = begin_s + SLOT_S * start
                found = replace(reference, site=site, start_s=start_s, end_s=start_s + jobs.runtime_s)
                if site.min() < 0 or work_of(sample, found).waiting_node_h > work.waiting_node_h:
                    low = middle
                    continue
                high = middle
                if sample.charge(found) < least:
                    best, least = found, sample.charge(found)
    return best


# Record and tables


def measure_policy(sample: Sample, name: str) -> Iterator[list[str]]:
    """Yield the row of a policy with the bound at its own wait; of the reference also those of all bounds, and of the
    best schedule found with its wait."""
    schedule, jobs = run_policy(sample, POLICIES[name]), sample.grid.log.jobs
    work, charge = work_of(sample, schedule), sample.charge(schedule)
    wait_h = (schedule.start_s - jobs.submit_s) / HOUR_S
    by_node_h = np.average(wait_h, weights=jobs.size * jobs.runtime_s)
    days = (schedule.end_s.max() - jobs.submit_s[0]) / DAY_S
    same_wait = lower_bound(work, SAME_WAIT)
    costs = {name: same_wait.cost}
    if name == REFERENCE:
        costs |= {rule.name: lower_bound(work, rule).cost for rule in RULES}
        costs[FOUND] = sample.charge(find_schedule(sample, schedule, same_wait))
    for what, cost in costs.items():
        yield [sample.places, what, *(f"{figure:.3f}" for figure in (charge, cost, wait_h.mean(), by_node_h, days))]


def measure(path: Path = RECORD) -> None:
    """Append the rows of samples that the file does not have: the first sample of each year, then the second."""
    rows = read_rows(path)
    done = {(row[0], row[1]) for row in rows}
    for number in range(max(SAMPLES.values())):
        for year, samples in SAMPLES.items():
            if number < samples and (year, str(number)) not in done:
                sample = draw_sample(year, number)
                own = [[year, str(number), *row] for name in POLICIES for row in measure_policy(sample, name)]
                rows += own
                write_rows(path, ROW, rows)
                print(year, number, *(f"{row[3]} {row[4]};" for row in own), file=sys.stderr, flush=True)


def figures_of(rows: Sequence[Sequence[str]], year: str, what: str, column: str) -> Float64:
    """Return a column of the rows of a policy or a rule, a value for each sample of the year."""
    found = [float(row[ROW.index(column)]) for row in rows if (row[0], row[3]) == (year, what)]
    return np.array(found)


def saved_pct(rows: Sequence[Sequence[str]], year: str, what: str, column: str = "charge") -> Float64:
    """Return what a policy saves of the charge of the reference, or with the column "bound" a bound."""
    return 100 * (1 - figures_of(rows, year, what, column) / figures_of(rows, year, REFERENCE, "charge"))


def share_pct(rows: Sequence[Sequence[str]], year: str, what: str) -> float:
    """Return what a policy saves in per cent of what the bound at its own wait saves, both summed over the samples."""
    reference = figures_of(rows, year, REFERENCE, "charge")
    saved, most = (reference - figures_of(rows, year, what, column) for column in ("charge", "bound"))
    return float(100 * saved.sum() / most.sum())


YEAR_HEADS = (*PRICE_YEARS, f"CO2, {CARBON_YEAR}")
BOUNDS = ("nodes without limit", "place alone", FOUND, "same wait", "same end")
BOUND_HEAD = ("electricity", "samples", *(f"{name}, %" for name in BOUNDS))
WAIT_HEADS = ("wait, prices, h", "by node-hours, prices, h", "by node-hours, CO2, h")
SAVED_HEAD = ("policy", *WAIT_HEADS, *(f"{head}, %" for head in YEAR_HEADS))
SHARE_HEAD = ("policy", *(f"{head}, %" for head in YEAR_HEADS))


def bound_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return what the bounds save by year: the median and the range of the samples."""
    return [
        [head, str(SAMPLES[year]), *(spread(saved_pct(rows, year, name, "bound").tolist()) for name in BOUNDS)]
        for year, head in zip(SAMPLES, YEAR_HEADS, strict=True)
    ]


def saved_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the waits under each policy over all samples of prices, and of CO2, and what it saves by year: means."""

    def wait(name: str, column: str, years: Sequence[str]) -> str:
        return f"{np.concatenate([figures_of(rows, year, name, column) for year in years]).mean():.1f}"

    table = []
    for name in POLICIES:
        waits = [wait(name, "wait_h", PRICE_YEARS), wait(name, "wait_by_node_h", PRICE_YEARS)]
        waits.append(wait(name, "wait_by_node_h", (CARBON_YEAR,)))
        table.append([name, *waits, *(_percent(saved_pct(rows, year, name)) for year in SAMPLES)])
    return table


def _percent(values: Float64) -> str:
    return f"{round(float(values.mean()), 1) + 0.0:.1f}"


def share_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the share of the bound at its own wait that each policy but the reference saves, by year."""
    others = [name for name in POLICIES if name != REFERENCE]
    return [[name, *(str(round(share_pct(rows, year, name))) for year in SAMPLES)] for name in others]


def write_tables(rows: Sequence[Sequence[str]]) -> None:
    """Write the tables of the page."""
    write_rows(TABLES / "place-bound.csv", BOUND_HEAD, bound_table(rows))
    write_rows(TABLES / "place-saved.csv", SAVED_HEAD, saved_table(rows))
    write_rows(TABLES / "place-share.csv", SHARE_HEAD, share_table(rows))


if __name__ == "__main__":
    measure()
    write_tables(read_rows(RECORD))
