"""What predictors say of a job, as a table or as JSON."""

import json
from dataclasses import asdict, dataclass

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from predictors.model_file import ModelOrigin
from predictors.port import Prediction
from studies.scores.log_exams import POWER
from studies.scores.log_file import LogFile
from ui.clock_text import clock_text
from ui.figures_text import NOT_WRAPPED
from ui.forecast.command import AskedJob

NOT_JUDGED = ModelOrigin(0, 0, 0, float("nan"))


@dataclass(frozen=True)
class Answer:
    """What one predictor says, and what it learned from; NOT_JUDGED where another decides whom to believe."""

    predictor: str
    prediction: Prediction
    origin: ModelOrigin = NOT_JUDGED


@dataclass(frozen=True)
class Forecast:
    """What all predictors of a quantity say of a job."""

    quantity: str
    log: LogFile
    job: AskedJob
    answers: tuple[Answer, ...]

    @property
    def best(self) -> Answer | None:
        """Who was wrong the least on this log; None if nobody has been judged."""
        judged = [answer for answer in self.answers if np.isfinite(answer.origin.mae)]
        return min(judged, key=lambda answer: answer.origin.mae, default=None)


def say(forecast: Forecast, *, as_json: bool) -> None:
    """Print the forecast."""
    if as_json:
        typer.echo(forecast_json(forecast))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    job, log = forecast.job, forecast.log
    who = f" of {job.user}" if job.user else ""
    console.print(f"{forecast.quantity} of a job{who} on {job.size:,} for {job.estimate}; learned from {log.name}")
    for note in log.notes:
        console.print(note)
    console.print()
    console.print(_table(forecast))
    console.print()
    console.print(_summary(forecast))


def _table(forecast: Forecast) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("predictor", "expected", "four of five from", "to", "wrong so far by"):
        table.add_column(header, justify="left" if header == "predictor" else "right")
    table.add_column("rests on")
    for answer in forecast.answers:
        low, _, high = answer.prediction.quantiles[0]
        figures = (answer.prediction.point[0], low, high, answer.origin.mae)
        texts = (_text(forecast.quantity, float(value)) for value in figures)
        table.add_row(answer.predictor, *texts, answer.prediction.basis[0])
    return table


def _text(quantity: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.0f} W" if quantity == POWER else clock_text(value)


def _summary(forecast: Forecast) -> str:
    best = forecast.best
    if best is None:
        return "No job of the log tells what came true: these are assumptions."
    median = _text(forecast.quantity, float(best.prediction.point[0]))
    return f"Best on {best.origin.outcomes:,} jobs: {best.predictor}. As likely above as below {median}."


def forecast_json(forecast: Forecast) -> str:
    """Return the forecast as a JSON object: seconds or watts a unit."""
    best = forecast.best
    document = {
        "quantity": forecast.quantity,
        "job": asdict(forecast.job),
        "log": forecast.log.name,
        "notes": forecast.log.notes,
        "best": best.predictor if best else None,
        "answers": [_entry(answer) for answer in forecast.answers],
    }
    return json.dumps(document, indent=2)


def _entry(answer: Answer) -> dict[str, object]:
    low, middle, high = map(float, answer.prediction.quantiles[0])
    origin = {**asdict(answer.origin), "mae": answer.origin.mae if np.isfinite(answer.origin.mae) else None}
    return {
        "predictor": answer.predictor,
        "expected": float(answer.prediction.point[0]),
        "mean": float(answer.prediction.mean[0]),
        "p10": low,
        "p50": middle,
        "p90": high,
        "basis": answer.prediction.basis[0],
        "learned_from": origin,
    }
