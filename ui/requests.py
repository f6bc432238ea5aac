"""The request values of the commands: what a user requests besides the settings.

A command module builds its request and passes it to its answer. Both import it from here, where only light modules
stand, so no answer imports its command.
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
    levers: bool
    lenient: bool
    as_json: bool


@dataclass(frozen=True)
class PriceForecastRequest:
    """What is asked for of prices besides the settings."""

    from_text: str | None
    hours: int
    as_json: bool


@dataclass(frozen=True)
class ForecastJob:
    """The job that is asked about; None where nothing is said of it."""

    size: int
    estimate: str
    user: str | None
    group: str | None
    queue: str | None
    name: str | None


@dataclass(frozen=True)
class JobForecastRequest:
    """Which job is asked about, and what to learn from."""

    job: ForecastJob
    log: str | None
    days: int | None
    models: Path | None
    lenient: bool
    as_json: bool
    state: Path | None = None


@dataclass(frozen=True)
class LedgerQuery:
    """What every question has: the time in words, and how the answer is printed: "text", "json" or "csv"."""

    start: str | None
    end: str | None
    form: str


@dataclass(frozen=True)
class MonthRequest:
    """The month in words, the log of jobs where one is named, and the files to be written."""

    month: str | None
    log: str | None
    html: Path | None
    csv: Path | None
    lenient: bool


@dataclass(frozen=True)
class PlanRequest:
    """What is asked for besides the settings; `is_as_set` where no option says otherwise than these."""

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
    plot: Path | None
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
