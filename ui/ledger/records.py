"""Answers `offpeak ledger`: records of a time, energy and cost in groups, readings as Parquet, prune and backup."""

import sys
import time
from datetime import datetime, tzinfo
from itertools import pairwise, product
from pathlib import Path

import typer
from sqlalchemy import select

from offpeak.errors import BadInput
from offpeak.files import replacing
from offpeak.ledger.database import back_up_ledger, ledger_address, open_ledger, require_ledger_file
from offpeak.ledger.energy_use import METER_GROUPS, check_groups
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import assumed_share
from offpeak.ledger.records import actions_in, decisions_in, last_written_unix_s, savings_in, states_in
from offpeak.ledger.tables import minutes, quarters, series
from offpeak.machines.node_sets import expand
from offpeak.model.time_range import TimeRange, day_edges, parse_range
from offpeak.model.zones import machine_zone
from offpeak.predictors.feeds.markets import site_zone
from offpeak.prices.tariff_file import site_tariff
from offpeak.report_tables import folder_for
from offpeak.services.accounts.account_of_savings import account_of
from offpeak.services.accounts.credits import credits_by_account
from offpeak.services.accounts.power_bill import read_demand
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.text import counted
from offpeak.ui.ledger import text
from offpeak.ui.records import print_nothing, rows_csv, rows_json, with_times
from offpeak.ui.terminal import print_table

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
        _write(form, [with_times(record, zone) for record in found])
    elif found:
        print_table(text.records_table(kind, found, zone))
        for line in sums:
            typer.echo(f"\n{line}")
        _print_notes(text.assumed_prices(share, zone))
    else:
        print_nothing(span, zone, latest_unix_s)


def print_used(kind: str, by: str, times: Times, settings: Settings, form: str) -> None:
    """Print the energy or cost of a time range by groups; raise BadInput for groups that cannot be combined."""
    groups = tuple(name.strip() for name in by.split(",") if name.strip())
    check_groups(groups)
    zone = site_zone(settings.feeds.zone)
    span = _span(times, zone)
    with open_ledger(settings.ledger.url) as connection:
        question = node_energy if set(groups) <= set(METER_GROUPS) else job_costs
        found = question(connection, span, groups, zone)
        latest_unix_s = None if found else last_written_unix_s(connection)
        share = assumed_share(connection, span) if kind == "cost" else 0.0
    if form != "text":
        _write(form, [text.used_row(groups, use) for use in found])
    elif found:
        print_table(text.used_table(kind, groups, found))
        _print_notes(text.assumed_prices(share, zone))
    else:
        print_nothing(span, zone, latest_unix_s)


def _span(times: Times, zone: tzinfo) -> TimeRange:
    return parse_range(*times, now_unix_s=time.time(), zone=zone)


def _print_notes(lines: tuple[str, ...]) -> None:
    for line in lines:
        sys.stdout.write(f"\n- {line}\n")


def _write(form: str, rows: list[dict[str, object]]) -> None:
    sys.stdout.write(rows_json(rows) if form == "json" else rows_csv(rows))


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


ROWS_AT_ONCE = 100_000


def export_means(settings: LedgerSettings, folder: Path, times: Times) -> None:
    """Write a Parquet file for each day of minutes and of quarter-hours. Raises BadInput if the ledger has none."""
    import pyarrow as pa
    from pyarrow import parquet

    zone, written, kinds = machine_zone(), 0, {int: pa.int64(), float: pa.float64(), str: pa.string()}
    with open_ledger(settings.url) as connection:
        folder_for(folder)
        for table, (start, end) in product((minutes, quarters), pairwise(day_edges(_span(times, zone), zone))):
            columns = [each for each in (*table.columns, *series.columns) if each.name not in ("series", "number")]
            schema = pa.schema([(each.name, kinds[each.type.python_type]) for each in columns])
            within = (table.c.at_unix_s >= start) & (table.c.at_unix_s < end)
            question = select(*columns).join(series).where(within).order_by(table.c.at_unix_s, table.c.series)
            parts = connection.execute(question, execution_options={"yield_per": ROWS_AT_ONCE}).partitions()
            path = folder / f"{table.name}-{datetime.fromtimestamp(start, zone):%Y-%m-%d}.parquet"
            if part := next(parts, None):
                with replacing(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                    while part:
                        arrays = map(pa.array, zip(*part, strict=True), schema.types)
                        writer.write_batch(pa.record_batch(list(arrays), schema))
                        written, part = written + len(part), next(parts, None)
    if not written:
        raise BadInput(f"{ledger_address(settings.url)}: has no readings of that time", hint="set --since")
    typer.echo(f"{folder}: {counted(written, 'row')} of minutes and quarter-hours")
