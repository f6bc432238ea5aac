"""Print `offpeak status`, `queue` and `why`: the agent's reply or, without an agent, the last records of the ledger."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from textwrap import wrap
from typing import Any

import typer

from offpeak.display import NOT_KNOWN, duration_text, figure, iso_text, minute_text, money_text, power_text
from offpeak.errors import BadInput, OffpeakError
from offpeak.model.zones import machine_zone
from offpeak.services.accounts.account_of_savings import saving_text, shadow_text
from offpeak.services.agent.status import (
    AgentSilent,
    ForecastStatus,
    JobStatus,
    PriceStatus,
    StatusReply,
    fetch_status,
    status_json,
)
from offpeak.settings.table import Settings
from offpeak.text import counted, printable
from offpeak.ui.records import rows_json, with_times
from offpeak.ui.terminal import TextTable, print_table, text_table

LATE_CYCLES, LEAST_LATE_S = 3, 15.0
SCHEDULER_PATIENCE_S = 180.0
"""A round takes longer while a scheduler gives no answer: its commands have a minute each."""
"""An agent hangs if its last cycle is older than this many cycles and this many real seconds."""
LONGEST_PROBLEM = 1000
"""Letters: a problem ends with what to do, which must not be cut off."""
PROMISE = "the latest begin time that offpeak sets; then it waits for nodes like any other"
"""offpeak limits only the begin time that it sets. After it the queue decides, which offpeak also reorders."""

OPT_OUT = "offpeak:now"
LABEL_WIDTH, TEXT_WIDTH = 11, 80
NO_BREAK = "\0"

QUEUE_COLUMNS = ("job", "user", "partition", "nodes", "state", "place", "moved", "W/node", "starts", "latest", "why")
RIGHT_ALIGNED = ("nodes", "place", "W/node", "starts", "latest")


@dataclass(frozen=True)
class LocalClock:
    """The current time, and the time zone of displayed times."""

    now_unix_s: float
    zone: tzinfo

    def text(self, unix_s: float | None) -> str:
        """Return "21:00", with its date where that is another day than today."""
        if unix_s is None:
            return NOT_KNOWN
        then, now = (datetime.fromtimestamp(each, self.zone) for each in (unix_s, self.now_unix_s))
        return f"{then:%H:%M}" if then.date() == now.date() else minute_text(unix_s, self.zone)


def status_lines(reply: StatusReply, clock: LocalClock) -> list[str]:
    """Return the agent's status, one line for each part."""
    drawn = "" if reply.nodes.watts is None else f"; {power_text(reply.nodes.watts)} drawn"
    site = f"{reply.cluster} ({reply.scheduler})" if reply.cluster else reply.scheduler
    lease = [f"lease        {printable(reply.lease.text)}"] if reply.lease else []
    if reply.lease and not reply.lease.is_active and not reply.has_looked:
        return [*lease, *_problem_lines(reply)]
    return [
        f"{site}: mode {reply.mode}, {_last_round_text(reply, clock)}",
        *([f"scheduler    {printable(reply.scheduler_use.text)}"] if reply.scheduler_use.text else ()),
        f"price        {price_text(reply.price, clock)}",
        f"nodes        {counts_text(reply.nodes.counts) or 'none'}{drawn}",
        f"saved today  {saving_text(reply.saved_today)}",
        *([f"in shadow    {shadow_text(reply.shadow_today)}"] if reply.shadow_today.levers else ()),
        *(f"demand       {printable(each.text(clock.zone))}" for each in reply.demand),
        *(f"capacity     {printable(each)}" for each in reply.capacity),
        *(f"forecast     {_forecast_text(each)}" for each in reply.forecasts),
        *lease,
        *([f"queue        {_own_policy_text(reply)}"] if reply.own_policy else ()),
        *_problem_lines(reply),
    ]


def _problem_lines(reply: StatusReply) -> list[str]:
    return [f"- {printable(problem, enough=LONGEST_PROBLEM)}" for problem in reply.problems]


