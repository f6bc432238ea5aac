"""Run `offpeak report`: print the account of a month, and write it as a page and as CSV.

The page is for people who decide: what was saved, the bill by day, what each measure saved, and who used what. Its
charts need no script, and it prints on two pages.
"""

import time
from html import escape
from pathlib import Path

import typer

from offpeak.display import co2_text, duration_text, energy_text, money_text, percent_text, range_text
from offpeak.ledger.database import open_ledger
from offpeak.ledger.seals import read_seals
from offpeak.model.constants import J_PER_KWH
from offpeak.predictors.feeds.markets import site_zone
from offpeak.prices.tariff_file import site_tariff
from offpeak.services.accounts.account_of_savings import MODELLED, ORDER, SLEEP, SavingsAccount
from offpeak.services.accounts.month_account import make_month_account
from offpeak.settings.table import Settings
from offpeak.ui.month.subject import (
    ACCOUNT,
    DEMAND,
    GPU_COLUMNS,
    TOTAL,
    MonthSubject,
    answer_text,
    gpu_cells,
    headline,
    lines_of,
    method,
    month_of,
    nodes_line,
    saved_cells,
    used_cells,
)
from offpeak.ui.records import print_nothing, rows_csv
from offpeak.ui.report.bars import ChartBar, ChartColumn, bars_section, columns_section
from offpeak.ui.report.figure import Key
from offpeak.ui.report.page import definitions, paragraph, section, still_page, table
from offpeak.ui.terminal import print_table, text_table, write_files

USED = ("account", "jobs", "energy kWh", "measured", "partly", "modelled", "cost", "CO2 kg")
SAVED = ("saved by", "energy kWh", "money", "19 of 20 cases", "CO2 kg", "basis")
KEYS = Key("as it was", "var(--busy)", is_area=True), Key("without offpeak", "var(--text)")
MEASURES = {
    SLEEP: "Switching off computers that no job needs",
    ORDER: "Starting jobs that need much power in cheap hours",
}


def report_month(settings: Settings, month_text: str | None, *, html: Path | None, csv: Path | None) -> None:
    """Print the report of a month, and write page and CSV if requested."""
    zone = site_zone(settings.feeds.zone)
    month = month_of(month_text, now_unix_s=time.time(), zone=zone)
    with open_ledger(settings.ledger.url) as connection:
        tariff = site_tariff(settings.prices.tariff, zone)
        account = make_month_account(connection, month.span, zone, tariff)
        seal = next(reversed(read_seals(connection, month.whole)), None)
    subject = MonthSubject(month, zone, account, lines_of(account, tariff), seal)
    typer.echo(f"{headline(subject)}\n")
    if not any(line.kind in (ACCOUNT, TOTAL) or line.energy_kwh for line in subject.lines):
        print_nothing(month.span, zone)
    else:
        tables = (
            (USED, used_cells(subject), (0,)),
            (GPU_COLUMNS, gpu_cells(subject), (0,)),
            (SAVED, saved_cells(subject), (0, 5)),
        )
        for headers, cells, texts in tables:
            if cells:
                print_table(text_table(headers, cells, texts=texts))
                typer.echo()
        typer.echo(f"{answer_text(subject)}\n")
        for number, line in enumerate(method(subject), 1):
            typer.echo(f"{number}. {line}")
    rows = [vars(line) for line in subject.lines]
    write_files({html: lambda: month_page(subject).encode(), csv: lambda: rows_csv(rows).encode()})


def month_page(subject: MonthSubject) -> str:
    """Return the page: one number, the bill by day, what each measure saved, who used what, and the method folded."""
    sections = [*_bill(subject), *_measures(subject), *_noticed(subject), *_used(subject), _details(subject)]
    account, so_far = subject.account, ", so far" if subject.month.goes_on else ""
    saved = account.saved if account.saved.levers or not account.shadow.levers else account.shadow
    parts = [f"<header>\n<h1>Electricity of the cluster in {escape(subject.month.name)}{so_far}</h1>"]
    if saved.cost is None:
        parts.append(paragraph(answer_text(subject), css_class="answer"))
    else:
        held = range_text(saved.low, saved.high)
        small = f"{held} {saved.currency} in 19 of 20 cases; {saved.known}" if held else saved.known
        would = "would have been saved" if saved.is_shadow else "saved"
        amount = escape(f"{money_text(saved.cost, saved.currency)} {would}")
        parts.append(f'<p class="hero">{amount} <small>{escape(small)}</small></p>')
        parts.append(paragraph(_share_text(saved), css_class="answer"))
    return still_page(
        f"{subject.month.name}: energy and cost",
        "\n".join([*parts, definitions(_facts(subject)), "</header>"]),
        sections,
    )


def _share_text(saved: SavingsAccount) -> str:
    """Return the share of the bill, the energy and the CO2 that were saved."""
    energy = energy_text((saved.energy_j or 0.0) / J_PER_KWH, 0)
    of_bill = "" if saved.share is None else f"{percent_text(100 * saved.share, 1)} of the electricity bill, "
    co2 = "" if saved.carbon_g is None else f" and {co2_text(saved.carbon_g / 1000)}"
    return f"{of_bill}{energy}{co2}{'; offpeak only recorded what it would do' if saved.is_shadow else ''}."


