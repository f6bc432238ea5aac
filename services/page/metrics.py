"""The metrics for Prometheus, made for each scrape from the snapshot of the agent and from the ledger.

Names and units follow the conventions of Prometheus: base units at the end of the name, counters end in _total.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.energy_use import EnergySums, UsePeriod, energy_use
from offpeak.ledger.node_energy import sum_energy
from offpeak.ledger.prices import slot_intensities
from offpeak.ledger.records import ActionCounts
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.account_of_savings import SavingsAccount, daily_accounts
from offpeak.services.agent.status import ForecastStatus, SchedulerUse, StatusSnapshot, fetch_snapshot
from offpeak.settings.table import Settings

MODES = ("shadow", "advise", "active")
COUNTERS = {
    "offpeak_energy_joules": "Energy of the metered nodes",
    "offpeak_unpriced_energy_joules": "The part of that energy that has no price",
    "offpeak_electricity_cost": "Cost of the other part",
    "offpeak_co2_grams": "CO2 of that energy, where its intensity is known",
    "offpeak_saved_energy_joules": "Energy that each lever saved, or would have in shadow mode",
    "offpeak_saved_cost": "Money that each lever saved, or would have in shadow mode",
    "offpeak_saved_co2_grams": "CO2 that each lever saved, or would have in shadow mode",
}
RECENT_QUARTERS, RECENT_SAVINGS_S = 8, 8 * DAY_S
"""What the ledger may still change: quarter-hours with late readings, and days whose savings are booked again."""
COUNTER_PAUSES = 50
"""The ledger is read again after this many times the time that reading it took."""

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A counter and its labels."""


class Metrics(Collector):
    """Gives the metrics as text, and remembers which jobs it has, so that the agent sends them once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._jobs_unix_s: float | None = None
        self._counts, self._booked = ActionCounts(), BookedCounters()
        self._turn = threading.Lock()

    def text(self) -> tuple[bytes, str]:
        """Return the metrics and their content type. It waits for agent and disk, and never raises."""
        with self._turn:
            return generate_latest(self), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """As a collector of prometheus_client."""
        snapshot = self._fetch()
        yield _gauge("offpeak_agent_up", "Whether the agent answers.", float(snapshot is not None))
        if snapshot is not None:
            yield from make_families(snapshot)
        yield from self._orders()
        if snapshot is not None:
            status = snapshot.published
            now_s = status.at_unix_s if status.now_unix_s is None else status.now_unix_s
            with suppress(OffpeakError):
                self._booked.read(self._settings.ledger.url, now_s)
        yield from self._booked.families()

    def _fetch(self) -> StatusSnapshot | None:
        try:
            snapshot = fetch_snapshot(self._settings.agent.socket, jobs_seen_unix_s=self._jobs_unix_s)
        except OffpeakError:
            return None
        self._jobs_unix_s = snapshot.published.at_unix_s
        return snapshot

    def _orders(self) -> Iterator[Metric]:
        try:
            found = self._counts.read(self._settings.ledger.url)
        except OffpeakError:
            yield _gauge("offpeak_ledger_up", "Whether the ledger can be read.", 0.0)
            return
        yield _gauge("offpeak_ledger_up", "Whether the ledger can be read.", 1.0)
        text = "Orders to nodes and the scheduler by result, since the page started."
        yield _family("offpeak_actions", text, ("order", "result"), sorted(found.items()), kind=CounterMetricFamily)


@dataclass
class BookedCounters:
    """Counts what the ledger has booked since the first read. What it takes back counts apart, so no counter falls.

    A counter that is new begins at 0, because Prometheus ignores the first value of a series.
    """

    counted: dict[Series, tuple[float, float]] = field(default_factory=dict)
    _booked: dict[tuple[float, Series], float] | None = None
    _until_s: float = 0.0
    _next_read_s: float = 0.0

    def read(self, url: str, now_s: float) -> None:
        """Count what has changed, at the agent's time; errors as `open_ledger`. It waits for the disk."""
        began_s = time.monotonic()
        if began_s < self._next_read_s:
            return
        # Rows that were dropped below would count again if the clock of the agent went back.
        self._until_s = max(self._until_s, now_s)
        with open_ledger(url) as connection:
            rows = [*_read_savings(connection, self._until_s), *_read_energy(connection, self._until_s)]
        found = {(at_s, series): value for at_s, series, value in rows if value is not None}
        new = {series for _, series in found} - self.counted.keys()
        self.counted |= dict.fromkeys(new, (0.0, 0.0))
        if self._booked is not None:
            found = {row: value for row, value in found.items() if row[1] not in new}
            for row, value in found.items():
                more, (up, down) = value - self._booked.get(row, 0.0), self.counted[row[1]]
                self.counted[row[1]] = (up + max(more, 0.0), down + max(-more, 0.0))
        kept = (self._booked or {}) | found
        self._booked = {row: kept[row] for row in kept if row[0] >= self._until_s - 2 * RECENT_SAVINGS_S}
        self._next_read_s = time.monotonic() + COUNTER_PAUSES * (time.monotonic() - began_s)

    def families(self) -> Iterator[Metric]:
        """Yield two counters for each quantity: what was booked, and what was taken back."""
        for name, text in COUNTERS.items():
            up = Metric(name, f"{text}, since the page started.", "counter")
            down = Metric(
                f"{name}_reductions", f"What corrections and negative prices took off {name}_total.", "counter"
            )
            for (_, labels), values in sorted(each for each in self.counted.items() if each[0][0] == name):
                for family, value in zip((up, down), values, strict=True):
                    family.add_sample(f"{family.name}_total", dict(labels), value)
            yield from (up, down)


