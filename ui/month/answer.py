"""Run `offpeak report`: read the ledger, print and write the account of the month."""

import time

import typer

from offpeak.files import check_writable, replacing
from offpeak.ledger.database import open_ledger
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.table import Settings
from predictors.feeds.markets import site_zone
from services.accounts.month_account import make_month_account
from ui.ledger.text import print_nothing, print_table, rows_csv
from ui.month.page import month_page
from ui.month.subject import (
    MonthSubject,
    answer_text,
    footnotes,
    has_savings,
    headline,
    is_empty,
    lines_of,
    method,
    month_of,
    saved_table,
    used_table,
)
from ui.progress import say_written
from ui.requests import MonthRequest


def answer(settings: Settings, wanted: MonthRequest) -> None:
    """Print the report of a month, and write page and CSV if requested."""
    for path, example in ((wanted.html, "report.html"), (wanted.csv, "report.csv")):
        if path:
            check_writable(path, example=example)
    subject = month_subject(settings, wanted.month)
    _print(subject)
    if wanted.html:
        with replacing(wanted.html) as file:
            file.write(month_page(subject).encode())
    if wanted.csv:
        with replacing(wanted.csv) as file:
            file.write(rows_csv([dict(vars(line)) for line in subject.lines]).encode())
    say_written(*filter(None, (wanted.html, wanted.csv)))


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
    print_table(used_table(subject))
    typer.echo()
    if has_savings(subject):
        print_table(saved_table(subject))
        typer.echo()
    typer.echo(f"{answer_text(subject)}\n")
    for line in footnotes(method(subject)):
        typer.echo(line)
