"""Print `offpeak jobs`, and `offpeak why` of a job that has ended: energy, cost, CO2, its own part of the saving."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

import typer

from offpeak.display import (
    NOT_KNOWN,
    amount_text,
    co2_text,
    duration_text,
    energy_text,
    idle_hours_text,
    minute_text,
    money_text,
)
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.job_costs import known_sum
from offpeak.model.constants import HOUR_S, J_PER_KWH
from offpeak.model.time_range import parse_range
from offpeak.predictors.feeds.markets import site_zone
from offpeak.process import user_name
from offpeak.services.accounts.job_bills import MOST_JOBS, BillQuery, JobBill, read_job_bills
from offpeak.services.agent.status import AgentSilent, fetch_bills
from offpeak.settings.table import Settings
from offpeak.text import counted, printable
from offpeak.ui.records import print_nothing, rows_json, with_times
from offpeak.ui.terminal import TextTable, print_table, text_table

COLUMNS = (
    *("job", "user", "account", "nodes", "ended", "ran", "waited", "energy kWh", "cost", "CO2 kg"),
    "less than at submission",
)
TIER_COLUMNS, GPU_COLUMNS = ("tier", "expected", "tier saved", "credit"), ("GPU h", "idle GPU h", "cost of idle GPUs")
"""Shown if the tier of one of the jobs moved it, or if one had a GPU."""
SPARE = ("nodes", "less than at submission", "account", *TIER_COLUMNS, *GPU_COLUMNS)


def print_bills(settings: Settings, times: str | tuple[str | None, str | None], *, mine: bool, as_json: bool) -> None:
    """Print the bills of the jobs that ended in a month or a time. Raises AgentSilent, or BadInput for no time."""
    zone, now_unix_s = site_zone(settings.feeds.zone), time.time()
    if isinstance(times, str):
        from offpeak.ui.month.subject import period_of

        span = period_of(times, now_unix_s=now_unix_s, zone=zone).span
    else:
        span = parse_range(*times, now_unix_s=now_unix_s, zone=zone)
    query = BillQuery(span, user_name(os.geteuid()) if mine else None)
    bills = _fetch(settings, query)
    if as_json:
        rows = [with_times(vars(bill) | {"saved": bill.saved}, zone) for bill in bills]
        typer.echo(rows_json(rows), nl=False)
    elif bills:
        print_table(bills_table(bills, zone))
        typer.echo("\n".join(["", sum_text(bills), *unknown_lines(bills)]))
    else:
        print_nothing(span, zone)


def print_bill(settings: Settings, job_id: str, unknown: BadInput, *, as_json: bool) -> None:
    """Print the bills of a job, or of the tasks of an array, that has ended; raise `unknown` if there is none."""
    zone = site_zone(settings.feeds.zone)
    try:
        bills = fetch_bills(settings.agent.socket, job=job_id)
    except (AgentSilent, BadInput):
        raise unknown from None
    if not bills:
        raise unknown
    if as_json:
        typer.echo(rows_json([with_times(vars(bill) | {"saved": bill.saved}, zone) for bill in bills]), nl=False)
        return
    typer.echo("\n".join(line for bill in bills for line in bill_lines(bill, zone)))
    if len(bills) > 1:
        typer.echo(sum_text(bills))


def bill_lines(bill: JobBill, zone: tzinfo) -> tuple[str, ...]:
    """Return the bill of a job in lines."""
    ran = duration_text(bill.ended_unix_s - bill.started_unix_s)
    if bill.submitted_unix_s is not None:
        ran = f"{ran} after {duration_text(bill.started_unix_s - bill.submitted_unix_s)} of waiting"
    energy = energy_text(None if bill.energy_j is None else bill.energy_j / J_PER_KWH)
    ended = minute_text(bill.ended_unix_s, zone)
    return (
        printable(f"job {bill.job} of {bill.user}, {bill.partition}, {bill.nodes}: ended {ended}"),
        f"ran        {ran}",
        f"this job   {energy}, {money_text(bill.cost, bill.currency)}, {_co2_text(bill.carbon_g)}, {_less_text(bill)}",
        *([f"CO2        {NOT_KNOWN}: {printable(bill.carbon_why)}"] if bill.carbon_why else ()),
        *_tier_lines(bill, zone),
        *_gpu_lines(bill),
        f"basis      {printable(bill.basis)}",
    )


def _gpu_lines(bill: JobBill) -> tuple[str, ...]:
    hours, idle, cost = _gpu_cells(bill)
    energy = (
        "" if bill.gpu_idle_j is None or idle == NOT_KNOWN else f": {energy_text(bill.gpu_idle_j / J_PER_KWH)}, {cost}"
    )
    return (f"GPUs       idle {idle} of {hours} GPU-hours{energy}",) if hours else ()


def _gpu_cells(bill: JobBill) -> tuple[str, str, str]:
    """Return the GPU-hours of a job, those that were idle, and their cost; "" for a job without GPUs."""
    if bill.gpu_s is None or bill.gpu_idle_s is None or bill.gpu_busy_s is None:
        return "", "", ""
    idle = idle_hours_text(bill.gpu_s, bill.gpu_idle_s, bill.gpu_busy_s)
    return amount_text(bill.gpu_s / HOUR_S), idle, money_text(bill.gpu_idle_cost, bill.currency)


def _co2_text(carbon_g: float | None) -> str:
    return f"CO2 {NOT_KNOWN}" if carbon_g is None else co2_text(carbon_g / 1000)


def unknown_lines(bills: Sequence[JobBill]) -> list[str]:
    """Return what is in no sum because it is not known, and why, a line each."""
    no_price = "no energy, no price, or prices in two currencies"
    unknown = Counter[tuple[str, str]]()
    for bill in bills:
        unknown["cost", no_price] += bill.cost is None
        unknown["CO2", bill.carbon_why or "the agent is of an older version"] += bill.carbon_g is None
        unknown["saving by the tier", no_price] += bill.tier != "" and bill.tier_saved is None
    return [
        printable(f"- {what} of {counted(jobs, 'job')} {NOT_KNOWN}: {why}")
        for (what, why), jobs in unknown.items()
        if jobs
    ]


def _tier_lines(bill: JobBill, zone: tzinfo) -> tuple[str, ...]:
    if bill.baseline_unix_s is None or bill.shifted_j is None:
        return ()
    later = duration_text(bill.started_unix_s - bill.baseline_unix_s)
    moved = f"{bill.tier} moved {energy_text(bill.shifted_j / J_PER_KWH)} by {later}"
    saved = f"{money_text(bill.tier_saved, bill.currency)} less than at {minute_text(bill.baseline_unix_s, zone)}"
    if bill.expected_saving is not None:
        saved += f", {money_text(bill.expected_saving, bill.currency)} expected"
    credit = "" if bill.credit is None else f"; {money_text(bill.credit, bill.currency)} credited to {bill.account}"
    return (f"tier       {printable(f'{moved}: {saved}{credit}')}",)


def bills_table(bills: Sequence[JobBill], zone: tzinfo) -> TextTable:
    """Return a table with a row for each job."""
    with_tiers, with_gpus = any(bill.tier for bill in bills), any(bill.gpu_s for bill in bills)
    rows = [
        (
            *(bill.job, bill.user, bill.account, bill.nodes, minute_text(bill.ended_unix_s, zone)),
            duration_text(bill.ended_unix_s - bill.started_unix_s),
            "" if bill.submitted_unix_s is None else duration_text(bill.started_unix_s - bill.submitted_unix_s),
            amount_text(None if bill.energy_j is None else bill.energy_j / J_PER_KWH),
            money_text(bill.cost, bill.currency),
            amount_text(None if bill.carbon_g is None else bill.carbon_g / 1000),
            money_text(bill.saved, bill.currency),
            *(_tier_cells(bill) if with_tiers else ()),
            *(_gpu_cells(bill) if with_gpus else ()),
        )
        for bill in bills
    ]
    more = (TIER_COLUMNS if with_tiers else ()) + (GPU_COLUMNS if with_gpus else ())
    return text_table((*COLUMNS, *more), rows, texts=range(5), spare=SPARE)


def _tier_cells(bill: JobBill) -> tuple[str, str, str, str]:
    """Return the tier that moved a job, the saving expected and real, and the credit; "" for what there is not."""
    expected, credit = (
        "" if each is None else money_text(each, bill.currency) for each in (bill.expected_saving, bill.credit)
    )
    return bill.tier, expected, money_text(bill.tier_saved, bill.currency) if bill.tier else "", credit


def sum_text(bills: Sequence[JobBill]) -> str:
    """Return the sum of the bills in a line; what is not known is counted, and not in it."""
    currencies = sorted({bill.currency for bill in bills if bill.cost is not None})
    currency = currencies[0] if len(currencies) == 1 else ""
    joules, grams = known_sum(bill.energy_j for bill in bills), known_sum(bill.carbon_g for bill in bills)
    cost, less, moved, credit = (
        money_text(known_sum(getattr(bill, name) for bill in bills) if currency else None, currency)
        for name in ("cost", "saved", "tier_saved", "credit")
    )
    used = f"{energy_text(None if joules is None else joules / J_PER_KWH)}, {cost}, {_co2_text(grams)}"
    unknown = sum(bill.saved is None for bill in bills)
    rest = f"; {counted(unknown, 'job')} of unknown difference" if unknown else ""
    rest += f"; costs are in {' and '.join(currencies)}" if len(currencies) > 1 else ""
    most = f" (the latest {MOST_JOBS:,})" if len(bills) == MOST_JOBS else ""
    flexible = sum(bool(bill.tier) for bill in bills)
    earned = f"; the tiers of {counted(flexible, 'job')} saved {moved}" if flexible else ""
    if any(bill.credit is not None for bill in bills):
        earned += f", {credit} credited"
    return f"{counted(len(bills), 'job')}{most}: {used}, {less} less than at their submission{rest}{earned}"


def _less_text(bill: JobBill) -> str:
    if bill.saved is None:
        return f"what it would have cost at its submission is {NOT_KNOWN}"
    more = "less" if bill.saved >= 0 else "more"
    return f"{money_text(abs(bill.saved), bill.currency)} {more} than at its submission"


def _fetch(settings: Settings, query: BillQuery) -> tuple[JobBill, ...]:
    """Return the bills from the agent, or from the ledger if no agent answers and the user may read it."""
    span = {"from_unix_s": query.span.from_unix_s, "until_unix_s": query.span.until_unix_s}
    try:
        return fetch_bills(settings.agent.socket, **span, **({"user": query.user} if query.user else {}))
    except AgentSilent as silent:
        try:
            return read_job_bills(settings.ledger.url, query)
        except (OffpeakError, OSError):
            raise silent from None