BookedValue = tuple[float, Series, float | None]
"""What the ledger books at a time for a counter."""


def _read_savings(connection: Connection, now_s: float) -> Iterator[BookedValue]:
    for is_shadow in (False, True):
        days = daily_accounts(connection, TimeRange(now_s - RECENT_SAVINGS_S, now_s), is_shadow=is_shadow)
        # Of a day that began before this time the first rows are missing.
        whole = {day_s: days[day_s] for day_s in days if day_s > now_s - RECENT_SAVINGS_S + DAY_S + HOUR_S}
        for day_s, account in whole.items():
            for lever in account.levers:
                labels = (("lever", lever.lever), ("shadow", str(int(is_shadow))))
                yield day_s, ("offpeak_saved_energy_joules", labels), lever.energy_j
                yield day_s, ("offpeak_saved_cost", (*labels, ("currency", account.currency))), lever.cost
                yield day_s, ("offpeak_saved_co2_grams", labels), lever.carbon_g


def _read_energy(connection: Connection, now_s: float) -> Iterator[BookedValue]:
    """Yield the values of the last quarter-hours; without a cost while the ledger's prices are in two currencies."""
    last_s = now_s // QUARTER_S * QUARTER_S
    quarters = [UsePeriod("", last_s - QUARTER_S * at, last_s - QUARTER_S * (at - 1)) for at in range(RECENT_QUARTERS)]
    sums: dict[int, EnergySums] = defaultdict(EnergySums)
    try:
        found, currency = sum_energy(connection, quarters)
    except BadInput:
        found, currency = sum_energy(connection, quarters, read_prices=slot_intensities)
    for (quarter, _), of_node in found.items():
        sums[quarter].add(of_node)
    for quarter, each in sums.items():
        at_s, use = quarters[quarter].from_unix_s, energy_use((), each, currency, QUARTER_S)
        yield at_s, ("offpeak_energy_joules", ()), use.energy_j
        yield at_s, ("offpeak_unpriced_energy_joules", ()), use.unpriced_j
        yield at_s, ("offpeak_electricity_cost", (("currency", currency),)), use.cost
        yield at_s, ("offpeak_co2_grams", ()), use.carbon_g


