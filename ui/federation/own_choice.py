"""The choice that `offpeak choose` makes itself where no broker runs, by what is kept of the sites or what they say."""

from functools import partial
from typing import Any

import typer

from offpeak.errors import OffpeakError
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from plugin.federation.jobs import parse_goal
from power.broker.chosen import choice_of
from power.broker.federation import Federation, federation_now
from power.broker.parcel import Parcel, Wishes, parcel_of
from ui.federation.job import JobFile


def choose_without_broker(settings: Settings, job: JobFile) -> dict[str, Any]:
    """Return where the job would go, as `choice_json` has it."""
    federation = _add_submitted_jobs(federation_of(settings), settings.ledger)
    return choice_of(federation, job_request_in(job, federation))


def federation_of(settings: Settings) -> Federation:
    """Return the federation as it is now."""
    return federation_now(settings.broker, socket=settings.agent.socket, state_folder=settings.agent.state_folder)


def job_request_in(job: JobFile, federation: Federation) -> Parcel:
    """Return the job as it is handed over; BadInput for what makes no sense."""
    wishes = Wishes(parse_goal(job.goal), job.latest_end_s, job.cores, job.limit_s, job.application)
    return parcel_of(job.script, job.name, job.arguments, wishes=wishes, grid=federation.grid)


def _add_submitted_jobs(federation: Federation, settings: LedgerSettings) -> Federation:
    """Return the federation with the jobs that its sites were given, as far as who asks may read the ledger."""
    if federation.sent is not None:
        return federation
    # Slow to import: who chooses by what a poller has kept does without.
    from offpeak.ledger.database import open_ledger, sqlite_file
    from offpeak.ledger.submissions import list_submissions
    from power.broker.sent_jobs import with_sent

    try:
        file = sqlite_file(settings.url)
        if file and not file.exists():
            return federation
        with open_ledger(settings.url) as connection:
            return with_sent(federation, partial(list_submissions, connection))
    except (OffpeakError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        typer.echo(f"offpeak: jobs that were submitted before are not counted: {why}", err=True)
        return federation
