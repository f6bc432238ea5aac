"""Choose a site and submit a job without a running broker: `offpeak submit`, with --dry-run if no broker runs.

The choice uses stored snapshots of the sites, or polls them. It imports numpy.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from offpeak.errors import OffpeakError
from offpeak.files import is_there
from offpeak.ledger.database import open_ledger, sqlite_file
from offpeak.ledger.ledger import Ledger, open_ledger_to_write
from offpeak.ledger.rows import SubmissionRecord
from offpeak.ledger.submissions import list_submissions
from offpeak.plugin.federation.sites_file import read_sites
from offpeak.process import login_name
from offpeak.services.broker.federation import (
    TAKEN,
    TRIED,
    WAITING,
    BrokerJob,
    Federation,
    add_sent_jobs,
    check_key,
    federation_without_reports,
    make_broker_job,
    make_choice,
    make_federation,
    make_preferences,
    read_snapshots,
)
from offpeak.services.broker.placement_cycle import check_daemon
from offpeak.services.broker.submission import Broker, cancel, make_broker, read_job_state, submission_json
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.ui.federation.choose import JobFile, figures_text


def choose_without_broker(settings: Settings, job: JobFile) -> dict[str, Any]:
    """Return the choice for the job, in the format of `choice_json`."""
    federation = _add_submitted_jobs(federation_of(settings), settings.ledger)
    return make_choice(federation, job_request_in(job, federation, settings.broker.policy))


def federation_of(settings: Settings) -> Federation:
    """Return the federation from stored snapshots, else poll all sites; raise BadSites for an invalid file of sites."""
    broker, agent = settings.broker, settings.agent
    grid = read_sites(broker.sites)
    # Snapshots of two polls ago still count, so that commands do not poll while a poll is running.
    oldest_unix_s = time.time() - 2 * broker.poll_s - broker.timeout_s
    kept = read_snapshots(agent.state_folder, not_before_unix_s=oldest_unix_s)
    if kept is not None and set(grid.names) <= set(kept.replies):
        return make_federation(broker, grid, kept.replies, kept.sent)
    # Slow to import, and rarely needed: the web.
    from offpeak.services.broker.site_poller import poll_sites

    replies = asyncio.run(poll_sites(grid.sites, socket=agent.socket, timeout_s=broker.timeout_s))
    return make_federation(broker, grid, replies)


def job_request_in(job: JobFile, federation: Federation, policy: str) -> BrokerJob:
    """Return the job as the broker takes it; raise BadInput for an invalid one."""
    preferences = make_preferences(policy, **vars(job.options))
    return make_broker_job(job.script, job.name, job.arguments, preferences=preferences, grid=federation.grid)


def _add_submitted_jobs(federation: Federation, settings: LedgerSettings) -> Federation:
    """Return the federation with the jobs submitted to its sites, if the user may read the ledger."""
    if federation.sent is not None:
        return federation
    try:
        file = sqlite_file(settings.url)
        if file and not is_there(file):
            return federation
        with open_ledger(settings.url) as connection:
            return add_sent_jobs(federation, partial(list_submissions, connection))
    except (OffpeakError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        typer.echo(f"offpeak: jobs that were submitted before are not counted: {why}", err=True)
        return federation


def print_submitted(settings: Settings, job: JobFile, key: str | None, *, as_json: bool) -> None:
    """Choose a site, submit the job and print its id, or store it for the next cycle; exit 1 if it was cancelled."""
    federation = federation_of(settings)
    request = job_request_in(job, federation, settings.broker.policy)
    keys = request.keys(login_name(), time.time())
    with _broker(settings, federation) as broker:
        if broker.cycle_s is not None:
            check_daemon(settings.broker, broker.ledger, time.time())
        began_s = time.time()
        row = asyncio.run(broker.submit(request, check_key(key) if key else _unfinished_key(broker.ledger, keys)))
    _print_result(submission_json(row), submission_text(row, again=row.tried_unix_s < began_s), as_json=as_json)
    if row.state not in (TAKEN, WAITING):
        raise typer.Exit(1)


def print_job_state(settings: Settings, key: str, *, as_json: bool) -> None:
    """Print the state of the job with this key."""
    with _broker(settings, federation_without_reports(settings.broker)) as broker:
        state = asyncio.run(read_job_state(broker, check_key(key)))
    _print_result(state, job_state_text(state), as_json=as_json)


def print_cancelled(settings: Settings, key: str, *, as_json: bool) -> None:
    """Cancel the job with this key."""
    with _broker(settings, federation_without_reports(settings.broker)) as broker:
        state = submission_json(asyncio.run(cancel(broker, check_key(key))))
    _print_result(state, job_state_text(state), as_json=as_json)


def submission_text(row: SubmissionRecord, *, again: bool) -> str:
    """Return the id of the submitted job, and the command that shows its state."""
    lines = [f"{'already submitted' if again else 'submitted'}: job {row.job} at {row.site}, key {row.key}"]
    if row.state == WAITING:
        return f"key {row.key}: {row.message}\n  offpeak submit --status {row.key}"
    if row.state != TAKEN:
        return f"key {row.key}: {row.state}: {row.message}"
    lines.append(f"  {row.answer['reason']}")
    if second := row.answer["second"]:
        lines.append(f"  second best {second['site']}: {figures_text(second)}")
    # A site that was left out may be the cheaper one.
    lines += [f"- {site}: {text}" for site, text in row.answer.get("misses", {}).items()]
    return "\n".join([*lines, f"  offpeak submit --status {row.key}"])


def job_state_text(state: dict[str, Any]) -> str:
    """Return the state of a job in one line, and the reason of its site in the next."""
    place = f"job {state['job']} at {state['site']}" if state["job"] else f"key {state['key']}"
    line = f"{place}: {state['at_site'] or state['state'] + ': ' + state['said']}"
    reason = state["choice"].get("reason") if state["job"] else None
    return f"{line}\n  {reason}" if reason else line


@contextmanager
def _broker(settings: Settings, federation: Federation) -> Iterator[Broker]:
    with open_ledger_to_write(settings.ledger) as ledger:
        yield make_broker(settings.broker, federation, ledger, by=login_name(), agent_socket=settings.agent.socket)


def _unfinished_key(ledger: Ledger, keys: tuple[str, str]) -> str:
    """Return the key of this time slot, or the one before if its job waits or its attempt did not complete."""
    now, before = keys
    row = ledger.submission(before)
    return before if row is not None and row.state in (TRIED, WAITING) else now


def _print_result(state: dict[str, Any], text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(state, indent=2) if as_json else text)
