"""A grid that a user describes in a file: policies on one log, over years and weeks of prices and classes of nodes.

The file is a settings file with one section more, [grid]. Each replay of each cell is an experiment: all policies on
the same jobs at the same prices, so that they can be compared. `grid.parquet` has a row for each policy in it.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from offpeak.errors import BadInput
from offpeak.files import replacing
from offpeak.model.cluster import Cluster
from offpeak.model.cluster_file import cluster_text
from offpeak.model.jobs import Trace
from offpeak.power.capacity.levers import all_policies
from offpeak.report_tables import Report, StudyTable, TableCell
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.electricity import AlignedSeries, Carbon, ReplayPrices, carbon_of, prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, log_span, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.replications import FIGURES, shifted
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.text import counted
from offpeak_studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of
from offpeak_studies.report import range_of

SECTION = "grid"


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class GridAxes:
    """The section [grid]: a log, and what to vary. `weeks` are those of ISO 8601; prices begin on their Mondays.

    `{year}` in `[prices] file` stands for the year; without it one file has all years.
    """

    log: str
    years: Annotated[tuple[int, ...], Field(min_length=1)]
    weeks: Annotated[tuple[int, ...], Field(min_length=1)]
    node_classes: Annotated[tuple[str | None, ...], Field(min_length=1)] = (None,)


def read_grid(path: Path) -> tuple[GridAxes, Settings]:
    """Return the axes and the settings of the file. Raises BadInput for what it cannot mean."""
    settings = Settings.of(read_values(path, without=SECTION))
    try:
        axes = TypeAdapter(GridAxes).validate_python(tomllib.loads(path.read_text())[SECTION])
        for year in axes.years:
            for week in axes.weeks:
                date.fromisocalendar(year, week, 1)
    except KeyError:
        raise BadInput(f"{path}: has no section [{SECTION}]", hint="it names log, years and weeks") from None
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{path}: [{SECTION}] {where}: {first['msg']}", hint="log, years, weeks, node_classes") from None
    except ValueError as problem:
        raise BadInput(f"{path}: [{SECTION}] weeks: {problem}", hint="weeks count from 1 to 52 or 53") from None
    return axes, settings


@dataclass(frozen=True)
class GridCell:
    """One replay of all policies: prices from a week of a year on, a class of nodes, and the seed (seed, replay)."""

    year: int
    week: int
    node_class: str | None
    seed: int
    replay: int


@dataclass(frozen=True)
class SweepOutcome:
    """The figures of a policy, by the names of PolicyOutcome."""

    policy: str
    figures: Mapping[str, float | None]


@dataclass(frozen=True)
class GridResult:
    """The outcome of each policy, the baseline first."""

    outcomes: tuple[SweepOutcome, ...]


@dataclass(frozen=True)
class GridRun:
    """All that cells are made of, so that they can be replayed without a file of the user's."""

    cases: Mapping[str | None, ReplayCase]
    electricity: Mapping[tuple[int, int], tuple[ReplayPrices, Carbon]]
    disciplines: tuple[Policy, ...]
    settings: Settings

    def __call__(self, cell: GridCell) -> GridResult:
        """Replay a cell, each job submitted 0 to 60 s later, at random."""
        prices, carbon = self.electricity[cell.year, cell.week]
        case = replace(self.cases[cell.node_class], prices=prices, carbon=carbon)
        policies = all_policies(self.disciplines, case, self.settings)
        outcomes = compare(shifted(case, np.random.default_rng([cell.seed, cell.replay])), policies).outcomes
        figures = [{name: getattr(each, name) for name in FIGURES} for each in outcomes]
        return GridResult(tuple(SweepOutcome(each.policy, of) for each, of in zip(outcomes, figures, strict=True)))


@dataclass(frozen=True)
class SweepGrid:
    """A grid with the log that it names, and the cluster of its settings."""

    name: str
    axes: GridAxes
    settings: Settings
    trace: Trace
    cluster: Cluster | None


