"""Scores of price forecasts, divided into tasks of one predictor on one file, and their tables.

Price files are dated ones, ones with published forecasts, or ones with prices alone. The first two may have inputs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from math import isnan, nan
from pathlib import Path
from time import process_time

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.zones import parse_zone, zone_text
from offpeak.predictors.feeds.markets import MARKETS, Market
from offpeak.predictors.port import Prediction, certain
from offpeak.predictors.prices.history import PriceHistory, PriceSteps, price_history
from offpeak.predictors.prices.models import LAST_WEEK, MEMBERS, SARIMA, SARIMA_LONG, SINGLE, Member
from offpeak.predictors.prices.predictor import PricePredictor
from offpeak.predictors.scores import PriceExam, Score, compute_score, price_exam, take_exam
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout, unit_of
from offpeak.prices.table import Table, first_numeric, read_table
from offpeak.report_tables import StudyTable, TableCell

LOCAL_TIME = "local_time"
INPUT = "input_"
"""The beginning of the names of columns that are known before their day begins, such as the load that is forecast."""
# The code of ISO 4217 for "no currency": scores do not depend on it.
NO_CURRENCY = "XXX/MWh"
# Nord Pool's system price, which is no market price but used in benchmarks of forecasts.
SYSTEM_PRICE = Market("NP", "NO", clock="Europe/Oslo")
BY_NAME = {name: market for market in (*MARKETS, SYSTEM_PRICE) for name in (market.zone, market.maps)}


@dataclass(frozen=True, eq=False)
class PriceFile:
    """The prices of a file, and what forecasts need besides.

    `published` are forecasts of others by name, float64 of as many steps as `history`. `zone`, `holidays` and the names
    of `inputs` are arguments of PricePredictor; `clock` describes their origin. `unit` is "" if unknown.
    """

    name: str
    unit: str
    history: PriceHistory
    published: tuple[tuple[str, Float64], ...]
    zone: tzinfo
    holidays: str | None
    clock: str
    inputs: tuple[tuple[str, PriceHistory], ...] = ()


def read_price_file(path: Path, *, start: str | None = None) -> PriceFile:
    """Return the file of one of three kinds. Raises BadPrices or BadInput for what cannot be read.

    * With a column `local_time`: 24 rows per day of a clock without changes. The first column of numbers is the price,
    further ones are published forecasts of it. * With one column: hourly prices from midnight of the day `start`
    ("2014-06-01") on, or from that of an unknown day. * Else with times in UTC or with an offset: days are those of the
    market in the file's name, else of UTC. Columns `input_...` are inputs.
    """
    table = read_table(path, with_empty_lines=False)
    if LOCAL_TIME in table.columns:
        market = market_in(path.name)
        inputs = _inputs(table)
        price = first_numeric(table, besides=(LOCAL_TIME, *inputs))
        others = [name for name in table.columns if name not in (LOCAL_TIME, price, *inputs)]
        layout = PriceFileLayout(LOCAL_TIME, unit=_unit(path) or NO_CURRENCY, zone=UTC)
        history, *published = (_column(path, replace(layout, value=name)) for name in (price, *others))
        forecasts = tuple((f"published {name}", series.price) for name, series in zip(others, published, strict=True))
        holidays = country_of(market)
        return PriceFile(
            name=str(path),
            unit=_unit(path),
            history=history,
            published=forecasts,
            zone=UTC,
            holidays=holidays,
            clock=f"local, without changes{_of(holidays)}",
            inputs=_input_values(path, inputs, layout),
        )
    return _undated(path, start) if len(table.columns) == 1 else _dated(path, table)


def _inputs(table: Table) -> tuple[str, ...]:
    return tuple(name for name in table.columns if name.startswith(INPUT))


def _input_values(path: Path, names: Sequence[str], layout: PriceFileLayout) -> tuple[tuple[str, PriceHistory], ...]:
    return tuple((name, _column(path, replace(layout, value=name, unit=NO_CURRENCY))) for name in names)


def _column(path: Path, layout: PriceFileLayout) -> PriceHistory:
    return price_history(read_series(path, layout))


def _undated(path: Path, start: str | None) -> PriceFile:
    unit = _unit(path)
    layout = PriceFileLayout(unit=unit or NO_CURRENCY, start_s=_midnight_s(start) if start else 0, step_s=HOUR_S)
    history = _column(path, layout)
    holidays = None if start is None else country_of(market_in(path.name))
    clock = "no dates: weekdays and public holidays are not known"
    if holidays is not None:
        clock = f"local, without changes, from {start} as given{_of(holidays)}"
    return PriceFile(name=str(path), unit=unit, history=history, published=(), zone=UTC, holidays=holidays, clock=clock)


def _dated(path: Path, table: Table) -> PriceFile:
    market = market_in(path.name)
    zone = parse_zone(market.clock) if market else UTC
    inputs, time = _inputs(table), next(iter(table.columns))
    price = first_numeric(table, besides=(time, *inputs)) if inputs else None
    layout = PriceFileLayout(value=price, unit=_unit(path) or NO_CURRENCY)
    holidays = country_of(market)
    return PriceFile(
        name=str(path),
        unit=_unit(path),
        history=_column(path, layout),
        published=(),
        zone=zone,
        holidays=holidays,
        clock=f"{zone_text(zone)}{_of(holidays)}",
        inputs=_input_values(path, inputs, layout),
    )


def market_in(file_name: str) -> Market | None:
    """Return the market that a part of the name names: "DE-LU" of "price_DE-LU_2024_eur_per_mwh.csv.gz"."""
    return next((BY_NAME[part] for part in re.split(r"[_.]", file_name) if part in BY_NAME), None)


def country_of(market: Market | None) -> str:
    """Return the country whose public holidays the market has, "" without a market."""
    return market.maps.partition("-")[0] if market else ""


def _of(holidays: str) -> str:
    return f", public holidays of {holidays}" if holidays else ", no public holidays"


def _unit(path: Path) -> str:
    try:
        return unit_of(PriceFileLayout(), path.name)[0]
    except BadPrices:
        return ""


def _midnight_s(start: str) -> int:
    try:
        day = date.fromisoformat(start)
    except ValueError:
        raise BadInput(f"cannot read the date {start!r}", hint="write it like 2014-06-01") from None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


ENSEMBLE = "ensemble"
DAYS_AHEAD: Mapping[str, int] = {f"{ENSEMBLE}, {days} days ahead": days for days in (3, 5, 7)}
"""The scores of forecasts that are made so many days before the day ends, without inputs: these are not known then."""
OURS: Mapping[str, tuple[Member, ...]] = {predictor.name: (predictor,) for predictor in SINGLE} | dict.fromkeys(
    (ENSEMBLE, *DAYS_AHEAD), MEMBERS
)
"""The predictors that every file is scored with, by the names in the tables."""
ENSEMBLE_WITH_INPUTS = f"{ENSEMBLE} with inputs"
ALL = "all"
SECONDS_A_DAY, SLOW_SECONDS_A_DAY = 0.03, {SARIMA.name: 0.5, SARIMA_LONG.name: 1.0}
"""The processor time that a scored day takes, roughly: the time left follows from it."""
# Of two years and more the last year at least is scored, and two years at most are only learned; of less the first week
# is.
LONG_DAYS, SCORED_OF_LONG, LEARNED_OF_LONG, LEARNED_OF_SHORT = 728, 364, 728, 7
# The lowest share inside the interval is that of so many consecutive days.
MONTH_DAYS = 30


@dataclass(frozen=True, eq=False)
class PriceTask:
    """The task to score a predictor, of OURS or published in the file; if `refused` has a reason there is no score."""

    file: PriceFile
    predictor: str
    refused: str = ""

    @property
    def expected_s(self) -> float:
        """The processor time that the task takes, roughly."""
        scored_days = len(self.file.history) * self.file.history.step_s / DAY_S - learned_days(self.file)
        return SLOW_SECONDS_A_DAY.get(self.predictor, SECONDS_A_DAY) * max(0.0, scored_days)

    @property
    def text(self) -> str:
        """The task in words."""
        return f"{self.file.name.rpartition('/')[2]}, {self.predictor}"


@dataclass(frozen=True)
class PriceResult:
    """The result of a task; without a `score`, `refused` has the reason; `cpu_s` is None if nothing was computed.

    `unit` and `clock` are those of the file; its first `learned_days` are not scored. `worst_month` is the lowest share
    of prices inside the 80 % interval of any 30 consecutive days of which half is known, NaN of fewer.
    """

    file: str
    unit: str
    clock: str
    learned_days: int
    predictor: str
    score: Score | None = None
    worst_month: float = nan
    days: float = 0.0
    cpu_s: float | None = None
    refused: str = ""

    @property
    def text(self) -> str:
        """The first figure of the result, in words."""
        error = self.refused if self.score is None else f"MAE {self.score.mae:.2f}"
        return f"{self.file}, {self.predictor}: {error}"


def price_tasks(path: Path, start: str | None = None) -> tuple[PriceTask, ...]:
    """Return the tasks of a price file; `start` and errors are as in `read_price_file`."""
    file = read_price_file(path, start=start)
    refused = _refused(file)
    if refused:
        return (PriceTask(file, ALL, refused),)
    names = (*OURS, *([ENSEMBLE_WITH_INPUTS] if file.inputs else []), *(name for name, _ in file.published))
    return tuple(PriceTask(file, name) for name in names)


def _refused(file: PriceFile) -> str:
    price = file.history.price
    if np.nanmin(price) == np.nanmax(price):
        return "its price never changes: there is nothing to forecast"
    if len(_exam(file).questions) == 0:
        return f"it is too short: the first {LEARNED_OF_SHORT} days are only learned"
    return ""


def run_price_task(task: PriceTask, progress: Callable[[float], None] = lambda _: None) -> PriceResult:
    """Return the score of the task's predictor, or the reason why it has none, such as a missing package."""
    file = task.file
    result = PriceResult(file.name, file.unit, file.clock, learned_days(file), task.predictor, refused=task.refused)
    if task.refused:
        return result
    exam = _exam(file, DAYS_AHEAD.get(task.predictor, 1))
    began_s = process_time()
    try:
        given = _given(task, exam, progress)
    except BadInput as problem:
        return replace(result, refused=f"{problem}; {problem.hint}")
    cpu_s = None if task.predictor in dict(file.published) else process_time() - began_s
    score, days = _score(file, exam, given), exam.questions.step_s / DAY_S
    inside = (exam.actual >= given.quantiles[:, 0]) & (exam.actual <= given.quantiles[:, -1])
    # Days of 23 and of 25 hours count as well.
    day = (exam.question_s - exam.question_s[0] + DAY_S // 2) // DAY_S
    until = [np.append(0.0, np.cumsum(np.bincount(day, each))) for each in (inside, ~np.isnan(exam.actual))]
    held, total = (each[MONTH_DAYS:] - each[:-MONTH_DAYS] for each in until)
    enough = total > MONTH_DAYS * DAY_S / exam.questions.step_s / 2
    return replace(
        result,
        score=score,
        worst_month=float(np.min(held[enough] / total[enough])) if enough.any() else nan,
        days=score.count * days,
        cpu_s=cpu_s,
    )


def _given(task: PriceTask, exam: PriceExam, progress: Callable[[float], None]) -> Prediction:
    if task.predictor in OURS:
        return take_exam(_predictor(task.file, OURS[task.predictor]), exam, progress)
    if task.predictor == ENSEMBLE_WITH_INPUTS:
        return take_exam(_predictor(task.file, MEMBERS, task.file.inputs), exam, progress)
    published = dict(task.file.published)[task.predictor]
    return certain(published[len(published) - len(exam.questions) :], task.predictor)


def _score(file: PriceFile, exam: PriceExam, given: Prediction) -> Score:
    naive = certain(take_exam(_predictor(file, (LAST_WEEK,)), exam).mean, LAST_WEEK.name)
    # What was published may have gaps of its own.
    return compute_score(np.where(np.isnan(given.mean), np.nan, exam.actual), given, naive=naive)


def learned_days(file: PriceFile) -> int:
    """Return how many days are learned before the first one is scored."""
    days = (file.history.steps.end_s - file.history.start_s) // DAY_S
    return min(days - SCORED_OF_LONG, LEARNED_OF_LONG) if days >= LONG_DAYS else LEARNED_OF_SHORT


def _exam(file: PriceFile, days_ahead: int = 1) -> PriceExam:
    return price_exam(file.history, file.zone, after_days=learned_days(file), days_ahead=days_ahead)


def _predictor(
    file: PriceFile, members: tuple[Member, ...], inputs: Sequence[tuple[str, PriceHistory]] = ()
) -> PricePredictor:
    names = [name for name, _ in inputs]
    predictor = _WithInputs(file.zone, holidays=file.holidays, members=members, inputs=names)
    predictor.coming = inputs
    return predictor


class _WithInputs(PricePredictor):
    """Learns the inputs of a day when it is asked for the prices of that day."""

    coming: Sequence[tuple[str, PriceHistory]] = ()

    def predict(self, question: PriceSteps, at_s: int) -> Prediction:
        for name, values in self.coming:
            steps = values.start_s + values.step_s * np.arange(len(values), dtype=np.int64)
            is_new = (steps >= self.input_history(name).steps.end_s) & (steps < question.end_s)
            self.learn_input(name, values.take(is_new))
        return super().predict(question, at_s)


NOTE = (
    "At each midnight the day that begins is forecast from the days before it alone; 3 days ahead is the day after "
    "tomorrow, and so on. MAE and RMSE are in currency per MWh, the error in per cent is over hours with a price above "
    "zero, rMAE is MAE over that of the same hour a week before. 80 of 100 prices should lie inside the interval, in "
    "the worst 30 days as well. MAE is that of the median, to which half of the bias of the last errors is added: that "
    "is why the rMAE of last week itself is not quite 1."
)
HEADERS = (
    *("file", "predictor", "days", "MAE", "RMSE", "error [%]", "rMAE", "inside 80 % [%]", "worst 30 days [%]"),
    *("pinball", "CPU [s]"),
)


def price_tables(results: Sequence[PriceResult]) -> tuple[StudyTable, ...]:
    """Return the tables of scores, of how each file was read, and of what was left out, from results in any order."""
    short = {result.file: result.file.rpartition("/")[2] for result in results}
    unique = len(set(short.values())) == len(short)
    if unique:
        results = [replace(result, file=short[result.file]) for result in results]
    ordered = sorted(results, key=_place)
    scores = StudyTable(
        "price-scores", "Price forecasts", NOTE, HEADERS, tuple(_row(result) for result in ordered if result.score)
    )
    left_out = tuple((result.file, result.predictor, result.refused) for result in ordered if result.refused)
    if not left_out:
        return scores, _files(ordered)
    note = "Predictors that could not be scored, or files on which none can be."
    return (
        scores,
        _files(ordered),
        StudyTable("price-left-out", "Left out", note, ("file", "predictor", "why"), left_out),
    )


def _place(result: PriceResult) -> tuple[str, int, str]:
    names = [*OURS, ENSEMBLE_WITH_INPUTS]
    return result.file, names.index(result.predictor) if result.predictor in names else len(names), result.predictor


def _files(ordered: Sequence[PriceResult]) -> StudyTable:
    rows = dict.fromkeys(
        (result.file, result.unit or "unknown", result.clock, str(result.learned_days)) for result in ordered
    )
    note = "Days begin on that clock. The first days are learned, and not scored."
    return StudyTable(
        "price-files", "How the files were read", note, ("file", "unit", "clock", "first days"), tuple(rows)
    )


def _row(result: PriceResult) -> tuple[TableCell, ...]:
    score = result.score
    assert score is not None
    wide = result.cpu_s is not None
    return (
        result.file,
        result.predictor,
        f"{result.days:g}",
        _number(score.mae),
        _number(score.rmse),
        _number(score.percentage_error),
        None if isnan(score.relative_mae) else f"{score.relative_mae:.3f}",
        _number(100 * score.coverage) if wide else None,
        _number(100 * result.worst_month) if wide else None,
        _number(sum(score.pinball) / len(score.pinball)) if wide else None,
        result.cpu_s,
    )


def _number(value: float) -> float | None:
    return None if isnan(value) else value
