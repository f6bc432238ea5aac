"""Predictors of run times, power and waits side by side: a row each log and predictor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from studies.report import Cell, Table
from studies.scores.log_exams import POWER, RUN_TIME, WAIT
from studies.scores.log_scores import LogResult

READING = (
    "MAE: mean absolute error of the median. RMSE: root of the mean squared error of the mean. Pinball: its mean over "
    "the quantiles 10, 50 and 90 %. Within 80 %: the share of jobs between the outer two, 80 % is right. "
    "Each job is asked about at its submission, by one who knows what has happened until then."
)
PERCENTAGE = "error [%]"
WITHIN_HOUR = "within 1 h [%]"


@dataclass(frozen=True)
class Kind:
    """How the results in a quantity are shown: beside `naive`, and with one measure more."""

    name: str
    title: str
    unit: str
    naive: str
    measure: str
    note: str


KINDS = {
    RUN_TIME: Kind("run-times", "Run times", "s", "estimate", PERCENTAGE, "Relative to the user's estimate."),
    POWER: Kind("power", "Power per unit", "W", "constant", PERCENTAGE, "Relative to one draw declared for all jobs."),
    WAIT: Kind("waits", "Queue waits", "s", "similar jobs", WITHIN_HOUR, "Relative to the published method."),
}
MEASURES: dict[str, Callable[[LogResult], float]] = {
    PERCENTAGE: lambda result: result.score.percentage_error,
    WITHIN_HOUR: lambda result: 100 * result.score.close_share,
}


def log_tables(results: Sequence[LogResult]) -> tuple[Table, ...]:
    """Return a table for each quantity of which there are results."""
    by_quantity = {quantity: [each for each in results if each.task.quantity == quantity] for quantity in KINDS}
    return tuple(_table(KINDS[quantity], found) for quantity, found in by_quantity.items() if found)


def _table(kind: Kind, results: Sequence[LogResult]) -> Table:
    mae = f"MAE [{kind.unit}]", f"RMSE [{kind.unit}]", "rel. MAE"
    headers = ("log", "predictor", "jobs", *mae, f"pinball [{kind.unit}]", "within 80 % [%]", kind.measure, "CPU [s]")
    naive_mae = {result.task.path: result.score.mae for result in results if result.task.predictor == kind.naive}
    rows = tuple(_row(kind, result, naive_mae.get(result.task.path)) for result in results)
    return Table(kind.name, kind.title, " ".join([kind.note, READING, *_log_notes(results)]), headers, rows)


def _row(kind: Kind, result: LogResult, naive_mae: float | None) -> tuple[Cell, ...]:
    score = result.score
    relative = score.mae / naive_mae if naive_mae else None
    errors = score.mae, score.rmse, relative, fmean(score.pinball), 100 * score.coverage
    return (
        result.log,
        result.task.predictor,
        f"{score.count:,}",
        *map(_known, errors),
        _known(MEASURES[kind.measure](result)),
        result.cpu_s,
    )


def _known(value: float | None) -> float | None:
    """Return the value, None if it is NaN: nothing was measured."""
    return None if value is None or value != value else value


def _log_notes(results: Sequence[LogResult]) -> list[str]:
    """Return a sentence for each log of which something was assumed."""
    notes = {result.log: result.notes for result in results if result.notes}
    return [f"{log}: {'; '.join(said)}." for log, said in notes.items()]
