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
from offpeak.plugin.federation.job_script import MOST_BYTES
from offpeak.services.broker.client import fetch_choice
from offpeak.settings.table import Settings


@dataclass(frozen=True)
class JobOptions:
    """The options of the command line; None leaves the value to the script."""

    goal: str | None
    latest_end_s: int | None
    cores: int | None
    limit_s: int | None
    application: str | None
    data: str | None
    data_at: str | None


@dataclass(frozen=True)
class JobFile:
    """A script with its `name` and arguments, and the options."""

    script: str
    name: str
    arguments: tuple[str, ...]
    options: JobOptions


def read_job_file(path: Path, arguments: tuple[str, ...], options: JobOptions) -> JobFile:
    """Return the job of a file; raise BadInput if the file cannot be read or is too long."""
    text = read_bytes(path, BadInput)
    if len(text) > MOST_BYTES:
        raise BadInput(f"{path}: is longer than a mebibyte", hint="a script should call programs, not contain them")
    return JobFile(text.decode(errors="surrogateescape"), path.name, arguments, options)


def ask_broker(settings: Settings, job: JobFile) -> dict[str, Any] | None:
    """Return the choice of the running broker, None if no broker runs."""
    wanted = {"script": job.script, "arguments": job.arguments, **vars(job.options)}
    # The broker must use the same file of sites.
    of_sites = {"sites": str(settings.broker.sites.resolve()), "stale_s": settings.broker.stale_s}
    return fetch_choice(settings.agent.state_folder, of_sites | wanted)


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
