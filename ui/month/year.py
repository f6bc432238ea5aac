"""Run `offpeak report --year`: the sheet of a data centre as text, page without scripts, CSV and XLSX."""

import time
from collections.abc import Sequence
from datetime import datetime, tzinfo
from html import escape
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import typer

from offpeak.display import amount_text, co2_text, energy_text, percent_text
from offpeak.errors import BadInput
from offpeak.installation import missing_extra
from offpeak.ledger.database import open_ledger
from offpeak.ledger.energy_use import UsePeriod
from offpeak.model.zones import date_text, zone_text
from offpeak.predictors.feeds.markets import site_zone
from offpeak.services.accounts.data_centre_year import (
    CUSTOMER,
    DATA_CENTRE,
    MEASURED,
    MONTH,
    SheetValue,
    gaps,
    make_sheet,
    read_year_use,
)
from offpeak.settings.table import Settings
from offpeak.text import counted, printable
from offpeak.ui.records import rows_csv
from offpeak.ui.report.bars import ChartColumn, columns_section
from offpeak.ui.report.figure import Key
from offpeak.ui.report.page import HtmlCell, bullets, definitions, paragraph, section, still_page, table
from offpeak.ui.terminal import print_table, text_table, write_files

COLUMNS = ("part", "of", "name", "symbol", "value", "unit", "origin", "basis", "rule")
PARTS = {
    DATA_CENTRE: ("Data centre", "Indicators of Delegated Regulation (EU) 2024/1364, with scope 2 and embodied share"),
    CUSTOMER: ("Customers", "Energy that is directly attributable to each customer, by account (EnEfG paragraph 15)"),
    MONTH: ("Months", "What meters and carbon intensity cover"),
}


def report_year(settings: Settings, year_text: str, *, html: Path | None, csv: Path | None, xlsx: Path | None) -> None:
    """Print the sheet of a year, and write page, CSV and workbook if requested."""
    if xlsx and find_spec("openpyxl") is None:
        raise missing_extra(f"--xlsx {xlsx}", "sheets", "openpyxl")
    zone, now_unix_s = site_zone(settings.feeds.zone), time.time()
    year, months = year_months(year_text, now_unix_s=now_unix_s, zone=zone)
    until_unix_s = months[-1].until_unix_s
    with open_ledger(settings.ledger.url) as connection:
        use = read_year_use(connection, year, months, is_over=until_unix_s < now_unix_s)
    values, notes = make_sheet(use, settings.data_centre, settings.plan), gaps(use)
    dates = f"{date_text(int(months[0].from_unix_s), zone)} to {date_text(int(until_unix_s) - 1, zone)}"
    headline = f"Data centre, {year}{'' if use.is_over else ', so far'}: {dates}, {zone_text(zone) or 'this machine'}"
    _print(headline, values, notes)
    rows = [{key: getattr(value, key) for key in COLUMNS} for value in values]
    write_files(
        {
            html: lambda: year_page(headline, values, notes).encode(),
            csv: lambda: rows_csv(rows).encode(),
            xlsx: lambda: workbook(values),
        }
    )


def year_months(text: str, *, now_unix_s: float, zone: tzinfo) -> tuple[int, list[UsePeriod]]:
    """Return the year and its local months, the last one of the current year until now; raise BadInput if invalid."""
    if not (len(text) == 4 and text.isdecimal() and int(text) >= 1970):
        raise BadInput(f"--year {text}: is not a year", hint="write it like 2026")
    year, now = int(text), datetime.fromtimestamp(now_unix_s, zone)
    if year > now.year:
        raise BadInput(f"--year {text}: has not begun", hint=f"this year is {now:%Y}")
    edges = [datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone).timestamp() for month in range(13)]
    return year, [
        UsePeriod(f"{year}-{number:02}", begin, min(end, now_unix_s))
        for number, (begin, end) in enumerate(pairwise(edges), 1)
        if begin < now_unix_s
    ]


def _figure(value: SheetValue | None) -> str:
    if value is None or value.value is None:
        return ""
    return f"{value.value:,.0f}" if value.value.is_integer() else amount_text(value.value)


def _of_part(values: Sequence[SheetValue], part: str) -> list[SheetValue]:
    return [value for value in values if value.part == part]


def _by_name(values: Sequence[SheetValue], part: str) -> tuple[list[str], dict[str, list[SheetValue | None]]]:
    """Return the columns of a table of customers or months, and its rows by name."""
    cells = {(value.of, f"{value.name} {value.unit}".strip()): value for value in _of_part(values, part)}
    columns = list(dict.fromkeys(column for _, column in cells))
    return columns, {name: [cells.get((name, column)) for column in columns] for name, _ in cells}


