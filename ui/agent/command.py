"""The commands `offpeak agent`, `page`, `status`, `queue`, `why`, `jobs`, `shed` and `history`.

They run the agent and the service of the status page, show the agent's state, show the planned queue and why a job
waits, shed load for the grid, and list decisions and actions.
"""

import re
from importlib.util import find_spec
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.installation import missing_extra
from offpeak.machines.node_sets import fold
from offpeak.settings.file import users_settings_path
from offpeak.ui.options import END, JSON, START, CommandSettings, settings_options

users_settings = settings_options("agent.socket", "ledger.url", find_file=users_settings_path)
"""The locations of agent and ledger, also for users who may not read the site's file."""


@settings_options(
    *("agent.mode", "agent.nodes", "agent.queue", "agent.capacity", "agent.cycle", "hardware.inventory"),
    *("agent.state_folder", "agent.socket", "ledger.url"),
)
def agent(
    chosen: CommandSettings,
    context: typer.Context,
    restore: Annotated[
        bool, typer.Option("--restore", help="Undo the agent's changes to the scheduler's queue and nodes, and exit.")
    ] = False,
    collector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Read the meters of this collector only, and post them to the head node."),
    ] = None,
) -> None:
    """Run the agent. In each cycle it reads queue, nodes and prices, decides, and does what the mode permits."""
    settings = chosen.read()
    from offpeak.services.agent.accounting_loops import meter_period_s
    from offpeak.services.agent.restore import run_restore
    from offpeak.services.agent.service import run_agent
    from offpeak.services.collectors import run_collector

    if collector is not None:
        context.exit(run_collector(settings, collector, meter_period_s(settings.agent.cycle_s, 1.0)))
    if not restore:
        context.exit(run_agent(settings, chosen.read))
    restored = run_restore(settings)
    for what in restored.left:
        typer.echo(f"not restored: {what}", err=True)
    if restored.nodes:
        typer.echo(f"open to jobs again: {fold(restored.nodes)}")
    typer.echo("not everything was restored" if restored.left else "the queue is in the scheduler's own order")
    context.exit(1 if restored.left else 0)


NEEDED = ("starlette", "uvicorn", "prometheus_client")


@settings_options("page.listen", "page.token_file", "page.certificate", "page.key", "agent.socket", "ledger.url")
def page(chosen: CommandSettings, context: typer.Context) -> None:
    """Serve the status page, and metrics for Prometheus. Read-only; the metrics are at /metrics."""
    check_needs()
    settings = chosen.read()
    from offpeak.services.page.server import run_page

    context.exit(run_page(settings))


def check_needs() -> None:
    """Raise BadInput if a package that the page needs is not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise missing_extra("the page", "page", *missing)


@users_settings
def status(chosen: CommandSettings, as_json: JSON = False) -> None:
    """Show the agent's state and mode, the price, and the nodes."""
    from offpeak.ui.agent.status import print_status

    print_status(chosen.read(), as_json=as_json)


@settings_options("agent.socket", find_file=users_settings_path)
def queue(
    chosen: CommandSettings,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Jobs of this user only.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Jobs of this partition only.")] = None,
    as_json: JSON = False,
) -> None:
    """Show the pending jobs in the agent's order, with reasons. Users see only their own jobs."""
    from offpeak.ui.agent.status import print_queue

    print_queue(chosen.read(), user=user, partition=partition, as_json=as_json)


JOB_ID = re.compile(r"\d[\w.+,%:\[\]-]{0,99}", re.ASCII)


@users_settings
def why(
    chosen: CommandSettings,
    job_id: Annotated[str, typer.Argument(metavar="JOBID", help="A job, as squeue shows it.")],
    as_json: JSON = False,
) -> None:
    """Show why a job waits, or what it cost. For a pending job: place, price, latest start, saving, opt-out.

    Of a job that has ended: its energy, its cost, and how much less it cost than at its submission.
    """
    if not JOB_ID.fullmatch(job_id):
        raise BadInput(f"{job_id!r} is not a job ID", hint="`squeue --me` lists the IDs of your jobs")
    from offpeak.ui.agent.status import print_why

    print_why(chosen.read(), job_id, as_json=as_json)


@users_settings
def jobs(
    chosen: CommandSettings,
    since: START = None,
    end: END = None,
    month: Annotated[
        str | None, typer.Option("--month", help="Month, such as 2026-11, in place of start and end.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Your own jobs only; other users see no others.")] = False,
    as_json: JSON = False,
) -> None:
    """Show ended jobs with energy, cost, CO2, and what was saved.

    Each with how much less it cost than at its submission, and what its tier saved.
    """
    if month and (since or end):
        raise BadInput("--month excludes --since and --endtime", hint="use either the one or the others")
    from offpeak.ui.agent.bills import print_bills

    print_bills(chosen.read(), month or (since, end), mine=mine, as_json=as_json)


@users_settings
def shed(
    chosen: CommandSettings,
    target: Annotated[
        str | None,
        typer.Argument(metavar="[POWER|PERCENT|off]", help="40kW, 30% (less than now), or off. [default: show events]"),
    ] = None,
    duration: Annotated[str, typer.Option("--for", help="The event ends after this time.")] = "1h",
    begin: Annotated[
        str | None, typer.Option("--from", help="Begin: 17:00 or 2026-12-01T17:00. [default: now]")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, which users see.")] = "the grid asks",
    as_json: JSON = False,
) -> None:
    """Shed load for the grid: cap the power of the site. Without a power, show what was delivered.

    The agent holds starts, sends idle nodes to sleep, caps nodes whose jobs allow it, and requeues jobs that have
    declared a checkpoint, until the draw is below the cap.
    """
    from offpeak.ui.agent.shed import print_events, shed_load

    if target is None:
        print_events(chosen.read(), as_json=as_json)
    else:
        shed_load(chosen.read(), target, duration, begin, reason)


@settings_options("ledger.url", find_file=users_settings_path)
def history(
    chosen: CommandSettings,
    since: START = None,
    end: END = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help='Node set such as n[001-064], "job 1841" or queue. [default: all]')
    ] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Show each step of a sleep and of a wake in a row of its own.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Show decisions and actions from the ledger, newest first."""
    from offpeak.ui.agent.history import print_history

    print_history(chosen.read().ledger, (since, end), subject, with_steps=steps, as_json=as_json)
