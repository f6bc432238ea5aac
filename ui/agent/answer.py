"""Print `offpeak status`, `queue` and `why`: the agent's reply or, without an agent, the last records of the ledger."""

import json
import time
from typing import Any

import typer

from offpeak.display import iso_text
from offpeak.errors import OffpeakError
from offpeak.model.local_time import machine_zone
from offpeak.settings.table import Settings
from services.agent.status import AgentSilent, StatusReply, fetch_status, status_json
from ui.agent.text import LocalClock, counts_text, queue_table, status_lines, why_lines
from ui.ledger.text import print_table, rows_json, with_times

STATUS_KEYS = ("price", "mode", "cluster", "scheduler", "at_unix_s")


def print_status(settings: Settings, *, as_json: bool) -> None:
    """Print the agent's status. If no agent answers, print the last records and raise AgentSilent."""
    try:
        reply = fetch_status(settings.agent.socket, ask="status")
    except AgentSilent as silent:
        _print_recorded_nodes(settings, silent, as_json=as_json)
        raise _with_last_record(settings, silent) from None
    if as_json:
        typer.echo(json.dumps(status_json(reply), indent=2))
        return
    for line in status_lines(reply, _agent_clock(reply)):
        typer.echo(line)


def print_queue(settings: Settings, *, user: str | None, partition: str | None, as_json: bool) -> None:
    """Print the jobs that the user may see; raise AgentSilent if no agent answers."""
    try:
        reply = fetch_status(settings.agent.socket, ask="queue")
    except AgentSilent as silent:
        raise _with_last_record(settings, silent) from None
    jobs = [job for job in reply.jobs if user in (None, job.user) and partition in (None, *job.partition.split(","))]
    if as_json:
        zone = machine_zone()
        typer.echo(rows_json([with_times(vars(job), zone) for job in jobs]), nl=False)
    elif jobs:
        print_table(queue_table(jobs, _agent_clock(reply)))
    else:
        typer.echo("no pending job that you may see" if reply.jobs == () else "no such job")


def print_why(settings: Settings, job_id: str, *, as_json: bool) -> None:
    """Print why the job waits. If no agent answers, print the last decision and raise AgentSilent."""
    try:
        reply = fetch_status(settings.agent.socket, ask="why", job=job_id)
    except AgentSilent as silent:
        _print_last_decision(settings, job_id, silent, as_json=as_json)
        raise _with_last_record(settings, silent) from None
    if as_json:
        around: dict[str, Any] = {key: value for key, value in status_json(reply).items() if key in STATUS_KEYS}
        typer.echo(json.dumps(with_times(vars(reply.jobs[0]), machine_zone()) | around, indent=2))
        return
    for line in why_lines(reply, _agent_clock(reply)):
        typer.echo(line)


def _print_recorded_nodes(settings: Settings, silent: AgentSilent, *, as_json: bool) -> None:
    # SQLAlchemy is slow to import, and an agent that answers needs none of it.
    from ui.agent.ledger_answer import node_counts

    counts = _read_ledger(lambda: node_counts(settings.ledger), silent)
    if as_json:
        typer.echo(json.dumps({"nodes": counts, "trouble": str(silent)}, indent=2))
    elif counts:
        typer.echo(f"nodes, as last recorded: {counts_text(counts)}")


def _print_last_decision(settings: Settings, job_id: str, silent: AgentSilent, *, as_json: bool) -> None:
    from ui.agent.ledger_answer import read_decisions

    zone = machine_zone()
    found = _read_ledger(lambda: read_decisions(settings.ledger, f"job {job_id}"), silent)
    if as_json:
        typer.echo(rows_json([with_times(each, zone) for each in found]), nl=False)
        return
    for each in found[:1]:
        typer.echo(
            f"job {job_id}, as last recorded {iso_text(each['at_unix_s'], zone)}: {each['decided']}: {each['reason']}"
        )


def _with_last_record(settings: Settings, silent: AgentSilent) -> AgentSilent:
    """Return the error with the time of the agent's last record, if the user may read the ledger."""
    from ui.agent.ledger_answer import read_last_record_unix_s

    since = _read_ledger(lambda: read_last_record_unix_s(settings.ledger), silent)
    text = f"; its last record is of {iso_text(since, machine_zone())}" if since else ""
    return AgentSilent(f"{silent}{text}", hint=silent.hint)


def _read_ledger(read: Any, silent: AgentSilent) -> Any:
    """Return the result of `read`; raise `silent` if the user may not read the ledger."""
    try:
        return read()
    except (OffpeakError, OSError):
        raise silent from None


def _agent_clock(reply: StatusReply) -> LocalClock:
    """Return the agent's clock, which may run faster than this machine's."""
    now_s = time.time() if reply.now_unix_s is None else reply.now_unix_s
    return LocalClock(now_s, machine_zone())
