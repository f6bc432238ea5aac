"""`offpeak queue`, `why` and `history`: where jobs stand and why, and what was decided and done."""

import re
from typing import Annotated

import typer

from offpeak.errors import BadInput
from ui.agent.command import JSON, LEDGER, SOCKET, asked_settings
from ui.ledger.command import END, START
from ui.options import CONFIG

JOB_ID = re.compile(r"\d[\w.+,%:\[\]-]{0,99}", re.ASCII)


def queue(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Jobs of this user only.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Jobs of this partition only.")] = None,
    socket: SOCKET = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Show the pending jobs as the agent has put them, with what moved each; others than operators see their own."""
    settings = asked_settings(config, socket, None)
    from ui.agent.answer import print_queue

    print_queue(settings, user=user, partition=partition, as_json=as_json)


def why(
    job_id: Annotated[str, typer.Argument(metavar="JOBID", help="A pending job, as squeue shows it.")],
    socket: SOCKET = None,
    url: LEDGER = None,
    as_json: JSON = False,
    config: CONFIG = None,
) -> None:
    """Say why a job waits: its place, the price hour, until when it is kept back, what that saves, how to opt out."""
    if not JOB_ID.fullmatch(job_id):
        raise BadInput(f"{job_id!r} is no job id", hint="`squeue --me` shows those of your jobs")
    settings = asked_settings(config, socket, url)
    from ui.agent.answer import print_why

    print_why(settings, job_id, as_json=as_json)


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
    """Show what was decided and done, newest first, from the ledger."""
    settings = asked_settings(config, None, url)
    # What answers loads SQLAlchemy, which `offpeak --version` must not wait for.
    from ui.agent.history_answer import print_history

    print_history(settings.ledger, (since, end), subject, as_json=as_json)
