"""What a site of 2026 can expect: `python -m benchmarks.modern_sites [TABLE ...]` writes docs/figures/site-2026/*.csv.

The load is that of two logs, UniLu Gaia (three months) and Theta (a year). Nodes are of the bundled class `server`, off
with the measured power of nodes in shared enclosures. Each replay shifts submissions by up to a minute and lays the log
on another week of German prices of 2023 and 2024; carbon intensities are those of the same season of 2025 and 2026. The
two days of Marconi100 have no start times: they carry only what depends on single jobs, caps of GPUs.
"""

import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks import peak_shaving
from benchmarks.logs import SHARED, trace_file
from benchmarks.off_nodes import read_days
from benchmarks.savings import mondays
from offpeak.model.arrays import Float64
from offpeak.model.constants import HOUR_S, YEAR_S
from offpeak.model.node_cap import CappableNode, best_priced_cap, cap_curve_named
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_series import Series
from offpeak.plugin.capacity.peak_shaving import PeakTarget
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import CarbonSettings, PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import PreparedCase, ReplayCase, fleet_of, prepare
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import alignment_interval_of, replay_each, shifted
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

MODERN = SHARED / "modern"
FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures" / "site-2026"
SITES = {"Gaia": MODERN / "gaia" / "UniLu-Gaia-2014-2.swf.gz", "Theta": trace_file("theta_2022")}
SEED, REPLAYS = 1, 20
SLEEP = "timeout:10min"
FROM, UNTIL = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2023, 2025))
"""The prices of these years: 2021 and 2022 were exceptional, and later ones are not there."""
COUNTRIES = {"CH": "CH", "DE": "DE-LU", "FR": "FR", "IT": "", "PL": "", "SE": ""}
"""Countries with a carbon intensity, and the market of their prices, "" where the data has none."""
FIXED_W = (300.0, 500.0)
"""What a node with four GPUs draws without them: assumed, because neither log nor sweep has it."""
FULL_GPU_W, GPUS = 207.0, 4
"""The mean draw of a V100 without a cap over the workloads of the sweep."""

LEAST_NODES = 6
"""An enclosure with fewer nodes that report holds others that do not."""

Rows = list[list[str]]


def text(values: Sequence[float] | Float64, places: int = 0) -> str:
    """Return the median of weeks and replays, and the range that holds a further one 19 times of 20."""
    found = alignment_interval_of(np.array(values))
    median, low, high = (f"{round(each, places) + 0.0:,.{places}f}" for each in (found.median, found.low, found.high))
    return f"{median} ({low} to {high})"


def spread(values: Sequence[float] | Float64, places: int = 0) -> str:
    """Return the median of measured values, and the range of 19 in 20 of them."""
    low, median, high = np.percentile(np.array(values), [2.5, 50, 97.5])
    return f"{median:,.{places}f} ({low:,.{places}f} to {high:,.{places}f})"


# Shared enclosures


class EnclosureDraw(NamedTuple):
    """The mean draw of an enclosure [W], all of whose nodes are off, by the chassis and by the sum of its nodes."""

    nodes: int
    chassis_w: float
    own_w: float


@cache
def enclosures() -> tuple[EnclosureDraw, ...]:
    """Return the enclosures of which every reporting node was off; a chassis is counted once."""
    file = MODERN / "idle_nodes" / "harvard_powered_down_2025-06-03.parquet"
    # Off nodes draw tens of watts: spikes of sensors are far above, and a median ignores them.
    own_w, chassis_w = (
        {day.node: (float(np.median(day.power_w)), float(day.power_w[day.power_w < 1000].mean())) for day in days}
        for days in (read_days(file, "node"), read_days(file, "enclosure"))
    )
    members: dict[str, list[str]] = {}
    for node in sorted(own_w.keys() & chassis_w.keys()):
        members.setdefault(node[:-2], []).append(node)
    return tuple(
        EnclosureDraw(
            len(nodes), float(np.mean([chassis_w[node][1] for node in nodes])), sum(own_w[node][0] for node in nodes)
        )
        for nodes in members.values()
        if len(nodes) >= LEAST_NODES
    )


