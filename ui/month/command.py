"""`offpeak report`: energy use, cost and savings of a month by account, or the sheet of a data centre of a year."""

from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.files import check_writable
from offpeak.ui.options import MONTH, CommandSettings, settings_options


@settings_options("prices.tariff", "ledger.url")
def report(
    chosen: CommandSettings,
    month: MONTH = None,
    year: Annotated[
        str | None,
        typer.Option(
            "--year",
            help="Year, such as 2026: the sheet of the data centre after Delegated Regulation (EU) 2024/1364 instead.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as a web page.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the figures for a spreadsheet.")] = None,
    bill: Annotated[
        str | None,
        typer.Option(
            "--bill",
            help="Period, such as 2026, 2026-11 or 2026-11-01/2026-11-16: the power bill of the metered nodes instead.",
        ),
    ] = None,
    xlsx: Annotated[Path | None, typer.Option("--xlsx", help="Write the sheet of the year as a workbook.")] = None,
) -> None:
    """Report a month by account, a power bill, or a year's sheet.

    Each figure has its basis: measured, modelled, or entered in the section [data_centre] of the settings.
    """
    if xlsx and not year:
        raise BadInput(f"--xlsx {xlsx}: is a sheet of a year", hint="add --year 2026, or write the month with --csv")
    if year and month:
        raise BadInput("--year excludes --month", hint="ask for one after the other")
    if bill and (month or year):
        raise BadInput("--bill excludes --month and --year", hint="name its period: --bill 2026-11, or --bill 2026")
    for path, example in ((html, "report.html"), (csv, "report.csv"), (xlsx, "report.xlsx")):
        if path:
            check_writable(path, example=example)
    from offpeak.ui.month.bill import report_bill
    from offpeak.ui.month.month import report_month
    from offpeak.ui.month.year import report_year

    if bill:
        report_bill(chosen.read(), bill, html=html, csv=csv)
    elif year:
        report_year(chosen.read(), year, html=html, csv=csv, xlsx=xlsx)
    else:
        report_month(chosen.read(), month, html=html, csv=csv)
