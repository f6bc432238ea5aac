"""Answers `offpeak forecast` about a job: the predictions and past errors of each predictor, as table or JSON."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from offpeak.display import duration_text, watts_text
from offpeak.errors import BadInput
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.units import parse_duration_s
from offpeak.power.whatif import simulate_waits_s
from offpeak.predictors.job_history import jobs_at_submission, stable_code, with_stable_codes
from offpeak.predictors.job_power import DeclaredPower, boosted_power, power_history
from offpeak.predictors.port import ModelOrigin, Prediction, Predictor, load_model, save_model
from offpeak.predictors.run_times import LastTwo, UserEstimate, boosted_run_time, similar_run_times
from offpeak.predictors.scores import Exam, teach
from offpeak.predictors.trees.forest import LEARN_ONCE
from offpeak.predictors.waits.registry import arbiter
from offpeak.predictors.waits.states import LogStates, if_submitted_now
from offpeak.report_tables import folder_for
from offpeak.settings.table import Settings
from offpeak.sim_backend.traces.filters import last_days
from offpeak.ui.estimate.accounting_source import accounting_of, with_nodes
from offpeak.ui.forecast.log_scores import (
    DECLARED_W,
    POWER,
    RUN_TIME,
    WAIT,
    LogFile,
    available_predictors,
    expected_run_s,
    log_file_of,
    powers_of,
    run_times_of,
    waits_of,
    without_trees,
)
from offpeak.ui.terminal import TextTable, plain_console, print_table, say_written, task_progress, text_table

NOT_EVALUATED = ModelOrigin(0, 0, 0, float("nan"))


@dataclass(frozen=True)
class ForecastJob:
    """The job to forecast; None if an attribute is not given."""

    size: int
    estimate: str
    user: str | None
    group: str | None
    queue: str | None
    name: str | None


@dataclass(frozen=True)
class JobForecastRequest:
    """The job to forecast, and the log to learn from."""

    job: ForecastJob
    log: str | None
    days: int | None
    models: Path | None
    lenient: bool
    as_json: bool


@dataclass(frozen=True)
class PredictorAnswer:
    """The prediction of one predictor and the origin of its model; NOT_EVALUATED for members of an arbiter."""

    predictor: str
    prediction: Prediction
    origin: ModelOrigin = NOT_EVALUATED


@dataclass(frozen=True)
class JobForecast:
    """The predictions of a quantity of a job by all predictors."""

    quantity: str
    log: LogFile
    job: ForecastJob
    answers: tuple[PredictorAnswer, ...]

    @property
    def best(self) -> PredictorAnswer | None:
        """The answer with the smallest error on this log; None if no predictor has been judged."""
        evaluated = [answer for answer in self.answers if np.isfinite(answer.origin.mae)]
        return min(evaluated, key=lambda answer: answer.origin.mae, default=None)


def _table(forecast: JobForecast) -> TextTable:
    headers = ("predictor", "expected", "80 % from", "to", "mean error so far", "based on")
    rows = []
    for answer in forecast.answers:
        low, _, high = answer.prediction.quantiles[0]
        figures = (answer.prediction.point[0], low, high, answer.origin.mae)
        texts = (_text(forecast.quantity, float(value)) for value in figures)
        rows.append((answer.predictor, *texts, answer.prediction.basis[0]))
    return text_table(headers, rows, texts=(0, 5))


def _text(quantity: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    return watts_text(value) if quantity == POWER else duration_text(value)


def _summary(forecast: JobForecast) -> str:
    best = forecast.best
    if best is None:
        return "No job of the log has a known outcome: these are assumptions."
    median = _text(forecast.quantity, float(best.prediction.point[0]))
    return f"Most accurate on {best.origin.outcomes:,} jobs: {best.predictor}. As likely above as below {median}."


def forecast_json(forecast: JobForecast) -> str:
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


def _entry(answer: PredictorAnswer) -> dict[str, object]:
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


DAYS = 90
NO_JOB = -1


@dataclass(frozen=True, eq=False)
class PredictedQuantity:
    """The training of predictors of a quantity: the exam, when each outcome is known, and the predictors.

    `members` are the predictors among which the only predictor chooses.
    """

    quantity: str
    exam: Exam[Any, Any]
    answered_s: Int64
    predictors: tuple[Predictor[Any, Any], ...]
    members: tuple[Predictor[Any, Any], ...] = ()


def answer_run_time(settings: Settings, request: JobForecastRequest) -> None:
    """Print how long the job will run."""
    log = _log(settings, request)
    exam = run_times_of(log)
    predictors = available_predictors((UserEstimate(), LastTwo(), similar_run_times(), boosted_run_time(LEARN_ONCE)))
    _answer_quantity(PredictedQuantity(RUN_TIME, exam, log.end_s, predictors), request, log, _as_jobs(request.job, log))


def answer_power(settings: Settings, request: JobForecastRequest) -> None:
    """Print the predicted power of the job."""
    log = _log(settings, request)
    exam = powers_of(log)
    predictors = available_predictors(
        (DeclaredPower(DECLARED_W), power_history(DECLARED_W), boosted_power(DECLARED_W, LEARN_ONCE))
    )
    _answer_quantity(PredictedQuantity(POWER, exam, log.end_s, predictors), request, log, _as_jobs(request.job, log))


def answer_wait(settings: Settings, request: JobForecastRequest) -> None:
    """Print how long the job would wait."""
    log, job = _log(settings, request), request.job
    if job.size > log.units:
        raise BadInput(
            f"a job of {job.size:,} cannot run on the {log.units:,} that are usable", hint="a smaller --size"
        )
    expected_s = expected_run_s(log, LEARN_ONCE)
    now_s = int(log.jobs.submit_s[-1]) + 1
    snapshot = LogStates(log.jobs, log.start_s, log.end_s, expected_s, log.units).at(now_s)
    exam = waits_of(log, expected_s)
    question = if_submitted_now(
        snapshot,
        size=job.size,
        estimate_s=parse_duration_s(job.estimate),
        user=stable_code(job.user),
        queue=stable_code(job.queue),
    )
    wait_arbiter = arbiter(simulate_waits_s, LEARN_ONCE)
    _answer_quantity(
        PredictedQuantity(WAIT, exam, log.start_s, (wait_arbiter,), wait_arbiter.members), request, log, question
    )


BY_COMMAND = {"runtime": answer_run_time, "power": answer_power, "wait": answer_wait}


def _log(settings: Settings, request: JobForecastRequest) -> LogFile:
    accounting = accounting_of(request.log, request.days or DAYS, settings, lenient=request.lenient)
    trace = last_days(accounting.trace, request.days) if request.days else accounting.trace
    log = log_file_of(trace, with_nodes(settings, accounting).machine)
    # A log that is read again later may begin on another day; only calendar seconds do not change.
    ahead_s = trace.unix_start_s or 0
    jobs = with_stable_codes(log.jobs, trace.names)
    jobs = replace(jobs, submit_s=jobs.submit_s + ahead_s)
    notes = (*log.notes, *without_trees())
    return replace(log, jobs=jobs, start_s=log.start_s + ahead_s, end_s=log.end_s + ahead_s, notes=notes)


def _as_jobs(job: ForecastJob, log: LogFile) -> Jobs:
    """Return the job as one that is submitted when the log ends."""
    now_s = int(log.jobs.submit_s[-1])
    numbers = {
        "job_id": NO_JOB,
        "submit_s": now_s,
        "estimate_s": parse_duration_s(job.estimate),
        "size": job.size,
        "user": stable_code(job.user),
        "group": stable_code(job.group),
        "queue": stable_code(job.queue),
        "application": stable_code(job.name),
    }
    any_job = log.jobs.take(np.array([0]))
    return jobs_at_submission(replace(any_job, **{name: np.array([number]) for name, number in numbers.items()}))


def _answer_quantity(subject: PredictedQuantity, request: JobForecastRequest, log: LogFile, question: Any) -> None:
    if request.models:
        folder_for(request.models)
    now_s = int(log.end_s.max())
    answers: list[PredictorAnswer] = []
    with task_progress("learning (the first run compiles the kernels)") as progress:
        for number, predictor in enumerate(subject.predictors, start=1):
            origin = _taught(subject, predictor, request.models)
            answers.append(PredictorAnswer(predictor.name, predictor.predict(question, now_s), origin))
            progress(number, len(subject.predictors))
    answers += [PredictorAnswer(member.name, member.predict(question, now_s)) for member in subject.members]
    forecast, job = JobForecast(subject.quantity, log, request.job, tuple(answers)), request.job
    if request.as_json:
        typer.echo(forecast_json(forecast))
    else:
        console, owner = plain_console(), f" of {job.user}" if job.user else ""
        console.print(
            f"{forecast.quantity} of a job{owner} on {job.size:,} for {job.estimate}; learned from {log.name}"
        )
        for note in log.notes:
            console.print(note)
        console.print()
        print_table(_table(forecast))
        console.print()
        console.print(_summary(forecast))
    if request.models:
        files = (_model_file(request.models, subject, predictor) for predictor in subject.predictors)
        say_written(*files, as_json=request.as_json)


def _model_file(models: Path, subject: PredictedQuantity, predictor: Predictor[Any, Any]) -> Path:
    return models / f"{subject.quantity} {predictor.name}.npz".replace(" ", "-")


def _taught(subject: PredictedQuantity, predictor: Predictor[Any, Any], models: Path | None) -> ModelOrigin:
    """Teach the predictor the part of the exam that it does not know yet, and return the origin of its model."""
    if models is None:
        return teach(predictor, subject.exam, subject.answered_s, None)
    file = _model_file(models, subject, predictor)
    before = load_model(file, predictor) if file.exists() else None
    origin = teach(predictor, subject.exam, subject.answered_s, before)
    save_model(file, predictor, origin)
    return origin