def _facts(subject: MonthSubject) -> list[tuple[str, str]]:
    account, span = subject.account, headline(subject).partition(": ")[2]
    nodes = account.nodes and nodes_line(account.nodes)
    jobs = sum(use.jobs for use in account.accounts)
    facts = [("period", span), *([("jobs", f"{jobs:,} ended")] if jobs else [])]
    if nodes:
        cost = money_text(nodes.cost, nodes.currency)
        facts.append(("used", f"{energy_text(nodes.energy_kwh, 0)}{'' if nodes.cost is None else f', {cost}'}"))
        if nodes.co2_kg is not None:
            facts.append(("emitted", co2_text(nodes.co2_kg)))
    return facts


def _bill(subject: MonthSubject) -> list[str]:
    """Return the chart of what each day cost, and would have cost without what was saved."""
    days = subject.account.days
    if len(days) < 2:
        return []
    currency = subject.account.nodes[0].currency
    columns = []
    for day in days:
        without = day.cost + (day.saved or 0.0)
        text = f"{day.name}: {money_text(day.cost, currency)}, {money_text(without, currency)} without offpeak"
        columns.append(ChartColumn(f"{int(day.name[-2:])}", day.cost, without, text))
    caption = f"What the electricity of the measured computers cost on each day, in {currency}, and without offpeak."
    return [columns_section("The bill, day by day", columns, KEYS, caption)]


def _measures(subject: MonthSubject) -> list[str]:
    """Return the chart of what each measure saved. Measures without a price have no bar."""
    bars, unpriced, currency = [], [], ""
    for account in (subject.account.saved, subject.account.shadow):
        for lever in account.levers:
            name = MEASURES.get(lever.lever, lever.name) + (", in observation mode" if account.is_shadow else "")
            if lever.cost is None:
                unpriced.append(f"{name}: {energy_text(lever.energy_j / J_PER_KWH)}")
                continue
            currency = account.currency
            notes = (lever.known or MODELLED, "may be due to chance" if lever.is_noise else "")
            note = ", ".join(filter(None, notes))
            text = money_text(lever.cost, currency)
            bars.append(
                ChartBar(
                    name, lever.cost, text, lever.low, lever.high, note, is_strong=lever.cost > 0 and not lever.is_noise
                )
            )
    for demand in subject.account.demand:
        if demand.saved is not None:
            currency = demand.currency
            bars.append(ChartBar("Lowering the highest quarter-hour", demand.saved, money_text(demand.saved, currency)))
    caption = f"Saved, in {currency}. The thin line is the range for 19 of 20 cases." if bars else "No price is known."
    without = f" Without a price: {'; '.join(unpriced)}." if unpriced else ""
    return [bars_section("What each measure saved", bars, caption + without)] if bars or unpriced else []


def _noticed(subject: MonthSubject) -> list[str]:
    """Return what users noticed: how many jobs waited longer for cheap hours, and how long."""
    delays = subject.account.saved.delays
    levers = [lever for lever in subject.account.saved.levers if lever.delayed_jobs]
    jobs = sum(use.jobs for use in subject.account.accounts)
    if not jobs or not (delays.jobs or levers):
        return []
    bars = [ChartBar("All jobs that ended", jobs, f"{jobs:,}")]
    if delays.jobs:
        bars.append(
            ChartBar("Jobs that waited for a cheap hour, as their owners allow", delays.jobs, f"{delays.jobs:,}")
        )
    for lever in levers:
        note = f"{duration_text(lever.delay_s)} later on average" if lever.delay_s is not None else ""
        bars.append(
            ChartBar(
                "Jobs that waited until computers were on",
                lever.delayed_jobs or 0,
                f"{lever.delayed_jobs:,}",
                note=note,
            )
        )
    return [bars_section("What users noticed", bars, "Number of jobs.")]


def _used(subject: MonthSubject) -> list[str]:
    """Return the table of accounts, without what is not known of all of them."""
    lines = [line for line in subject.lines if line.kind in (ACCOUNT, TOTAL, DEMAND)]
    if not lines:
        return []
    columns = [
        ("jobs", [f"{line.jobs:,}" if line.jobs is not None else "" for line in lines]),
        ("energy", [energy_text(line.energy_kwh, 0) if line.energy_kwh is not None else "" for line in lines]),
        ("cost", [money_text(line.cost, line.currency) if line.cost is not None else "" for line in lines]),
        ("CO2", [co2_text(line.co2_kg) if line.co2_kg is not None else "" for line in lines]),
    ]
    known = [(name, cells) for name, cells in columns if any(cells)]
    names = [line.name or "no account" for line in lines]
    rows = list(zip(names, *(cells for _, cells in known), strict=True))
    caption = "Of the jobs that ended, by account, without the energy of idle nodes; empty where nothing is known"
    return [section("Who used what", table(caption, ("account", *(name for name, _ in known)), rows))]


def _details(subject: MonthSubject) -> str:
    """Return how the figures came about, for the administrator and the auditor: it is not printed."""
    gpus, saved = gpu_cells(subject), saved_cells(subject)
    parts = [
        paragraph(answer_text(subject)),
        *([table("Energy, money and CO2 by account and of the nodes", USED, used_cells(subject))] if saved else []),
        *([table("Against all nodes on, in the site's own order", SAVED, saved)] if saved else []),
        *([table("GPUs of the jobs that ended, by account and user", GPU_COLUMNS, gpus)] if gpus else []),
        f"<ol>{''.join(f'<li>{escape(line)}</li>' for line in method(subject))}</ol>",
    ]
    summary = "<summary><h2>How these figures came about</h2></summary>"
    return f'<details class="on-screen">\n{summary}\n{"".join(parts)}\n</details>'