def make_families(snapshot: StatusSnapshot) -> Iterator[Metric]:
    """Return the metrics of the agent's snapshot."""
    status = snapshot.published
    looked_unix_s = status.at_unix_s if status.has_looked else 0.0
    yield _gauge(
        "offpeak_agent_last_look_timestamp_seconds", "Time of the last round of the queue; 0: never.", looked_unix_s
    )
    yield _gauge("offpeak_agent_cycle_seconds", "Cycle of the agent.", status.cycle_s)
    yield from _use_families(status.scheduler_use)
    yield _gauge("offpeak_agent_troubles", "Number of present problems of the agent.", len(status.problems))
    if status.lease:
        yield _gauge("offpeak_agent_acts", "1 if this agent of a pair holds the lease, else 0.", status.lease.is_active)
        yield _gauge("offpeak_agent_has_peer", "1 if the other agent of a pair was seen.", status.lease.has_peer)
    modes = [((mode,), float(mode == status.mode)) for mode in MODES]
    yield _family("offpeak_agent_mode", "The mode that is 1 is the agent's.", ("mode",), modes)
    jobs, nodes = ([((state,), count) for state, count in each] for each in (snapshot.job_counts, status.nodes.counts))
    yield _family("offpeak_jobs", "Jobs that the scheduler shows, by state.", ("state",), jobs)
    yield _family("offpeak_nodes", "Nodes that may be switched, by state.", ("state",), nodes)
    text = "Power of a node; measured is 0 if it is that of its class."
    watts = [((node.node, str(int(node.measured))), node.watts) for node in snapshot.nodes]
    yield _family("offpeak_node_power_watts", text, ("node", "measured"), watts)
    text = "Time since the order to sleep, of each node that should have gone down since and is still on."
    overdue = [((node.node,), node.overdue_s) for node in snapshot.nodes if node.overdue_s]
    yield _family("offpeak_node_shutdown_overdue_seconds", text, ("node",), overdue)
    price = [((status.price.unit.partition("/")[0],), status.price.now)]
    text = "Present price of a megawatt-hour."
    yield _family("offpeak_electricity_price_per_megawatthour", text, ("currency",), price)
    yield _gauge("offpeak_electricity_on_peak", "Whether electricity is on-peak now.", status.price.on_peak)
    yield from _savings_families(status.saved_today)
    yield from _forecast_families(status.forecasts)
    text = "Readings of meters that cannot be, since the start of the agent; they are not booked."
    yield CounterMetricFamily("offpeak_meter_readings_refused", text, value=status.refused_readings)
    if store := status.remote_write:
        text = "Readings for the remote store since the agent's start: sent, dropped while it was away, or refused."
        counts = [((result,), getattr(store, result)) for result in ("sent", "dropped", "refused")]
        yield _family("offpeak_remote_write_samples", text, ("result",), counts, kind=CounterMetricFamily)
        yield _gauge("offpeak_remote_write_waiting_samples", "Readings that wait for the remote store.", store.waiting)


def _use_families(use: SchedulerUse) -> Iterator[Metric]:
    if use.requests is not None:
        text = "Requests of the agent's user to the scheduler since the start of the agent."
        yield CounterMetricFamily("offpeak_scheduler_requests", text, value=use.requests)
    if use.busy_s is not None:
        text = "Time of the scheduler for these requests; without such a count, the time of the agent's commands."
        yield CounterMetricFamily("offpeak_scheduler_busy_seconds", text, value=use.busy_s)


def _savings_families(saved: SavingsAccount) -> Iterator[Metric]:
    yield _gauge("offpeak_saved_today_joules", "Saved since midnight, compared with all nodes on.", saved.energy_j)
    if saved.cost is None:
        return
    text = "Saved since midnight by all levers, in money."
    yield _family("offpeak_saved_today_cost", text, ("currency",), [((saved.currency,), saved.cost)])
    text = "Saved since midnight by each lever, in money; 19 of 20 cases are between the bounds low and high."
    costs = [
        ((lever.lever, lever.known, saved.currency, bound), value)
        for lever in saved.levers
        for bound, value in (("", lever.cost), ("low", lever.low), ("high", lever.high))
    ]
    yield _family("offpeak_saved_today_cost_by_lever", text, ("lever", "known", "currency", "bound"), costs)


def _forecast_families(forecasts: Sequence[ForecastStatus]) -> Iterator[Metric]:
    scored = [each for each in forecasts if each.mae is not None and each.naive_mae is not None]
    text, labels = "Mean absolute error of recent forecasts, in their unit.", ("about", "unit")
    errors = [((each.about, each.unit), each.mae) for each in scored]
    yield _family("offpeak_forecast_mean_absolute_error", text, labels, errors)
    text = "Mean absolute error that the naive forecasts of the same outcomes would have had."
    errors = [((each.about, each.unit), each.naive_mae) for each in scored]
    yield _family("offpeak_forecast_naive_mean_absolute_error", text, labels, errors)
    used = [((each.about, each.used), 1.0) for each in forecasts]
    yield _family("offpeak_forecast_predictor", "The predictor in use, always 1.", ("about", "predictor"), used)
    outcomes = [((each.about,), each.outcomes) for each in forecasts]
    text = "Number of the latest outcomes that the errors are of."
    yield _family("offpeak_forecast_outcomes", text, ("about",), outcomes)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    return _family(name, text, (), [((), value)])


def _family(
    name: str,
    text: str,
    labels: tuple[str, ...],
    samples: Iterable[tuple[tuple[str, ...], float | None]],
    *,
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Return the samples that are known, by the values of their labels."""
    family = kind(name, text, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family
