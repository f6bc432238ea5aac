"""The tables of scored price forecasts, side by side."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from studies.report import Cell, Table
from studies.scores.price_tasks import OURS, PriceResult

NOTE = (
    "At each midnight the day that begins is forecast from the days before it alone. MAE and RMSE are in currency per "
    "MWh, the error in per cent is over hours with a price above zero, rMAE is MAE over that of the same hour a week "
    "before. 80 of 100 prices should lie inside the interval. MAE is that of the median, which half of what the last "
    "errors leaned to one side is added to: that is why last week's own rMAE is not quite 1."
)
HEADERS = (
    "file",
    "predictor",
    "days",
    "MAE",
    "RMSE",
    "error [%]",
    "rMAE",
    "inside 80 % [%]",
    "pinball",
    "CPU [s]",
)


def price_tables(results: Sequence[PriceResult]) -> tuple[Table, ...]:
    """Return the scores, how each file was read, and what was left out, if anything, from results in any order."""
    ordered = sorted(_with_short_names(results), key=_place)
    scores = Table(
        "price-scores", "Price forecasts", NOTE, HEADERS, tuple(_row(each) for each in ordered if each.score)
    )
    left_out = tuple((each.file, each.predictor, each.refused) for each in ordered if each.refused)
    if not left_out:
        return scores, _files(ordered)
    note = "Predictors that could not be scored, or files on which none can be."
    return scores, _files(ordered), Table("price-left-out", "Left out", note, ("file", "predictor", "why"), left_out)


def _with_short_names(results: Sequence[PriceResult]) -> list[PriceResult]:
    """Return the results with their files' names alone, unless two files of different folders have the same."""
    short = {each.file: each.file.rpartition("/")[2] for each in results}
    unique = len(set(short.values())) == len(short)
    return [replace(each, file=short[each.file]) for each in results] if unique else list(results)


def _place(result: PriceResult) -> tuple[str, int, str]:
    names = [*OURS]
    return result.file, names.index(result.predictor) if result.predictor in names else len(names), result.predictor


def _files(ordered: Sequence[PriceResult]) -> Table:
    rows = dict.fromkeys((each.file, each.unit or "not told", each.clock, str(each.learned_days)) for each in ordered)
    note = "Days begin on that clock. The first days are learned, and not scored."
    return Table("price-files", "How the files were read", note, ("file", "unit", "clock", "first days"), tuple(rows))


def _row(result: PriceResult) -> tuple[Cell, ...]:
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
        _number(sum(score.pinball) / len(score.pinball)) if wide else None,
        result.cpu_s,
    )


def _number(value: float) -> float | None:
    return None if isnan(value) else value