def why_lines(reply: StatusReply, clock: LocalClock) -> list[str]:
    """Return the status of the requested job, one line for each part."""
    (job,) = reply.jobs
    whose = f"job {job.job_id} of {job.user}, {job.partition}, {counted(job.nodes, 'node')}: {job.state}"
    lines = [
        printable(whose),
        f"why        {why_text(job)}",
        *([f"starts     {starts_text(job, clock)}"] if job.cause else ()),
        *([f"you can    {printable(job.remedy, enough=LONGEST_PROBLEM)}"] if job.remedy else ()),
        *([f"saves      {saves_text(job)}"] if job.cause else ()),
        *([f"latest     {clock.text(job.latest_start_unix_s)}, {PROMISE}"] if job.latest_start_unix_s else ()),
        *([f"place      {_place_text(job)}"] if job.place is not None else ()),
        f"price      {price_text(reply.price, clock)}",
        *([f"tier       {printable(job.tier)}"] if job.tier else ()),
        *(
            [f"opt out    {_opt_out_text(job, reply.scheduler)}"]
            if job.cause and not (OPT_OUT in job.remedy or "OFFPEAK=now" in job.remedy)
            else ()
        ),
    ]
    if reply.mode != "active":
        lines.append(f"mode       {reply.mode}: offpeak records what it would do, and changes nothing")
    elif reply.own_policy_is_shadowed:
        lines.append(f"order      {_own_policy_text(reply)}")
    return [part for line in lines for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """Return the line in lines of 80 columns; a command in backquotes stays on one line."""
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", NO_BREAK), line)
    texts = wrap(whole, TEXT_WIDTH, subsequent_indent=LABEL_WIDTH * " ", break_long_words=False, break_on_hyphens=False)
    return [text.replace(NO_BREAK, " ") for text in texts]


def why_text(job: JobStatus) -> str:
    """Return the cause of the wait in a word, and in a sentence."""
    text = printable(job.why, enough=LONGEST_PROBLEM)
    return f"{job.cause}: {text}" if job.cause else text or "it has its nodes"


def starts_text(job: JobStatus, clock: LocalClock) -> str:
    """Return the expected start with its range, or what has to happen first."""
    if job.would_start_unix_s is None:
        return printable(job.start_condition, enough=LONGEST_PROBLEM) or NOT_KNOWN
    at = clock.text(job.would_start_unix_s)
    low, high = clock.text(job.starts_from_unix_s), clock.text(job.starts_by_unix_s)
    return f"about {at}" if low == high else f"about {at}; 80 % of such jobs start between {low} and {high}"


def saves_text(job: JobStatus) -> str:
    """Return what the wait saves, or what a delay would save."""
    if job.saves:
        return printable(job.saves, enough=LONGEST_PROBLEM)
    return NOT_KNOWN if job.expected_saving is None else f"{money_text(job.expected_saving, job.currency)} expected"


def _forecast_text(forecast: ForecastStatus) -> str:
    by = f"{forecast.about} by {forecast.used}"
    if forecast.mae is None:
        return printable(f"{by}, no outcome yet")
    naive = f", by {forecast.naive} {_error_text(forecast.naive_mae, forecast.unit)}"
    errors = _error_text(forecast.mae, forecast.unit) + (naive if forecast.used != forecast.naive else "")
    return printable(f"{by}: mean error {errors} ({counted(forecast.outcomes, 'outcome')})")


def _error_text(mae: float | None, unit: str) -> str:
    if mae is None:
        return NOT_KNOWN
    return duration_text(mae) if unit == "s" else f"{figure(mae)} {unit}"


def _own_policy_text(reply: StatusReply) -> str:
    mode = ", in mode shadow until allow_own_policies = true" if reply.own_policy_is_shadowed else ""
    return printable(f"own policy {reply.own_policy}{mode}")


def queue_table(jobs: Iterable[JobStatus], clock: LocalClock) -> TextTable:
    """Return a table with a row for each job, in the given order."""
    rows = []
    for job in jobs:
        watts = "" if job.watts_per_node is None else f"{job.watts_per_node:,.0f}"
        times = [clock.text(each) if each else "" for each in (job.would_start_unix_s, job.latest_start_unix_s)]
        place = "" if job.place is None else f"{job.place}/{job.of}"
        moved = "opted out" if job.opted_out else job.moved
        rows.append(
            (job.job_id, job.user, job.partition, str(job.nodes), job.state, place, moved, watts, *times, job.why)
        )
    texts = [at for at, header in enumerate(QUEUE_COLUMNS) if header not in RIGHT_ALIGNED]
    return text_table(QUEUE_COLUMNS, rows, texts=texts, spare=("partition", "W/node"))


def counts_text(counts: Sequence[tuple[str, int]]) -> str:
    """Return "2 off, 14 on"."""
    return ", ".join(f"{count} {state}" for state, count in counts)


def price_text(price: PriceStatus, clock: LocalClock) -> str:
    """Return the current price, the end of its interval, and its source."""
    if price.now is None:
        return NOT_KNOWN
    peak = {True: ", on-peak", False: ", off-peak", None: ""}[price.on_peak]
    if price.decided_by:
        peak = (peak or ", not known") + f" by {price.decided_by}"
    until = "" if price.until_unix_s is None else f" until {clock.text(price.until_unix_s)}"
    return printable(f"{money_text(price.now, price.unit)}{peak}{until} ({price.basis})")


def _last_round_text(reply: StatusReply, clock: LocalClock) -> str:
    until_s = reply.first_round_until_unix_s
    if until_s is not None and clock.now_unix_s > until_s:
        return f"IT HANGS: its first cycle was due to end by {clock.text(until_s)}"
    if until_s is not None:
        return f"starting: its first cycle is running, until {clock.text(until_s)} at the latest"
    if not reply.has_looked:
        return f"NO DATA YET: no cycle has succeeded, it tries every {duration_text(reply.cycle_s)}"
    age_s = max(0.0, clock.now_unix_s - reply.at_unix_s)
    late = f": {_cause_of_delay(reply, clock)}" if _is_late(age_s, reply) else ""
    return f"looked {duration_text(age_s)} ago, every {duration_text(reply.cycle_s)}{late}"


def _is_late(age_s: float, reply: StatusReply) -> bool:
    return age_s > max(LATE_CYCLES * reply.cycle_s, LEAST_LATE_S * reply.clock_factor)


def _cause_of_delay(reply: StatusReply, clock: LocalClock) -> str:
    """Return whether the agent hangs, or only gets no answer: then its rounds still end, though without success."""
    ended_s = reply.last_round_unix_s
    patience_s = SCHEDULER_PATIENCE_S * reply.clock_factor
    if ended_s is None or _is_late(clock.now_unix_s - ended_s - patience_s, reply):
        return "IT HANGS"
    return "IT TRIES AGAIN, all its rounds since then have failed"


def _place_text(job: JobStatus) -> str:
    return f"{job.place} of {job.of}" + (f", {job.moved} from where the scheduler had it" if job.moved else "")


def _opt_out_text(job: JobStatus, scheduler: str) -> str:
    if job.opted_out:
        return "done: offpeak does not change it"
    if scheduler.startswith("slurm"):
        return f"`scontrol update jobid={job.job_id} comment={OPT_OUT}`"
    return "submit it again: `qsub -v OFFPEAK=now job.sh`"


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
    """Print why the job waits, or its bill; without an agent the last decision, and raise AgentSilent."""
    try:
        reply = fetch_status(settings.agent.socket, ask="why", job=job_id)
    except AgentSilent as silent:
        _print_last_decision(settings, job_id, silent, as_json=as_json)
        raise _with_last_record(settings, silent) from None
    except BadInput as unknown:
        from offpeak.ui.agent.bills import print_bill

        print_bill(settings, job_id, unknown, as_json=as_json)
        return
    if as_json:
        around: dict[str, Any] = {key: value for key, value in status_json(reply).items() if key in STATUS_KEYS}
        typer.echo(json.dumps(with_times(vars(reply.jobs[0]), machine_zone()) | around, indent=2))
        return
    for line in why_lines(reply, _agent_clock(reply)):
        typer.echo(line)


def _print_recorded_nodes(settings: Settings, silent: AgentSilent, *, as_json: bool) -> None:
    from offpeak.ledger.records import latest_states

    states = _read_ledger(settings, latest_states, silent)
    counts = sorted(Counter(state.observed for state in states.values()).items())
    if as_json:
        typer.echo(json.dumps({"nodes": counts, "trouble": str(silent)}, indent=2))
    elif counts:
        typer.echo(f"nodes, as last recorded: {counts_text(counts)}")


MAX_DECISIONS = 20


def _print_last_decision(settings: Settings, job_id: str, silent: AgentSilent, *, as_json: bool) -> None:
    from offpeak.ledger.records import decisions_of

    zone = machine_zone()
    found = _read_ledger(settings, partial(decisions_of, subject=f"job {job_id}", most=MAX_DECISIONS), silent)
    if as_json:
        typer.echo(rows_json([with_times(each, zone) for each in found]), nl=False)
        return
    for each in found[:1]:
        typer.echo(
            f"job {job_id}, as last recorded {iso_text(each['at_unix_s'], zone)}: {each['decided']}: {each['reason']}"
        )


def _with_last_record(settings: Settings, silent: AgentSilent) -> AgentSilent:
    """Return the error with the time of the agent's last record, if the user may read the ledger."""
    from offpeak.ledger.records import last_written_unix_s

    since = _read_ledger(settings, last_written_unix_s, silent)
    text = f"; its last record is of {iso_text(since, machine_zone())}" if since else ""
    return AgentSilent(f"{silent}{text}", hint=silent.hint)


def _read_ledger(settings: Settings, query: Callable[..., Any], silent: AgentSilent) -> Any:
    """Return the result of a query of the ledger; raise `silent` if the user may not read it."""
    # SQLAlchemy is slow to import, and an agent that answers needs none of it.
    from offpeak.ledger.database import query_ledger

    try:
        return query_ledger(settings.ledger.url, query)
    except (OffpeakError, OSError):
        raise silent from None


def _agent_clock(reply: StatusReply) -> LocalClock:
    """Return the agent's clock, which may run faster than this machine's."""
    now_s = time.time() if reply.now_unix_s is None else reply.now_unix_s
    return LocalClock(now_s, machine_zone())
