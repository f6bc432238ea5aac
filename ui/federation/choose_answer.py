"""What `offpeak choose` answers."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import typer

from offpeak.errors import BadInput, OffpeakError
from offpeak.files import read_bytes
from offpeak.ledger_settings import LedgerSettings
from offpeak.settings import Settings
from offpeak.units import parse_duration_s
from plugin.federation.choice_json import choice_json
from plugin.federation.job_script import MOST_BYTES
from plugin.federation.request import goal_named
from power.broker.federation import Federation, federation_now
from power.broker.parcel import Parcel, Wishes, parcel_of
from power.broker.times import instant

Script = tuple[Path, tuple[str, ...]]
"""The file and its arguments."""


def print_choice(settings: Settings, script: Script, wishes: Wishes, *, as_json: bool) -> None:
    """Print where the job would go; exit 1 where no site can have it."""
    federation = _with_sent(federation_of(settings), settings.ledger)
    parcel = parcel_in(script, wishes, federation)
    choice = federation.choose(parcel.request, without=parcel.not_at(federation.grid))
    said = choice_json(choice, now_s=int(time.time()), currency=federation.currency)
    typer.echo(json.dumps(said, indent=2) if as_json else choice_text(said))
    if choice.site is None:
        raise typer.Exit(1)


def wishes_of(goal: str, *, latest_finish: str | None, limit: str | None, **others: Any) -> Wishes:
    """Return what the owner wants, as options say it, `others` as Wishes has them; BadInput for what makes no sense."""
    latest_s = None if latest_finish is None else int(instant(latest_finish))
    limit_s = None if limit is None else parse_duration_s(limit)
    if limit_s is not None and limit_s < 1:
        raise BadInput(f"--time {limit}: is no time", hint="write it like 30min or 2h")
    return Wishes(goal_named(goal), latest_s, limit_s=limit_s, **others)


def federation_of(settings: Settings) -> Federation:
    """Return the federation as it is now."""
    return federation_now(settings.broker, socket=settings.agent.socket, state_folder=settings.agent.state_folder)


def _with_sent(federation: Federation, settings: LedgerSettings) -> Federation:
    """Return the federation with the jobs that its sites were given, as far as who asks may read the ledger."""
    if federation.sent is not None:
        return federation
    # Slow to import: who chooses by what a poller has kept does without.
    from offpeak.ledger.opened import opened
    from offpeak.ledger.place import sqlite_file
    from offpeak.ledger.submissions import given
    from power.broker.sent_jobs import with_sent

    try:
        file = sqlite_file(settings.url)
        if file and not file.exists():
            return federation
        with opened(settings.url) as connection:
            return with_sent(federation, partial(given, connection))
    except (OffpeakError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        typer.echo(f"offpeak: jobs that were submitted before are not counted: {why}", err=True)
        return federation


def parcel_in(script: Script, wishes: Wishes, federation: Federation) -> Parcel:
    """Return the job of a file; BadInput if it cannot be read or is too long."""
    path, arguments = script
    text = read_bytes(path, BadInput)
    if len(text) > MOST_BYTES:
        raise BadInput(f"{path}: is longer than a mebibyte", hint="a script calls programs, it does not hold them")
    return parcel_of(text.decode(errors="surrogateescape"), path.name, arguments, wishes=wishes, grid=federation.grid)


def choice_text(said: dict[str, Any]) -> str:
    """Return a choice for a terminal: where and why, the second best, and what is missing elsewhere."""
    lines = [f"{said['site']}: {said['reason']}" if said["site"] or not said["misses"] else "no site can run it"]
    for name in ("expected", "second"):
        if each := said[name]:
            place = each.get("site", said["site"])
            lines.append(f"  {place}: {figures_text(each)}")
    lines += [f"- {site}: {text}" for site, text in said["misses"].items()]
    return "\n".join(lines)


def figures_text(said: dict[str, Any]) -> str:
    """Return start, end, cost, CO2 and energy of a place in one line."""
    cost = f"{said['cost']:,.2f} {said['currency']}"
    return f"{said['starts']} to {said['ends']}, {cost}, {said['co2_kg']:,.2f} kg CO2, {said['energy_kwh']:,.1f} kWh"
