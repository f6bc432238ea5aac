"""The choice of `offpeak choose` if no broker runs, from stored or freshly polled snapshots of the sites."""

import time
from functools import partial
from typing import Any

import typer

from offpeak.errors import OffpeakError
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from plugin.federation.jobs import parse_goal
from plugin.federation.sites_file import read_sites
from services.broker.federation import (
    BrokerJob,
    Federation,
    JobPreferences,
    add_sent_jobs,
    make_broker_job,
    make_choice,
    read_snapshots,
)
from ui.federation.job import JobFile


def choose_without_broker(settings: Settings, job: JobFile) -> dict[str, Any]:
    """Return the choice for the job, in the format of `choice_json`."""
    federation = _add_submitted_jobs(federation_of(settings), settings.ledger)
    return make_choice(federation, job_request_in(job, federation))


def federation_of(settings: Settings) -> Federation:
    """Return the federation from stored snapshots, else poll all sites; raise BadSites for an invalid file of sites."""
    broker, agent = settings.broker, settings.agent
    grid = read_sites(broker.sites)
    # Snapshots of two polls ago still count, so that commands do not poll while a poll is running.
    oldest_unix_s = time.time() - 2 * broker.poll_s - broker.timeout_s
    kept = read_snapshots(agent.state_folder, not_before_unix_s=oldest_unix_s)
    if kept is not None and set(grid.names) <= set(kept.replies):
        return Federation(grid, kept.replies, broker.stale_s, kept.sent)
    # Slow to import, and rarely needed: asyncio and the web.
    import asyncio

    from services.broker.site_poller import poll_sites

    replies = asyncio.run(poll_sites(grid.sites, socket=agent.socket, timeout_s=broker.timeout_s))
    return Federation(grid, replies, broker.stale_s)


def job_request_in(job: JobFile, federation: Federation) -> BrokerJob:
    """Return the job as the broker takes it; raise BadInput for an invalid one."""
    preferences = JobPreferences(parse_goal(job.goal), job.latest_end_s, job.cores, job.limit_s, job.application)
    return make_broker_job(job.script, job.name, job.arguments, preferences=preferences, grid=federation.grid)


def _add_submitted_jobs(federation: Federation, settings: LedgerSettings) -> Federation:
    """Return the federation with the jobs submitted to its sites, if the user may read the ledger."""
    if federation.sent is not None:
        return federation
    # Slow to import, and not needed with stored snapshots.
    from offpeak.ledger.database import open_ledger, sqlite_file
    from offpeak.ledger.submissions import list_submissions

    try:
        file = sqlite_file(settings.url)
        if file and not file.exists():
            return federation
        with open_ledger(settings.url) as connection:
            return add_sent_jobs(federation, partial(list_submissions, connection))
    except (OffpeakError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        typer.echo(f"offpeak: jobs that were submitted before are not counted: {why}", err=True)
        return federation
