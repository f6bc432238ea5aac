"""Run `offpeak report`: read the ledger, print and write the account of the month."""

import time

import typer

from offpeak.ledger.database import open_ledger
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.table import Settings
from predictors.feeds.markets import site_zone
from services.accounts.month_account import make_month_account
from ui.ledger.text import print_nothing, rows_csv
from ui.month.page import month_page
from ui.month.subject import (
    GPU_COLUMNS,
    MonthRequest,
    MonthSubject,
    answer_text,
    footnotes,
    gpu_cells,
    headline,
    is_empty,
    lines_of,
    method,
    month_of,
    saved_cells,
    used_cells,
)
from ui.terminal import print_table, text_table, write_files

USED = ("account", "jobs", "energy kWh", "measured", "partly", "modelled", "cost", "CO2 kg")
SAVED = ("saved by", "energy kWh", "money", "19 of 20 cases", "CO2 kg", "basis")


def answer(settings: Settings, wanted: MonthRequest) -> None:
    """Print the report of a month, and write page and CSV if requested."""
    subject = month_subject(settings, wanted.month)
    _print(subject)
    rows = [dict(vars(line)) for line in subject.lines]
    write_files({wanted.html: lambda: month_page(subject).encode(), wanted.csv: lambda: rows_csv(rows).encode()})


def month_subject(settings: Settings, month_text: str | None) -> MonthSubject:
    """Return the content of the report; raise BadLedger without a ledger."""
    zone = site_zone(settings.feeds.zone)
    month = month_of(month_text, now_unix_s=time.time(), zone=zone)
    with open_ledger(settings.ledger.url) as connection:
        tariff = site_tariff(settings.prices.tariff, zone)
        account = make_month_account(connection, month.span, zone, tariff)
    return MonthSubject(month, zone, account, lines_of(account, tariff))


def _print(subject: MonthSubject) -> None:
    typer.echo(headline(subject))
    typer.echo()
    if is_empty(subject):
        print_nothing(subject.month.span, subject.zone)
        return
    print_table(text_table(USED, used_cells(subject)))
    typer.echo()
    if gpus := gpu_cells(subject):
        print_table(text_table(GPU_COLUMNS, gpus))
        typer.echo()
    if saved := saved_cells(subject):
        print_table(text_table(SAVED, saved, texts=(0, 5)))
        typer.echo()
    typer.echo(f"{answer_text(subject)}\n")
    for line in footnotes(method(subject)):
        typer.echo(line)