def off_w() -> float:
    """Return the draw of a node that is off, with its share of the enclosure [W]."""
    found = enclosures()
    return sum(each.chassis_w for each in found) / sum(each.nodes for each in found)


def off_table() -> Rows:
    """What nodes that are off draw, and the share of an idle node's power that sleeping saves."""
    found = enclosures()
    idle_w = bundled_node_class("server").idle_w
    figures = {
        "nodes of an enclosure that report": [float(each.nodes) for each in found],
        "enclosure with all nodes off [W]": [each.chassis_w for each in found],
        "the same by the sensors of its nodes [W]": [each.own_w for each in found],
        "a node that is off, with its share of the enclosure [W]": [each.chassis_w / each.nodes for each in found],
        "a node that is off, by its own sensor [W]": [each.own_w / each.nodes for each in found],
        f"saved of {idle_w:g} W idle, by the enclosure [%]": [
            100 * (1 - each.chassis_w / each.nodes / idle_w) for each in found
        ],
    }
    rows = [[name, spread(values, 1), f"{np.mean(values):,.1f}"] for name, values in figures.items()]
    return [[f"{len(found)} enclosures", "median (19 of 20)", "mean"], *rows]


# Replays


def node_class(idle_w: float | None = None, asleep_w: float | None = None) -> NodeClass:
    """Return the class of the nodes: `server` without standby, off with the measured power unless given."""
    server = bundled_node_class("server")
    off = replace(server.depths[-1], power_w=off_w() if asleep_w is None else asleep_w)
    idle_w = server.idle_w if idle_w is None else idle_w
    running = ((0.0, idle_w), *server.running[1:])
    return replace(server, idle_w=idle_w, running=running, depths=(off,))


@dataclass(frozen=True)
class Folder:
    """Where the prices of the years and the carbon intensities lie as files that settings name."""

    path: Path

    def prices(self, market: str) -> Path:
        """Return the file of a market's prices in the years."""
        file = self.path / f"{market}_eur_per_mwh.csv"
        if not file.exists():
            source = SHARED / "prices" / f"price_{market}_2020-2024_eur_per_mwh.csv.gz"
            _write(file, "price", _between(read_series(source, parse_layout(""))))
        return file

    def carbon(self, country: str) -> Path:
        """Return the file of a country's carbon intensity."""
        file = self.path / f"{country}_g_per_kwh.csv"
        if not file.exists():
            _write(file, "carbon", carbon_series(country))
        return file