def _print(headline: str, values: Sequence[SheetValue], notes: Sequence[str]) -> None:
    typer.echo(f"{headline}\n")
    of_all = [
        (value.name, value.symbol, _figure(value), value.unit, value.origin, value.basis)
        for value in _of_part(values, DATA_CENTRE)
    ]
    print_table(text_table(("indicator", "symbol", "value", *COLUMNS[5:8]), of_all, texts=(0, 1, 3, 4, 5)))
    for part in (CUSTOMER, MONTH):
        columns, rows = _by_name(values, part)
        if rows:
            typer.echo()
            print_table(text_table((part, *columns), ((name, *map(_figure, row)) for name, row in rows.items())))
    typer.echo("".join(f"\n{note}" for note in notes))


def year_page(headline: str, values: Sequence[SheetValue], notes: Sequence[str]) -> str:
    """Return the page: the energy of the year in large type, its months as a chart, and what is known, as tables.

    What is not known has no row: it is listed with what to do, on a screen only.
    """
    title, _, period = headline.partition(": ")
    of_all = _of_part(values, DATA_CENTRE)
    known = [value for value in of_all if value.value is not None]
    rows: list[list[HtmlCell | str]] = [
        [value.name, value.symbol, HtmlCell(value.basis, value.rule), _html(value)] for value in known
    ]
    headers = ("indicator", "symbol", "basis", "value")
    sections = [*_months_section(values)]
    if rows:
        sections.append(section(PARTS[DATA_CENTRE][0], table(PARTS[DATA_CENTRE][1], headers, rows, texts=3)))
    columns, named = _by_name(_known(values), CUSTOMER)
    if named:
        cells: list[list[HtmlCell | str]] = [[name, *map(_html, row)] for name, row in named.items()]
        sections.append(section(PARTS[CUSTOMER][0], table(PARTS[CUSTOMER][1], [CUSTOMER, *columns], cells)))
    missing = [f"{value.name}: {value.basis}" for value in of_all if value.value is None]
    if missing:
        summary = (
            f"<summary><h2>Not known yet: {counted(len(missing), 'value')}, and how to fill them in</h2></summary>"
        )
        sections.append(f'<details class="on-screen">\n{summary}\n{bullets(missing)}\n</details>')
    return still_page(title, _head(title, period, values, notes), sections)


def _known(values: Sequence[SheetValue]) -> list[SheetValue]:
    return [value for value in values if value.value is not None]


def _head(title: str, period: str, values: Sequence[SheetValue], notes: Sequence[str]) -> str:
    """Return the measured energy and CO2 of the year in large type, and what the meters miss."""
    months = [value for value in _known(values) if value.part == MONTH]
    kwh, co2_kg = (sum(v.value or 0.0 for v in months if v.name == name) for name in ("energy", "CO2e"))
    small = f" <small>of electricity{f'; {co2_text(co2_kg)}' if co2_kg else ''}</small>"
    hero = f'<p class="hero">{energy_text(kwh, 0)}{small}</p>' if kwh else ""
    answer = " ".join(notes) or "Meters and carbon intensity cover the whole time."
    facts = definitions([("period", period)])
    return f"<header>\n<h1>{escape(title)}</h1>\n{hero}{paragraph(answer)}\n{facts}\n</header>"


def _months_section(values: Sequence[SheetValue]) -> list[str]:
    """Return the chart of the energy of each month, with the part that meters measured in its text."""
    _, named = _by_name(values, MONTH)
    columns = []
    for month, cells in named.items():
        by_name = {value.name: value.value for value in cells if value is not None}
        kwh, measured = by_name.get("energy"), by_name.get("measured") or 0.0
        covered = f", measured for {percent_text(measured)} of the time"
        text = f"{month}: {'no reading' if kwh is None else energy_text(kwh, 0) + covered}"
        columns.append(ChartColumn(month[5:], kwh or 0.0, None, text))
    if not any(column.value for column in columns):
        return []
    caption = "Electricity of the measured computers in each month, in kWh."
    return [columns_section("Month by month", columns, (Key("measured", "var(--busy)", is_area=True),), caption)]


def _html(value: SheetValue | None) -> HtmlCell:
    if value is None:
        return HtmlCell("")
    unit = value.unit if value.part == DATA_CENTRE and value.value is not None else ""
    return HtmlCell(f"{_figure(value)} {unit}".strip(), mark="" if value.origin == MEASURED else value.origin)


def workbook(values: Sequence[SheetValue]) -> bytes:
    """Return a workbook with a sheet for the data centre, the customers and the months."""
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for part, (title, _) in PARTS.items():
        sheet = book.create_sheet(title)
        sheet.append(COLUMNS)
        for number, value in enumerate(_of_part(values, part), 2):
            for at, name in enumerate(COLUMNS, 1):
                each = getattr(value, name)
                cell = sheet.cell(number, at, printable(each) if isinstance(each, str) else each)
                if isinstance(each, str):
                    # A name that begins with = is a text, not a formula.
                    cell.data_type = "s"
    file = BytesIO()
    book.save(file)
    return file.getvalue()
