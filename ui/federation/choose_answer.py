"""Read the job of `offpeak submit`, and print the site that is chosen by --dry-run.

The running broker makes the choice, else this process.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from offpeak.display import co2_text, energy_text, money_text
from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.time_range import parse_instant, parse_limit_s
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.table import Settings
from plugin.federation.job_script import MOST_BYTES
from services.broker.client import fetch_choice


@dataclass(frozen=True)
class JobOptions:
    """The options of the command line, as typed; None leaves the value to the script."""

    goal: str | None
    latest_finish: str | None
    limit: str | None
    cores: int | None
    application: str | None
    data: str | None
    data_at: str | None


@dataclass(frozen=True)
class JobFile:
    """A script with its `name` and arguments, and the options with parsed times."""

    script: str
    name: str
    arguments: tuple[str, ...]
    goal: str | None
    latest_end_s: int | None
    cores: int | None
    limit_s: int | None
    application: str | None
    data: str | None
    data_at: str | None


def read_job_file(path: Path, arguments: tuple[str, ...], options: JobOptions) -> JobFile:
    """Return the job of a file; raise BadInput if the file cannot be read or is too long, or a time is invalid."""
    latest_end_s = None if options.latest_finish is None else int(parse_instant(options.latest_finish))
    limit_s = None if options.limit is None else parse_limit_s(options.limit)
    text = read_bytes(path, BadInput)
    if len(text) > MOST_BYTES:
        raise BadInput(f"{path}: is longer than a mebibyte", hint="a script calls programs, it does not hold them")
    script = text.decode(errors="surrogateescape")
    return JobFile(
        script=script,
        name=path.name,
        arguments=arguments,
        goal=options.goal,
        latest_end_s=latest_end_s,
        cores=options.cores,
        limit_s=limit_s,
        application=options.application,
        data=options.data,
        data_at=options.data_at,
    )


def ask_broker(settings: Settings, job: JobFile) -> dict[str, Any] | None:
    """Return the choice of the running broker, None if no broker runs."""
    return fetch_choice(settings.agent.state_folder, _broker_query(settings.broker, job))


def print_choice(choice: dict[str, Any], *, as_json: bool) -> None:
    """Print the best site for a job; exit 1 if no site can run it."""
    typer.echo(json.dumps(choice, indent=2) if as_json else choice_text(choice))
    if choice["site"] is None:
        raise typer.Exit(1)


def choice_text(choice: dict[str, Any]) -> str:
    """Return a choice as text: the site and the reason, the second best, and what other sites lack."""
    lines = [
        f"{choice['site']}: {choice['reason']}" if choice["site"] or not choice["misses"] else "no site can run it"
    ]
    for name in ("expected", "second"):
        if each := choice[name]:
            place = each.get("site", choice["site"])
            lines.append(f"  {place}: {figures_text(each)}")
    lines += [f"- {site}: {text}" for site, text in choice["misses"].items()]
    return "\n".join(lines)


def figures_text(expected: dict[str, Any]) -> str:
    """Return the expected start, end, cost, CO2 and energy at a site in one line."""
    cost, co2 = money_text(expected["cost"], expected["currency"]), co2_text(expected["co2_kg"])
    return f"{expected['starts']} to {expected['ends']}, {cost}, {co2}, {energy_text(expected['energy_kwh'])}"


def _broker_query(settings: BrokerSettings, job: JobFile) -> dict[str, Any]:
    """Return the request to a broker, which must use the same file of sites."""
    wanted = {key: value for key, value in vars(job).items() if key != "name"}
    return {"sites": str(settings.sites.resolve()), "stale_s": settings.stale_s, **wanted}