def _write(file: Path, name: str, series: Series) -> None:
    times = (datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%MZ") for at_s in series.start_s)
    pairs = zip(times, series.value, strict=True)
    lines = "".join(f"{at},{'' if np.isnan(value) else value}\n" for at, value in pairs)
    file.write_text(f"utc,{name}\n{lines}")


def _between(series: Series) -> Series:
    inside = (series.start_s >= FROM) & (series.start_s < UNTIL)
    value = np.where(series.known, series.value, np.nan)[inside]
    return Series(series.start_s[inside], UNTIL, value, series.unit, series.source)


def carbon_series(country: str) -> Series:
    """Return a country's hourly carbon intensity, 2025 to spring 2026."""
    table = pq.read_table(MODERN / "carbon_2025" / f"{country}_hourly.parquet")
    start_s = table["timestamp"].to_numpy().astype("datetime64[s]").astype(np.int64)
    value = table["carbon_intensity_gCO2eq_per_kWh"].to_numpy().astype(float)
    return Series(start_s, int(start_s[-1]) + HOUR_S, value, "g/kWh", country)


@cache
def prepared(site: str, country: str = "DE") -> PreparedCase:
    """Return the case of a site in a country; where its prices are not known, German ones stand in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        settings = Settings(
            prices=PriceSettings(file=folder.prices(COUNTRIES[country] or COUNTRIES["DE"])),
            carbon=CarbonSettings(source=str(folder.carbon(country))),
            power=PowerSettings(node_class="server", seed=SEED),
        )
        found = prepare(read_swf(SITES[site], lenient=True), settings, start=None)
    return replace(found, case=on_class(found.case, node_class()))


def on_class(case: ReplayCase, nodes: NodeClass) -> ReplayCase:
    """Return the case with nodes of a class."""
    assert case.nodes is not None
    machine = PoweredMachine(case.machine.size, case.nodes.units_per_node, nodes, SEED)
    return replace(case, nodes=machine, machine=replace(case.machine, idle_w=nodes.idle_w / machine.units_per_node))


PoliciesOf = Callable[[ReplayCase], tuple[Policy, Policy]]


def easy() -> Policy:
    """Return the baseline."""
    return parse_policy("easy", SchedulingSettings())


def asleep(case: ReplayCase) -> Policy:
    """Return the baseline on nodes that sleep."""
    return easy().on(make_capacity_policy(SLEEP, fleet_of(case), CapacitySettings()))


def sleeping(case: ReplayCase) -> tuple[Policy, Policy]:
    """Return nodes that are always on, and nodes that sleep."""
    return easy(), asleep(case)


def ordered(_case: ReplayCase) -> tuple[Policy, Policy]:
    """Return the baseline and the greedy order."""
    return easy(), parse_policy("greedy", SchedulingSettings())


Pairs = list[tuple[PolicyOutcome, ...]]


@cache
def replayed(site: str, policies: PoliciesOf, country: str = "DE") -> Pairs:
    """Return the outcomes of both policies in each replay."""
    found = prepared(site, country)
    draw_w = found.power.draw_w if found.power.is_drawn else None
    return replay_each(
        found.case, policies(found.case), range(REPLAYS), seed=SEED, draw_power=draw_w, policies_at=policies
    )


def years(site: str) -> float:
    """Return the length of a log in years."""
    jobs = prepared(site).case.jobs
    return float(jobs.submit_s[-1] - jobs.submit_s[0]) / YEAR_S


def site_row(site: str) -> list[str]:
    """Return what the log of a site is, and what idle nodes use where none sleeps."""
    pairs, case = replayed(site, sleeping), prepared(site).case
    assert case.nodes is not None
    first = [pair[0] for pair in pairs]
    return [
        site,
        f"{len(case.jobs):,}",
        f"{case.nodes.nodes:,}",
        f"{365.25 * years(site):.0f}",
        text([100 * each.utilization for each in first], 1),
        text([100 * each.idle_energy_kwh / each.energy_kwh for each in first], 1),
        text([each.energy_kwh / 1000 / years(site) for each in first]),
        text([each.cost / 1000 / years(site) for each in first]),
        text([(each.co2_kg or 0.0) / 1000 / years(site) for each in first]),
    ]


def site_table() -> Rows:
    """What the logs are, and what idle nodes use where none sleeps."""
    heads = ["site", "jobs", "nodes", "days", "load [%]", "idle nodes use [% of energy]"]
    return [[*heads, "MWh a year", "thousand EUR a year", "t CO2 a year"], *map(site_row, SITES)]


def lever_row(site: str, name: str, pairs: Pairs) -> list[str]:
    """Return what a lever saves a year, and what jobs wait for it."""
    span = years(site)
    saved = [
        [(first.energy_kwh - other.energy_kwh) / 1000 / span for first, other in pairs],
        [(first.cost - other.cost) / 1000 / span for first, other in pairs],
        [100 * (first.cost - other.cost) / first.cost for first, other in pairs],
        [((first.co2_kg or 0.0) - (other.co2_kg or 0.0)) / 1000 / span for first, other in pairs],
        [(other.mean_wait_s - first.mean_wait_s) / 60 for first, other in pairs],
    ]
    cycles = [other.cycles_per_node_day or 0.0 for _, other in pairs]
    return [site, name, *(text(each, 1) for each in saved), text(cycles, 2) if any(cycles) else "-"]


def levers_table() -> Rows:
    """What order and sleep save."""
    rows = [
        lever_row(site, name, replayed(site, policies))
        for site in SITES
        for name, policies in {f"sleep, {SLEEP}": sleeping, "order, greedy": ordered}.items()
    ]
    heads = ["MWh a year", "thousand EUR a year", "% of the bill", "t CO2 a year", "mean wait [min]"]
    return [["site", "lever", *heads, "cycles a node and day"], *rows]


def watts_cell(site: str, idle_w: float, asleep_w: float) -> str:
    """Return what sleep saves by the watts of idle and off nodes: the mean of three replays."""
    case = on_class(prepared(site).case, node_class(idle_w, asleep_w))
    pairs = replay_each(case, sleeping(case), range(3), seed=SEED, policies_at=sleeping)
    return f"{np.mean([100 * (1 - other.energy_kwh / first.energy_kwh) for first, other in pairs]):.1f}"


def watts_table() -> Rows:
    """What sleep saves by the watts of idle and off nodes."""
    rows = [
        [f"{idle_w:g}", f"{asleep_w:.1f}", *(watts_cell(site, idle_w, asleep_w) for site in SITES)]
        for idle_w in (150.0, 200.0, 250.0)
        for asleep_w in (15.0, off_w())
    ]
    return [["idle [W]", "off [W]", *(f"{site}: saved [% of energy]" for site in SITES)], *rows]


# Demand charge


TARGETS = ((0.9, 12), (0.8, 48), (0.7, 48))
"""Peak shaving: the highest quarter-hour as a share of that without, and how long jobs may wait for it [h]."""
DEMAND_REPLAYS = 5


@cache
def charged(site: str, number: int) -> ReplayCase:
    """Return the case of a site from January on under the yearly demand charge, each job up to a minute later."""
    flat = Settings(
        prices=PriceSettings(tariff="on=100EUR/MWh,off=100EUR/MWh"), power=PowerSettings(node_class="server", seed=SEED)
    )
    case = prepare(read_swf(SITES[site], lenient=True), flat, start=peak_shaving.START).case
    case = replace(case, prices=replace(case.prices, tariff=peak_shaving.TARIFF))
    return shifted(on_class(case, node_class()), np.random.default_rng([SEED, number]))


def demand_rows(site: str) -> Rows:
    """Return what sleep changes of the charge of nodes that are always on, and peak shaving of that of sleepers."""
    cases = [charged(site, number) for number in range(DEMAND_REPLAYS)]
    awake = [peak_shaving.replayed(case, None, sleep=None) for case in cases]
    usual = [peak_shaving.replayed(case) for case in cases]
    least = [100 * (peak_shaving.bound(case) / one.charge - 1) for case, one in zip(cases, usual, strict=True)]
    rows = [_changes(site, f"sleep, {SLEEP}", awake, usual, "-")]
    for share, hours in TARGETS:
        shaved = [
            peak_shaving.replayed(case, PeakTarget(share * one.highest_w, hours * 3600))
            for case, one in zip(cases, usual, strict=True)
        ]
        lever = f"peak shaving to {share:.0%}, waits of at most {hours} h"
        rows.append(_changes(site, lever, usual, shaved, text(least, 1)))
    return rows


def _changes(
    site: str, lever: str, before: list[peak_shaving.ReplayedYear], after: list[peak_shaving.ReplayedYear], least: str
) -> list[str]:
    pairs = list(zip(before, after, strict=True))
    charge = [100 * (other.charge / one.charge - 1) for one, other in pairs]
    wait_min = [(other.mean_wait_s - one.mean_wait_s) / 60 for one, other in pairs]
    return [site, lever, text(charge, 1), least, text(wait_min, 1)]


def demand_table() -> Rows:
    """What levers change of a yearly demand charge."""
    heads = ["demand charge [%]", "no schedule is below [%]", "mean wait [min]"]
    return [["site", "lever", *heads], *(row for site in SITES for row in demand_rows(site))]


# Carbon and place


def carbon_row(country: str) -> list[str]:
    """Return the carbon intensity of a country in 2025, and its prices in 2024."""
    carbon = carbon_series(country)
    of_2025 = carbon.value[carbon.start_s < datetime(2026, 1, 1, tzinfo=UTC).timestamp()]
    of_2025 = of_2025[np.isfinite(of_2025)]
    days = of_2025[: len(of_2025) // 24 * 24].reshape(-1, 24)
    within = 100 * (1 - days.min(axis=1) / days.mean(axis=1))
    row = [country, spread(of_2025), f"{of_2025.mean():,.0f}", spread(within)]
    if not (market := COUNTRIES[country]):
        return [*row, "not known"]
    source = SHARED / "prices" / f"price_{market}_2020-2024_eur_per_mwh.csv.gz"
    prices = _between(read_series(source, parse_layout("")))
    of_2024 = prices.value[prices.start_s >= datetime(2024, 1, 1, tzinfo=UTC).timestamp()]
    return [*row, f"{np.nanmean(of_2024):,.1f}"]


def carbon_table() -> Rows:
    """What a kWh emits by country, hour and day."""
    heads = ["g/kWh, hours of 2025 (19 of 20)", "mean", "cleanest hour below the mean of its day [%] (19 of 20)"]
    return [["country", *heads, "mean price of 2024 [EUR/MWh]"], *(carbon_row(country) for country in COUNTRIES)]


def place_row(country: str) -> list[str]:
    """Return what Gaia's load would emit in a country, and what sleep saves there."""
    pairs, span = replayed("Gaia", sleeping, country), years("Gaia")
    used = [(first.co2_kg or 0.0) / 1000 / span for first, _ in pairs]
    saved = [((first.co2_kg or 0.0) - (other.co2_kg or 0.0)) / 1000 / span for first, other in pairs]
    money = [(first.cost - other.cost) / 1000 / span for first, other in pairs]
    return [country, text(used, 1), text(saved, 1), text(money, 1) if COUNTRIES[country] else "not known"]


def place_table() -> Rows:
    """What Gaia's load would emit in each country, and what sleep saves there."""
    heads = ["t CO2 a year, always on", "sleep saves [t CO2 a year]", "sleep saves [thousand EUR a year]"]
    return [["country", *heads], *map(place_row, COUNTRIES)]


# Caps of GPUs


def caps_table() -> Rows:
    """Speed against watts of a V100, from the sweep."""
    with (MODERN / "gpu_caps" / "v100_cap_clock_sweep.csv").open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    points = {"300 W": ("300", "1380"), "200 W": ("200", "1380"), "150 W": ("150", "1380")}
    points |= {"945 MHz": ("250", "945"), "405 MHz": ("250", "405")}
    found = {(run["workload"], run["pcap_w"], run["sm_target_mhz"]): run for run in runs}
    names = sorted({run["workload"] for run in runs})
    rows = []
    for label, point in points.items():
        power_w, speed, fixed = [], [], []
        for name in names:
            run, full = found[name, *point], found[name, *points["300 W"]]
            power_w.append(float(run["power_mean_w"]))
            speed.append(float(run["iters_per_s"]) / float(full["iters_per_s"]))
            fixed.append([work_energy(run, full, fixed_w) for fixed_w in (0.0, *FIXED_W)])
        cells = (_low_high(power_w), _low_high([100 * each for each in speed]))
        rows.append(
            [label, *cells, *(_low_high([100 * each for each in column]) for column in zip(*fixed, strict=True))]
        )
    heads = ["draw of the GPU [W]", "speed [%]", "energy for the same work [%]: GPU alone"]
    return [["limit", *heads, *(f"node with 4 GPUs and {watts:g} W beside" for watts in FIXED_W)], *rows]


def work_energy(run: dict[str, str], full: dict[str, str], fixed_w: float) -> float:
    """Return the energy for the same work as a share of that without a limit; the rest of the node draws `fixed_w`."""
    node_w, full_w = (GPUS * float(each["power_mean_w"]) + fixed_w for each in (run, full))
    return node_w / full_w * float(full["iters_per_s"]) / float(run["iters_per_s"])


def _low_high(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


@dataclass(frozen=True)
class GpuLoad:
    """The node-hours of jobs with GPUs in each hour from the first submission, and those of jobs without."""

    node_h: Float64
    other_node_h: float
    jobs: int
    gpu_jobs: int


@cache
def marconi() -> GpuLoad:
    """Return the two days of Marconi100 as if each job began when it was submitted: its start is not in the data."""
    table = pq.read_table(MODERN / "m100" / "m100_real_jobs.parquet")
    columns = ("run_time", "num_nodes_alloc", "num_gpus_alloc")
    run_s, nodes, gpus = (table[name].to_numpy().astype(float) for name in columns)
    submit_s = table["submit_time"].cast("int64").to_numpy() / 1000
    begin_s = submit_s - submit_s.min() // HOUR_S * HOUR_S
    edges_s = HOUR_S * np.arange(int((begin_s + run_s).max() // HOUR_S) + 2)
    inside_s = np.clip((begin_s + run_s)[:, None], edges_s[:-1], edges_s[1:])
    inside_s = inside_s - np.clip(begin_s[:, None], edges_s[:-1], edges_s[1:])
    has = gpus > 0
    node_h = (inside_s * nodes[:, None] / HOUR_S)[has].sum(axis=0)
    return GpuLoad(node_h, float((run_s * nodes)[~has].sum() / HOUR_S), len(run_s), int(has.sum()))


def marconi_starts(prices: Series) -> Iterator[int]:
    """Yield the Mondays on which the two days are laid [Unix s]."""
    length_s = len(marconi().node_h) * HOUR_S
    for monday in mondays(prices, length_s, 100):
        yield int(datetime(monday.year, monday.month, monday.day, tzinfo=UTC).timestamp())


def cap_row(fixed_w: float, rest_w: float, after: str) -> list[str]:
    """Return what capping brings per 1,000 node-hours with GPUs, by the rule of `offpeak cap` and `estimate`.

    The node draws `rest_w` in the time that the cap makes the work last longer, were there no cap.
    """
    source = SHARED / "prices" / "price_DE-LU_2020-2024_eur_per_mwh.csv.gz"
    prices, load = _between(read_series(source, parse_layout(""))), marconi()
    node = CappableNode("", fixed_w + GPUS * FULL_GPU_W, GPUS * FULL_GPU_W, cap_curve_named("v100"))
    per = 1000 / float(load.node_h.sum())
    money, saved_kwh, longer, worth = [], [], [], 0
    for start_s in marconi_starts(prices):
        first = int(np.searchsorted(prices.start_s, start_s))
        price = prices.value[first : first + len(load.node_h)]
        known = np.isfinite(price)
        device_kwh = load.node_h[known] * GPUS * FULL_GPU_W / 1000
        cap = best_priced_cap(node, price[known], device_kwh, rest_w=rest_w)
        if cap is None:
            continue
        worth += cap.money[0] > 0
        money.append(per * sum(cap.money) / 2)
        saved_kwh.append(per * sum(cap.saved_kwh) / 2)
        longer.append(100 * cap.longer)
    shares = f"{100 * worth / len(money):.0f}"
    return [after, text(saved_kwh, 1), text(money, 2), text(longer, 1), shares]


def gpu_table() -> Rows:
    """What caps in expensive hours bring on Marconi100's jobs, laid on Mondays of 2023 and 2024."""
    heads = ["kWh saved per 1,000 node-hours", "EUR saved", "runs longer by [%]", "weeks in which it pays [%]"]
    idle = cap_row(FIXED_W[0], FIXED_W[0], "stays on, idle")
    off = [cap_row(fixed_w, off_w(), f"is off; {fixed_w:g} W beside its GPUs") for fixed_w in FIXED_W]
    return [["node after the work", *heads], idle, *off]


def marconi_table() -> Rows:
    """What two days of Marconi100 are."""
    load = marconi()
    share = 100 * load.other_node_h / (load.other_node_h + float(load.node_h.sum()))
    return [
        ["jobs", "with GPUs", "node-hours", "of jobs without a GPU [%]"],
        [
            f"{load.jobs:,}",
            f"{load.gpu_jobs:,}",
            f"{load.other_node_h + float(load.node_h.sum()):,.0f}",
            f"{share:.0f}",
        ],
    ]


TABLES: dict[str, Callable[[], Rows]] = {
    "off": off_table,
    "caps": caps_table,
    "carbon": carbon_table,
    "marconi": marconi_table,
    "gpu-jobs": gpu_table,
    "sites": site_table,
    "levers": levers_table,
    "watts": watts_table,
    "demand": demand_table,
    "place": place_table,
}


def main() -> None:
    """Write the tables."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or TABLES:
        rows = TABLES[name]()
        with (FIGURES / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        print(name, *map(" | ".join, rows), sep="\n", flush=True)


if __name__ == "__main__":
    main()
