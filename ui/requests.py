"""The requests of the commands: the options that are no settings.

A command module builds its request and passes it to its answer module. Both import the request from here, so no answer
imports its command. This module imports only light modules.
"""

from dataclasses import dataclass
from pathlib import Path

ESTIMATE_DAYS = 30


@dataclass(frozen=True)
class EstimateRequest:
    """What is asked for besides the settings."""

    log: str | None
    days: int | None
    replays: int | None
    lenient: bool
    as_json: bool
    report: Path | None = None
    write_cluster: Path | None = None
    on: str | None = None


@dataclass(frozen=True)
class PriceForecastRequest:
    """The options of `offpeak forecast price`."""

    from_text: str | None
    hours: int
    as_json: bool


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
class LedgerQuery:
    """The time range as text, and the output format: "text", "json" or "csv"."""

    start: str | None
    end: str | None
    form: str


@dataclass(frozen=True)
class MonthRequest:
    """The month, the year, or the period of a bill as text, and the files to write."""

    month: str | None
    html: Path | None
    csv: Path | None
    year: str | None = None
    xlsx: Path | None = None
    bill: str | None = None


@dataclass(frozen=True)
class PlanRequest:
    """The options of `offpeak plan`; `is_as_set` is true if no option overrides a setting."""

    day: str | None
    report: Path | None
    apply: bool
    as_json: bool
    is_as_set: bool


@dataclass(frozen=True)
class PricesRequest:
    """What is asked for besides the settings."""

    from_text: str | None
    to_text: str | None
    as_json: bool


@dataclass(frozen=True)
class SimulateRequest:
    """What is asked for besides the settings."""

    start: str | None
    lenient: bool
    replays: int | None
    kinds: tuple[str, ...]
    schedule: Path | None
    report: Path | None
    as_json: bool
    settings_file: Path | None
    on: str | None = None
