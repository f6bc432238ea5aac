"""Answers `offpeak ledger`: records of a time, energy and cost in groups, and the care of the ledger (prune,
backup).
"""

import sys
import time
from datetime import tzinfo
from pathlib import Path

import typer

from offpeak.ledger.database import back_up_ledger, ledger_address, open_ledger, require_ledger_file
from offpeak.ledger.energy_use import check_groups, groups_jobs
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import assumed_share
from offpeak.ledger.records import actions_in, decisions_in, last_written_unix_s, savings_in, states_in
from offpeak.machines.node_sets import expand
from offpeak.model.local_time import machine_zone
from offpeak.model.time_range import TimeRange, parse_range
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.text import counted
from predictors.feeds.markets import site_zone
from services.accounts.account_of_savings import account_of
from services.accounts.credits import credits_by_account
from services.accounts.power_bill import read_demand
from ui.ledger import text
from ui.terminal import print_table

Times = tuple[str | None, str | None]
"""Start and end of a time as text."""
QUESTIONS = {"decisions": decisions_in, "actions": actions_in, "states": states_in}


def print_records(kind: str, nodes: str | None, times: Times, settings: Settings, form: str) -> None:
    """Print decisions, actions, states or savings of a time as "text", "json" or "csv"."""
    zone = site_zone(settings.feeds.zone) if kind in ("savings", "credits") else machine_zone()
    span, share, sums = _span(times, zone), 0.0, list[str]()
    with open_ledger(settings.ledger.url) as connection:
        if kind == "savings":
            found = savings_in(connection, span)
            share = assumed_share(connection, span)
            sums = text.account_lines(account_of(connection, span), account_of(connection, span, is_shadow=True))
            tariff = site_tariff(settings.prices.tariff if form == "text" else None, zone)
            sums += [each.text(zone) for each in read_demand(connection, span, tariff)]
        elif kind == "credits":
            found = credits_by_account(connection, span)
        else:
            found = QUESTIONS[kind](connection, span, expand(nodes) if nodes else ())
        latest_unix_s = None if found else last_written_unix_s(connection)
    if form != "text":
        _write(form, [text.with_times(record, zone) for record in found])
    elif found:
        print_table(text.records_table(kind, found, zone))
        for line in sums:
            typer.echo(f"\n{line}")
        _print_notes(text.assumed_prices(share, zone))
    else:
        text.print_nothing(span, zone, latest_unix_s)


def print_used(kind: str, by: str, times: Times, settings: Settings, form: str) -> None:
    """Print the energy or cost of a time range by groups; raise BadInput for groups that cannot be combined."""
    groups = tuple(name.strip() for name in by.split(",") if name.strip())
    check_groups(groups)
    zone = site_zone(settings.feeds.zone)
    span = _span(times, zone)
    with open_ledger(settings.ledger.url) as connection:
        question = job_costs if groups_jobs(groups) else node_energy
        found = question(connection, span, groups, zone)
        latest_unix_s = None if found else last_written_unix_s(connection)
        share = assumed_share(connection, span) if kind == "cost" else 0.0
    if form != "text":
        _write(form, [text.used_row(groups, use) for use in found])
    elif found:
        print_table(text.used_table(kind, groups, found))
        _print_notes(text.assumed_prices(share, zone))
    else:
        text.print_nothing(span, zone, latest_unix_s)


def _span(times: Times, zone: tzinfo) -> TimeRange:
    return parse_range(*times, now_unix_s=time.time(), zone=zone)


def _print_notes(lines: tuple[str, ...]) -> None:
    for line in lines:
        sys.stdout.write(f"\n- {line}\n")


def _write(form: str, rows: list[dict[str, object]]) -> None:
    sys.stdout.write(text.rows_json(rows) if form == "json" else text.rows_csv(rows))


def prune_ledger(settings: LedgerSettings) -> None:
    """Delete rows that are older than their retention, and print their number."""
    require_ledger_file(settings.url)
    ledger = Ledger(settings)
    try:
        ledger.ready()
        deleted = ledger.prune(time.time())
    finally:
        ledger.close()
    typer.echo(f"{ledger_address(settings.url)}: {counted(deleted, 'row')} deleted")


def back_up(settings: LedgerSettings, file: Path) -> None:
    """Write the copy, and print its size."""
    require_ledger_file(settings.url)
    back_up_ledger(settings.url, file)
    typer.echo(f"{file}: a copy of {ledger_address(settings.url)}, {file.stat().st_size / 1e6:,.1f} MB")
