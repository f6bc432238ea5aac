"""The commands of a federation: `offpeak submit`, `snapshot` and `broker`.

`submit` finds the best site for a job; `snapshot` prints what a site reports to brokers; `broker` polls
the sites and answers portals over HTTP.
"""

from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.model.time_range import parse_instant, parse_limit_s
from offpeak.ui.options import JSON, CommandSettings, settings_options

SCRIPT = Annotated[Path | None, typer.Argument(metavar="JOB.sh", help="The job's script, as for sbatch or qsub.")]
ARGUMENTS = Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="Arguments of the script.")]
GOAL = Annotated[
    str | None,
    typer.Option(help="What to minimise: co2, cost, energy or time.", show_default="co2, or the weights of mcmf"),
]
DATA = Annotated[str | None, typer.Option(help="Size of the data that moves with the job, such as 20GB.")]
DATA_AT = Annotated[str | None, typer.Option("--data-at", metavar="SITE", help="Site of the data.")]
LATEST = Annotated[
    str | None, typer.Option("--latest-finish", help="Latest end; the job may be delayed up to it: 2026-11-22T08:00.")
]
CORES = Annotated[int | None, typer.Option(min=1, help="Cores, if the script does not request any.")]
TIME = Annotated[str | None, typer.Option("--time", help="Time limit, such as 2h.")]
APPLICATION = Annotated[str | None, typer.Option(help="Name of the application, if sites rank it.")]


@settings_options("broker.mode", "broker.policy", "broker.sites", "agent.socket", "ledger.url")
def submit(
    chosen: CommandSettings,
    script: SCRIPT = None,
    arguments: ARGUMENTS = None,
    goal: GOAL = None,
    latest_finish: LATEST = None,
    cores: CORES = None,
    time: TIME = None,
    application: APPLICATION = None,
    data: DATA = None,
    data_at: DATA_AT = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the job: repeated submissions with one key make one job.")
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="KEY", help="Show the state of the job with this key.")] = None,
    cancel: Annotated[str | None, typer.Option(metavar="KEY", help="Cancel the job with this key.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the best site, the reason, and the second best; submit nothing.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Submit a job to the best site, once; or show or cancel it."""
    if sum(each is not None for each in (script, status, cancel)) != 1:
        raise BadInput("give a script, --status KEY or --cancel KEY", hint="offpeak submit job.sh")
    settings = chosen.read()
    from offpeak.ui.federation.choose import JobOptions, ask_broker, print_choice, read_job_file

    options = JobOptions(
        goal=goal,
        latest_end_s=None if latest_finish is None else int(parse_instant(latest_finish)),
        cores=cores,
        limit_s=None if time is None else parse_limit_s(time),
        application=application,
        data=data,
        data_at=data_at,
    )
    job = None if script is None else read_job_file(script, tuple(arguments or ()), options)
    choice = ask_broker(settings, job) if job and dry_run else None
    if choice is None:
        # Slow to import: numpy, pydantic, SQLAlchemy and the site selection.
        from offpeak.ui.federation import without_daemon as answer

    if job and dry_run:
        print_choice(choice or answer.choose_without_broker(settings, job), as_json=as_json)
    elif job:
        answer.print_submitted(settings, job, key, as_json=as_json)
    elif status is not None:
        answer.print_job_state(settings, status, as_json=as_json)
    else:
        answer.print_cancelled(settings, str(cancel), as_json=as_json)


@settings_options("agent.socket")
def snapshot(chosen: CommandSettings) -> None:
    """Print this site's report to brokers as JSON. It has free resources, expected waits, prices and CO2."""
    # Brokers run this over ssh every few seconds, so that it imports little, and only here.
    import asyncio

    from offpeak.services.agent.status import AgentSilent
    from offpeak.services.broker.client import read_agent_snapshot

    agent_socket = chosen.read().agent.socket
    try:
        typer.echo(asyncio.run(read_agent_snapshot(agent_socket)).decode())
    except OSError as problem:
        hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
        raise AgentSilent(f"no agent answers at {agent_socket}: {problem.strerror}", hint=hint) from None


@settings_options(
    *("broker.mode", "broker.policy", "broker.sites", "broker.poll", "broker.token_file", "broker.secret_file"),
    *("agent.socket", "agent.state_folder", "ledger.url"),
)
def broker(
    chosen: CommandSettings,
    context: typer.Context,
    listen: Annotated[str, typer.Option(help="Address and port, without TLS.")] = "127.0.0.1:8450",
) -> None:
    """Choose sites and submit for portals that present the token."""
    from offpeak.services.broker.servers import run_broker

    context.exit(run_broker(chosen.read(), listen))
