"""Run `offpeak report`: read the ledger, replay the accounting of the month, print and write the result."""

import math
import time

import typer

from offpeak.errors import BadTrace, SchedulerError
from offpeak.files import check_writable, replacing
from offpeak.ledger.database import open_ledger
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import machine_zone
from offpeak.settings.table import Settings
from offpeak.text import printable
from services.accounts.counterfactual import Counterfactual, replay_site_order, site_policies
from services.accounts.month_account import MonthAccount, make_month_account
from ui.estimate.accounting_source import accounting_of, with_nodes
from ui.ledger.text import print_nothing, print_table, rows_csv
from ui.month.page import month_page
from ui.month.subject import (
    Month,
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

Replayed = tuple[Counterfactual | None, str]


def answer(settings: Settings, wanted: MonthRequest) -> None:
    """Print the report of a month, and write page and CSV if requested."""
    for path, example in ((wanted.html, "report.html"), (wanted.csv, "report.csv")):
        if path:
            check_writable(path, example=example)
    subject = month_subject(settings, wanted)
    _print(subject)
    if wanted.html:
        with replacing(wanted.html) as file:
            file.write(month_page(subject).encode())
    if wanted.csv:
        with replacing(wanted.csv) as file:
            file.write(rows_csv([dict(vars(line)) for line in subject.lines]).encode())
    say_written(*filter(None, (wanted.html, wanted.csv)))


def month_subject(settings: Settings, wanted: MonthRequest) -> MonthSubject:
    """Return the content of the report; raise BadLedger without a ledger, BadTrace if the named log is invalid."""
    zone = machine_zone()
    month = month_of(wanted.month, now_unix_s=time.time(), zone=zone)
    with open_ledger(settings.ledger.url) as connection:
        account = make_month_account(connection, month.span, zone, settings.prices)
    without, why_not = _replayed(settings, wanted, month, account)
    return MonthSubject(month, zone, account, without, why_not, lines_of(account, without))


def _replayed(settings: Settings, wanted: MonthRequest, month: Month, account: MonthAccount) -> Replayed:
    """Return the cost in the site's own order, or why it is unknown."""
    if account.replay_inputs is None:
        return None, "unknown: the ledger has no prices for that time"
    if settings.agent.queue == "plan" and account.replay_inputs.ordered.any():
        return None, "unknown: a replay cannot follow a plan that changed in each cycle"
    if settings.agent.queue == "off" and account.replay_inputs.ordered.any():
        return None, "unknown: jobs were moved, and the settings no longer name the policy; set it with --queue"
    days = math.ceil((time.time() - month.span.from_unix_s) / DAY_S) + 1
    try:
        accounting = accounting_of(wanted.log, days, settings, lenient=wanted.lenient)
        of_site = with_nodes(settings, accounting)
        return replay_site_order(accounting.trace, account.replay_inputs, of_site, *site_policies(settings)), ""
    except (BadTrace, SchedulerError) as problem:
        if wanted.log is not None:
            raise
        return None, f"not known, {printable(str(problem))}; --log names an accounting"


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
