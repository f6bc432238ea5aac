"""Format the agent's replies for a terminal: its status, one job, and the queue as a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from rich.table import Table

from offpeak.display import clock_text, minute_text, power_text
from offpeak.model.constants import J_PER_KWH
from offpeak.text import counted, printable
from services.agent.status import JobStatus, PriceStatus, StatusReply

LATE_CYCLES, LEAST_LATE_S = 3, 15.0
"""An agent hangs if its last cycle is older than this many cycles and this many real seconds."""
NOT_KNOWN = "not known"
NO_PROMISE = "by its begin time; other jobs may still go first"
"""offpeak limits only the begin time that it sets. After it the queue decides, which offpeak also reorders."""

QUEUE_COLUMNS = ("job", "user", "partition", "nodes", "state", "place", "moved", "W/node", "starts", "latest", "why")
RIGHT_ALIGNED = ("nodes", "place", "W/node", "starts", "latest")


@dataclass(frozen=True)
class LocalClock:
    """The present, and the zone on whose clock times are shown."""

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
    saved = reply.saved_today
    energy = NOT_KNOWN if saved.energy_j is None else f"{saved.energy_j / J_PER_KWH:,.2f} kWh"
    cost = "" if saved.cost is None else f", {saved.cost:,.2f} {saved.currency}"
    drawn = "" if reply.nodes.watts is None else f"; {power_text(reply.nodes.watts)} drawn"
    site = f"{reply.cluster} ({reply.scheduler})" if reply.cluster else reply.scheduler
    return [
        f"{site}: mode {reply.mode}, {_last_round_text(reply, clock)}",
        f"price        {price_text(reply.price, clock)}",
        f"nodes        {counts_text(reply.nodes.counts) or 'none'}{drawn}",
        f"saved today  {energy}{cost}",
        *(f"- {printable(each)}" for each in reply.problems),
    ]


def why_lines(reply: StatusReply, clock: LocalClock) -> list[str]:
    """Return the status of the requested job, one line for each part."""
    (job,) = reply.jobs
    whose = f"job {job.job_id} of {job.user}, {job.partition}, {counted(job.nodes, 'node')}: {job.state}"
    lines = [
        printable(whose),
        f"place      {_place_text(job)}",
        f"why        {printable(job.why)}",
        f"price      {price_text(reply.price, clock)}",
        f"starts     {clock.text(job.would_start_unix_s)}, as it looks now",
        f"latest     {clock.text(job.latest_start_unix_s)}" + (f" {NO_PROMISE}" if job.latest_start_unix_s else ""),
        f"saving     {_saving_text(job)}",
        f"opt out    {_opt_out_text(job, reply.scheduler)}",
    ]
    return lines if reply.mode == "active" else [*lines, f"mode       {reply.mode}: nothing is carried out"]


def queue_table(jobs: Iterable[JobStatus], clock: LocalClock) -> Table:
    """Return a table with a row for each job, in the given order."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in QUEUE_COLUMNS:
        table.add_column(header, justify="right" if header in RIGHT_ALIGNED else "left")
    for job in jobs:
        watts = "" if job.watts_per_node is None else f"{job.watts_per_node:,.0f}"
        times = [clock.text(each) if each else "" for each in (job.would_start_unix_s, job.latest_start_unix_s)]
        place = "" if job.place is None else f"{job.place}/{job.of}"
        moved = "opted out" if job.opted_out else job.moved
        cells = (job.job_id, job.user, job.partition, str(job.nodes), job.state, place, moved, watts, *times, job.why)
        table.add_row(*map(printable, cells))
    return table


def counts_text(counts: Sequence[tuple[str, int]]) -> str:
    """Return "2 off, 14 on"."""
    return ", ".join(f"{count} {state}" for state, count in counts)


def price_text(price: PriceStatus, clock: LocalClock) -> str:
    """Return the current price, the end of its interval, and its source."""
    if price.now is None:
        return NOT_KNOWN
    peak = {True: ", on-peak", False: ", off-peak", None: ""}[price.on_peak]
    until = "" if price.until_unix_s is None else f" until {clock.text(price.until_unix_s)}"
    return printable(f"{price.now:,.2f} {price.unit}{peak}{until} ({price.basis})")


def _last_round_text(reply: StatusReply, clock: LocalClock) -> str:
    until_s = reply.first_round_until_unix_s
    if until_s is not None and clock.now_unix_s > until_s:
        return f"IT HANGS: its first cycle was due to end by {clock.text(until_s)}"
    if until_s is not None:
        return f"starting: its first cycle is running, until {clock.text(until_s)} at the latest"
    if not reply.has_looked:
        return f"NO DATA YET: no cycle has succeeded, it tries every {clock_text(reply.cycle_s)}"
    age_s = max(0.0, clock.now_unix_s - reply.at_unix_s)
    late = ": IT HANGS" if age_s > max(LATE_CYCLES * reply.cycle_s, LEAST_LATE_S * reply.clock_factor) else ""
    return f"looked {clock_text(age_s)} ago, every {clock_text(reply.cycle_s)}{late}"


def _place_text(job: JobStatus) -> str:
    if job.place is None:
        return "as the scheduler has it"
    return f"{job.place} of {job.of}" + (f", {job.moved} from where the scheduler had it" if job.moved else "")


def _saving_text(job: JobStatus) -> str:
    return NOT_KNOWN if job.expected_saving is None else f"{job.expected_saving:,.2f} {job.currency} expected"


def _opt_out_text(job: JobStatus, scheduler: str) -> str:
    if job.opted_out:
        return "done: offpeak does not change it"
    if scheduler.startswith("slurm"):
        return f"scontrol update jobid={job.job_id} comment=offpeak:now"
    return "submit it with -v OFFPEAK=now"
