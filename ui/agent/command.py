"""The commands `offpeak agent`, `page`, `status`, `queue`, `why`, `history` and `trial`.

They run the agent and the service of the status page, show the agent's state, show the planned queue and why a job
waits, list decisions and actions, and show on/off days with their result.
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.installation import missing_extra
from offpeak.machines.node_sets import fold
from offpeak.settings.file import read_values, settings_path, users_settings_path
from offpeak.settings.table import Settings
from ui.options import CONFIG, END, START, option, settings_options

SOCKET = Annotated[str | None, option("agent.socket")]
LEDGER = Annotated[str | None, option("ledger.url")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


AGENT_SETTINGS = (
    *("agent.mode", "agent.nodes", "agent.queue", "agent.capacity", "agent.cycle", "hardware.inventory"),
    *("agent.state_folder", "agent.socket", "ledger.url"),
)


@settings_options(*AGENT_SETTINGS)
def agent(
    *,
    context: typer.Context,
    options: dict[str, object],
    restore: Annotated[
        bool, typer.Option("--restore", help="Undo the agent's changes to the scheduler's queue and nodes, and exit.")
    ] = False,
    config: CONFIG = None,
) -> None:
    """Run the agent: read queue, nodes and prices in each cycle, decide, and carry out what the mode permits."""
    settings = settings_of(config, options)
    # The loops load numba, pyghmi and SQLAlchemy, which `offpeak --version` must not wait for.
    from services.agent.restore import run_restore
    from services.agent.service import run_agent

    if not restore:
        context.exit(run_agent(settings, lambda: settings_of(config, options)))
    restored = run_restore(settings)
    for what in restored.left:
        typer.echo(f"not restored: {what}", err=True)
    if restored.nodes:
        typer.echo(f"open to jobs again: {fold(restored.nodes)}")
    typer.echo("not everything was restored" if restored.left else "the queue is in the scheduler's own order")
    context.exit(1 if restored.left else 0)


NEEDED = ("starlette", "uvicorn", "prometheus_client")


def page(
    context: typer.Context,
    listen: Annotated[str | None, option("page.listen")] = None,
    token_file: Annotated[Path | None, option("page.token_file")] = None,
    socket: SOCKET = None,
    url: LEDGER = None,
    config: CONFIG = None,
) -> None:
    """Serve the status page for browsers, and metrics for Prometheus at /metrics. Read-only."""
    check_needs()
    options = {"page.listen": listen, "page.token_file": token_file, "agent.socket": socket, "ledger.url": url}
    settings = settings_of(config, options)
    # What serves it loads Starlette and SQLAlchemy, which `offpeak --version` must not wait for.
    from services.page.server import run_page

    context.exit(run_page(settings))


def check_needs() -> None:
    """Raise BadInput if a package that the page needs is not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise missing_extra("the page", "page", *missing)


def status(socket: SOCKET = None, url: LEDGER = None, as_json: JSON = False, config: CONFIG = None) -> None:
    """Show whether the agent runs, its mode, the price of electricity, and the states of nodes."""
    settings = query_settings(config, socket, url)
    from ui.agent.answer import print_status

    print_status(settings, as_json=as_json)


def query_settings(config: Path | None, socket: str | None, url: str | None) -> Settings:
    """Return the settings with the locations of agent and ledger, also for users who may not read the site's file."""
    options = {"agent.socket": socket, "ledger.url": url}
    return Settings.of(read_values(users_settings_path(config, os.environ), options=options))


def settings_of(config: Path | None, options: Mapping[str, object]) -> Settings:
    """Return the current settings of the file, with the given options."""
    return Settings.of(read_values(settings_path(config, os.environ), options=options))


JOB_ID = re.compile(r"\d[\w.+,%:\[\]-]{0,99}", re.ASCII)


def queue(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Jobs of this user only.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Jobs of this partition only.")] = None,
    socket: SOCKET = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Show the pending jobs in the agent's order, with the reason of each move. Users see only their own jobs."""
    settings = query_settings(config, socket, None)
    from ui.agent.answer import print_queue

    print_queue(settings, user=user, partition=partition, as_json=as_json)


def why(
    job_id: Annotated[str, typer.Argument(metavar="JOBID", help="A job, as squeue shows it.")],
    socket: SOCKET = None,
    url: LEDGER = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Show why a job waits: its place, the price, its latest start, the expected saving, and how to opt out.

    Of a job that has ended: its energy, its cost, and how much less it cost than at its submission.
    """
    if not JOB_ID.fullmatch(job_id):
        raise BadInput(f"{job_id!r} is no job id", hint="`squeue --me` lists the ids of your jobs")
    settings = query_settings(config, socket, url)
    from ui.agent.answer import print_why

    print_why(settings, job_id, as_json=as_json)


def jobs(
    since: START = None,
    end: END = None,
    mine: Annotated[bool, typer.Option("--mine", help="Your own jobs only; other users see no others.")] = False,
    socket: SOCKET = None,
    url: LEDGER = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Show the jobs that have ended: energy, cost, and how much less each one cost than at its submission."""
    settings = query_settings(config, socket, url)
    from ui.agent.bills_answer import print_bills

    print_bills(settings, (since, end), mine=mine, as_json=as_json)


def shed(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[POWER|PERCENT|off]", help="40kW, 30% (less than now), or off. [default: show events]"),
    ] = None,
    duration: Annotated[str, typer.Option("--for", help="The event ends after this time.")] = "1h",
    begin: Annotated[
        str | None, typer.Option("--from", help="Begin: 17:00 or 2026-12-01T17:00. [default: now]")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, which users see.")] = "the grid asks",
    socket: SOCKET = None,
    url: LEDGER = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Shed load for the grid: cap the power of the site at once or later, end that, or show what was delivered.

    The agent holds starts, sends idle nodes to sleep, caps nodes whose jobs allow it, and requeues jobs that have
    declared a checkpoint, until the draw is below the cap.
    """
    settings = query_settings(config, socket, url)
    from ui.agent.shed_answer import print_events, shed_load

    if target is None:
        print_events(settings, as_json=as_json)
    else:
        shed_load(settings, target, duration, begin, reason)


def history(
    since: START = None,
    end: END = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help='Node set such as n[001-064], "job 1841" or queue. [default: all]')
    ] = None,
    url: LEDGER = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Show decisions and actions from the ledger, newest first."""
    settings = query_settings(config, None, url)
    # What answers loads SQLAlchemy, which `offpeak --version` must not wait for.
    from ui.agent.ledger_answer import print_history

    print_history(settings.ledger, (since, end), subject, as_json=as_json)