def sweep(grid: SweepGrid, order: StudyOrder, progress: Progress) -> Report:
    """Replay a grid, keep its rows in `order.out`, and return the report."""
    axes, settings, trace = grid.axes, grid.settings, grid.trace
    replays = Replays(order.replays, order.seed)
    electricity = {}
    for year in axes.years:
        file = settings.prices.file and Path(str(settings.prices.file).replace("{year}", str(year)))
        own = replace(settings, prices=replace(settings.prices, file=file))
        for week in axes.weeks:
            start = date.fromisocalendar(year, week, 1).isoformat()
            prices = prices_of(log_span(trace, trace.jobs), own.prices, start)
            electricity[year, week] = prices, carbon_of(log_span(trace, trace.jobs), own.carbon, prices.aligned)
    # What is laid on the cells takes the place of these prices.
    of_class = {name: replace(own.power, node_class=name or own.power.node_class) for name in axes.node_classes}
    base = {
        name: prepare(trace, replace(own, power=power), start=start, cluster=grid.cluster)
        for name, power in of_class.items()
    }
    disciplines = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    cells = [
        GridCell(year, week, name, seed=order.seed, replay=replay)
        for year in axes.years
        for week in axes.weeks
        for name in axes.node_classes
        for replay in range(order.replays)
    ]
    replayed = {name: _case_digest(each.case) for name, each in base.items()}
    aligned = {at: _electricity_digest(*each) for at, each in electricity.items()}
    described = (repr(settings), cluster_text(grid.cluster, "") if grid.cluster else "")
    keys = {
        cell: result_key(
            "offpeak_studies.grid", cell, replayed[cell.node_class], aligned[cell.year, cell.week], *described
        )
        for cell in cells
    }
    run = GridRun({name: each.case for name, each in base.items()}, electricity, disciplines, settings)
    results = results_of(Runner(run, TypeAdapter(GridResult)), keys, order, progress)
    write_rows(results, order.out / "grid.parquet")
    notes = (
        f"log: {trace.name}, {counted(len(base[axes.node_classes[0]].case.jobs), 'job')}",
        f"{replays.describe()}: {replays.describe_seeds()}; {counted(len(cells), 'replay')} of all policies",
        *dict.fromkeys(note for each in base.values() for note in each.notes),
    )
    return Report(f"{grid.name}: policies over prices and nodes", notes, tuple(grid_tables(results)), {})


def _case_digest(case: ReplayCase) -> str:
    """Return a digest of the jobs, what they draw and request, and the nodes."""
    digest = hashlib.sha256(repr((case.machine, case.nodes, len(case.requests))).encode())
    for column in (*vars(case.jobs).values(), case.node_power_w):
        digest.update(column.tobytes() if isinstance(column, np.ndarray) else repr(column).encode())
    return digest.hexdigest()


def _electricity_digest(prices: ReplayPrices, carbon: Carbon) -> str:
    """Return a digest of both series with their places on the log."""
    digest = hashlib.sha256(repr((prices.weighing, prices.tariff)).encode())
    for aligned in (prices.aligned, carbon):
        if isinstance(aligned, AlignedSeries):
            digest.update(repr((aligned.offset_s, aligned.series.unit)).encode())
            digest.update(aligned.series.start_s.tobytes() + aligned.series.value.tobytes())
        else:
            digest.update(repr(aligned).encode())
    return digest.hexdigest()


def write_rows(results: Mapping[GridCell, GridResult], path: Path) -> None:
    """Write a row for each policy in each replay. Raises CannotWrite."""
    rows: list[dict[str, object]] = [
        {"year": cell.year, "week": cell.week, "node_class": cell.node_class, "replay": cell.replay}
        | {"policy": outcome.policy, **outcome.figures}
        for cell, result in results.items()
        for outcome in result.outcomes
    ]
    types = {"year": pa.int32(), "week": pa.int32(), "replay": pa.int32(), "node_class": pa.string()}
    schema = pa.schema([(name, types.get(name, pa.string() if name == "policy" else pa.float64())) for name in rows[0]])
    with replacing(path) as file:
        parquet.write_table(pa.Table.from_pylist(rows, schema), file)


MEASURES = {"saving [%]": "saving_pct", "cost": "cost", "energy [kWh]": "energy_kwh", "mean wait [s]": "mean_wait_s"}


def grid_tables(results: Mapping[GridCell, GridResult]) -> Iterator[StudyTable]:
    """Yield the comparison of the policies over all of the grid, and that of each week."""
    note = "Savings are against the first policy in the same replay. In brackets the lowest and the highest of"
    by_class: dict[tuple[str, ...], list[SweepOutcome]] = {}
    by_week: dict[tuple[str, ...], list[SweepOutcome]] = {}
    for cell, result in results.items():
        for outcome in result.outcomes:
            name = cell.node_class or "as configured"
            by_class.setdefault((name, outcome.policy), []).append(outcome)
            by_week.setdefault((str(cell.year), str(cell.week), name, outcome.policy), []).append(outcome)
    headers = ("node class", "policy")
    yield StudyTable("policies", "Policies", f"{note} all weeks and replays.", (*headers, *MEASURES), _rows(by_class))
    note = f"{note} all replays."
    yield StudyTable("weeks", "Weeks of prices", note, ("year", "week", *headers, *MEASURES), _rows(by_week))


def _rows(outcomes: Mapping[tuple[str, ...], Sequence[SweepOutcome]]) -> tuple[tuple[TableCell, ...], ...]:
    def cell(each: Sequence[SweepOutcome], name: str) -> TableCell:
        known = [value for outcome in each if (value := outcome.figures[name]) is not None]
        return range_of(known) if known else None

    return tuple((*key, *(cell(each, name) for name in MEASURES.values())) for key, each in outcomes.items())
