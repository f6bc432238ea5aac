"""Run `offpeak submit`: submit a job, show its state, or cancel it."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.process import login_name
from offpeak.settings.table import Settings
from services.broker.federation import TAKEN, TRIED, Federation, check_key, federation_without_reports
from services.broker.submission import Broker, cancel, make_broker, read_job_state, submission_json
from ui.federation.choose_answer import figures_text
from ui.federation.job import JobFile
from ui.federation.own_choice import federation_of, job_request_in
from ui.node_ledger import open_ledger_to_write


def print_submitted(settings: Settings, job: JobFile, key: str | None, *, as_json: bool) -> None:
    """Choose a site, submit the job and print its id; exit 1 if the job was cancelled meanwhile."""
    federation = federation_of(settings)
    request = job_request_in(job, federation)
    keys = request.keys(login_name(), time.time())
    with _broker(settings, federation) as broker:
        began_s = time.time()
        row = asyncio.run(broker.submit(request, check_key(key) if key else _unfinished_key(broker.ledger, keys)))
    _print_result(submission_json(row), submission_text(row, again=row.tried_unix_s < began_s), as_json=as_json)
    if row.state != TAKEN:
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
    if row.state != TAKEN:
        return f"key {row.key}: {row.state}: {row.message}"
    lines.append(f"  {row.answer['reason']}")
    if second := row.answer["second"]:
        lines.append(f"  second best {second['site']}: {figures_text(second)}")
    return "\n".join([*lines, f"  offpeak submit --status {row.key}"])


def job_state_text(state: dict[str, Any]) -> str:
    """Return the state of a job in one line."""
    place = f"job {state['job']} at {state['site']}" if state["job"] else f"key {state['key']}"
    return f"{place}: {state['at_site'] or state['state'] + ': ' + state['said']}"


@contextmanager
def _broker(settings: Settings, federation: Federation) -> Iterator[Broker]:
    with open_ledger_to_write(settings.ledger) as ledger:
        yield make_broker(settings.broker, federation, ledger, by=login_name(), agent_socket=settings.agent.socket)


def _unfinished_key(ledger: Ledger, keys: tuple[str, str]) -> str:
    """Return the key of this time slot, or the one before if its attempt did not complete."""
    now, before = keys
    row = ledger.submission(before)
    return before if row is not None and row.state == TRIED else now


def _print_result(state: dict[str, Any], text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(state, indent=2) if as_json else text)
