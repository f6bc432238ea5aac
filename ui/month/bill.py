"""Run `offpeak report --bill`: the power bill of the metered nodes as text, page and CSV, position by position."""

import time
from collections.abc import Sequence
from pathlib import Path

import typer

from offpeak.display import amount_text, minute_text, money_text
from offpeak.errors import BadInput
from offpeak.ledger.database import open_ledger
from offpeak.predictors.feeds.markets import site_zone
from offpeak.prices.bill import Bill
from offpeak.prices.tariff import Tariff
from offpeak.prices.tariff_file import site_tariff
from offpeak.services.accounts.power_bill import make_metered_bill
from offpeak.settings.table import Settings
from offpeak.text import printable
from offpeak.ui.month.subject import period_of
from offpeak.ui.records import rows_csv
from offpeak.ui.report.page import bullets, page_head, section, still_page, table
from offpeak.ui.terminal import print_table, text_table, write_files

COLUMNS = ("position", "quantity", "", "cost", "highest quarter-hour")
SCOPE = "This is the bill of the nodes with meters: cooling, network and other loads of the site are not in it."


def report_bill(settings: Settings, period_text: str, *, html: Path | None, csv: Path | None) -> None:
    """Print the bill of a period, and write page and CSV if requested."""
    if settings.prices.tariff is None:
        hint = 'name the tariff of that time: --tariff FILE.toml, or tariff = "FILE.toml" below [prices]'
        raise BadInput("--bill: no tariff is set", hint=hint)
    tariff = site_tariff(settings.prices.tariff, site_zone(settings.feeds.zone))
    zone = tariff.calendar.zone
    period = period_of(period_text, now_unix_s=time.time(), zone=zone, option="--bill")
    with open_ledger(settings.ledger.url) as connection:
        bill, gaps = make_metered_bill(connection, period.span, tariff, billed=period.whole)
    dates = " to ".join(minute_text(edge, zone) for edge in (period.span.from_unix_s, period.span.until_unix_s))
    headline = f"Power bill, {period.name}{', so far' if period.goes_on else ''}: {dates}, {zone}, {tariff.description}"
    cells, notes = bill_cells(bill, tariff), [*gaps, SCOPE]
    typer.echo(f"{printable(headline)}\n")
    print_table(text_table(COLUMNS, cells, texts=(0, 2, 4)))
    typer.echo("".join(f"\n- {printable(note)}" for note in notes))
    rows = [
        {**vars(line), "currency": bill.currency, "highest_at": at}
        for line, (*_, at) in zip(bill.lines, cells, strict=False)
    ]
    write_files({html: lambda: bill_page(headline, cells, notes).encode(), csv: lambda: rows_csv(rows).encode()})


def bill_cells(bill: Bill, tariff: Tariff) -> list[tuple[str, ...]]:
    """Return the positions and the total as texts; that of a demand charge has the begin of its quarter-hour."""
    at = {peak.name: minute_text(peak.at_s, tariff.calendar.zone) for peak in bill.peaks}
    cells = [
        (
            line.name,
            amount_text(line.quantity) if line.unit else "",
            line.unit,
            money_text(line.cost, bill.currency),
            at.get(line.name, ""),
        )
        for line in bill.lines
    ]
    return [*cells, ("total", "", "", money_text(bill.total, bill.currency), "")]


def bill_page(headline: str, cells: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Return the page."""
    title, _, period = headline.partition(": ")
    head = page_head(title, f"The metered nodes cost {cells[-1][3]}.", [("period", period)])
    positions = section("Positions", table("Quantity and cost of each position", COLUMNS, cells))
    return still_page(title, head, [positions, section("What to know", bullets(notes))])
