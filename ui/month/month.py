"""Run `offpeak report`: print the account of a month, and write it as a page and as CSV.

The cost of each day, and its cost without offpeak, is drawn as SVG, so the page needs no script.
"""

import time
from collections.abc import Sequence
from html import escape

import numpy as np
import typer

from offpeak.display import amount_text, money_text
from offpeak.ledger.database import open_ledger
from offpeak.ledger.seals import read_seals
from offpeak.model.arrays import Float64
from offpeak.predictors.feeds.markets import site_zone
from offpeak.prices.tariff_file import site_tariff
from offpeak.services.accounts.month_account import DayCost, make_month_account
from offpeak.settings.table import Settings
from offpeak.ui.month.subject import (
    CHANCE,
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
from offpeak.ui.records import print_nothing, rows_csv
from offpeak.ui.replay.tables import NOISE
from offpeak.ui.report.figure import Key
from offpeak.ui.report.page import HtmlCell, legend, page_head, paragraph, section, still_page, table
from offpeak.ui.terminal import print_table, text_table, write_files

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 1000, 260, 60, 26, 10
TICKS = 4


def days_section(days: Sequence[DayCost], currency: str) -> str:
    """Return the section: what each day cost, and what it would have cost without what was saved."""
    cost = np.array([day.cost for day in days])
    without = np.array([day.cost + (day.saved or 0.0) for day in days])
    texts = [
        f"{day.name}: {money_text(day.cost, currency)}, {amount_text(other)} without offpeak"
        for day, other in zip(days, without.tolist(), strict=True)
    ]
    drawn = _drawn(cost, without, [f"{int(day.name[-2:])}" for day in days], texts)
    label = f"Cost of the metered nodes on each day, as it was and without what was saved [{currency}]"
    return section(
        "Day by day",
        f"<figure>{legend(KEYS)}"
        f'<div class="scroll" role="region" tabindex="0" aria-label="figure"><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="100%" role="img" aria-label="{escape(label)}">{drawn}</svg></div>'
        f"<figcaption>{escape(label)}.</figcaption></figure>",
    )


KEYS = (Key("as it was", "var(--busy)", is_area=True), Key("without offpeak", "var(--text)"))


def _drawn(cost_of: Float64, without: Float64, names: list[str], texts: list[str]) -> str:
    both = np.concatenate([cost_of, without, [0.0]])
    step = tick_step(float(both.max() - both.min()))
    low, high = np.floor(both.min() / step) * step, np.ceil(both.max() / step) * step

    def y(value: float) -> float:
        return round(ABOVE + float((high - value) / (high - low)) * (HEIGHT - ABOVE - BELOW), 1)

    wide = (WIDTH - LEFT) / len(names)
    parts = [_tick(value, y(value)) for value in np.arange(low, high + step / 2, step).tolist()]
    every = max(1, len(names) // 16)
    for at, (cost, other) in enumerate(zip(cost_of.tolist(), without.tolist(), strict=True)):
        x = round(LEFT + at * wide, 1)
        top, bottom = min(y(cost), y(0)), max(y(cost), y(0))
        bar = f'x="{x + 0.12 * wide:.1f}" y="{top}" width="{0.76 * wide:.1f}" height="{bottom - top:.1f}"'
        line = f'x1="{x + 0.05 * wide:.1f}" x2="{x + 0.95 * wide:.1f}" y1="{y(other)}" y2="{y(other)}"'
        label = f'<text x="{x + wide / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{names[at]}</text>'
        parts.append(
            f'<g><title>{escape(texts[at])}</title><rect {bar} fill="var(--busy)"/>'
            f'<line {line} stroke="var(--text)" stroke-width="3"/></g>{"" if at % every else label}'
        )
    return f'<g font-size="13" fill="var(--muted)">{"".join(parts)}</g>'


def tick_step(span: float) -> float:
    """Return a round step, 1, 2 or 5 times a power of ten, that divides the span into a few parts."""
    raw_step = max(span, 1e-6) / TICKS
    power = 10.0 ** np.floor(np.log10(raw_step))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw_step))


def _tick(value: float, y: float) -> str:
    return (
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="var(--grid)"/>'
        f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:,.10g}</text>'
    )


PAGE_SAVED = ("saved by", "energy kWh", "money", "CO2 kg", "basis")


def month_page(subject: MonthSubject) -> str:
    """Return the page."""
    sections = [_used(subject), *_gpus(subject), _saved(subject)]
    if len(subject.account.days) > 1:
        sections.append(days_section(subject.account.days, subject.account.nodes[0].currency))
    notes = "".join(f"<li>{escape(line)}</li>" for line in method(subject))
    sections.append(section("How these figures came about", f"<ol>{notes}</ol>"))
    return still_page(f"{subject.month.name}: energy and cost", _head(subject), sections)


def _head(subject: MonthSubject) -> str:
    title = f"{subject.month.name}{', so far' if subject.month.goes_on else ''}"
    return page_head(title, answer_text(subject), [("period", headline(subject).partition(": ")[2])])


def _used(subject: MonthSubject) -> str:
    rows = used_cells(subject)
    if not rows:
        return section("Who used what", paragraph("The ledger has no job and no reading of that time."))
    caption = "Energy, money and CO2 of the jobs that ended, by account; and what meters say of the nodes"
    return section("Who used what", table(caption, USED, rows))


def _gpus(subject: MonthSubject) -> list[str]:
    rows = gpu_cells(subject)
    caption = "GPU-hours of the jobs that ended, those that were idle, and their energy and cost, by account and user"
    return [section("Who left GPUs idle", table(caption, GPU_COLUMNS, rows))] if rows else []


def _saved(subject: MonthSubject) -> str:
    rows = [
        (
            *(name, energy, HtmlCell(money, interval, NOISE if CHANCE in basis else ""), co2),
            HtmlCell("", mark=basis.partition(":")[0]),
        )
        for name, energy, money, interval, co2, basis in saved_cells(subject)
    ]
    if not rows:
        return section("What was saved", paragraph("Nothing was booked."))
    return section("What was saved", table("Against all nodes on, in the site's own order", PAGE_SAVED, rows))


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
        seal = next(reversed(read_seals(connection, month.whole)), None)
    return MonthSubject(month, zone, account, lines_of(account, tariff), seal)


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
