"""A month as a page: who used what, what was saved, day by day, and how that is known. It has no script."""

from html import escape

from ui.month.days_figure import days_section
from ui.month.lines import CHANCE, SAVED, Line
from ui.month.method import method
from ui.month.subject import MonthSubject
from ui.month.text import UNKNOWN, cost_text, headline, kg_text, kwh_text, range_text, share_text
from ui.replay.spread_table import NOISE
from ui.report.html_text import Cell, definitions, paragraph, section, table
from ui.report.page import still_page

USED = ("account", "jobs", "energy [kWh]", "measured", "partly measured", "modelled", "cost", "CO2 [kg]")
SAVINGS = ("saved by", "energy [kWh]", "money", "CO2 [kg]", "basis")


def month_page(subject: MonthSubject) -> str:
    """Return the page."""
    sections = [_used(subject), _saved(subject)]
    if subject.without is not None and subject.account.told is not None:
        sections.append(days_section(subject.without, subject.account.told))
    notes = "".join(f"<li>{escape(line)}</li>" for line in method(subject))
    sections.append(section("How these figures came about", f"<ol>{notes}</ol>"))
    return still_page(f"{subject.month.name}: energy and cost", _head(subject), sections)


def answer_text(subject: MonthSubject) -> str:
    """Say in a sentence what the month came to."""
    said = [_saved_text(line) for line in _savings(subject) if line.cost is not None]
    if not said:
        return "What was saved is not known."
    return f"Saved by {' and '.join(said)}."


def _saved_text(line: Line) -> str:
    amount = "nothing that can be told from chance" if CHANCE in line.basis else cost_text(line)
    return f"{line.name}: {amount}"


def _head(subject: MonthSubject) -> str:
    without = subject.without
    error = f"{without.error_share:.1%} of a day's cost" if without else UNKNOWN
    facts = (
        ("period", headline(subject).partition(": ")[2]),
        ("replay error", error),
    )
    title = escape(f"{subject.month.name}{', so far' if subject.month.goes_on else ''}")
    return (
        f"<header>\n<h1>{title}</h1>\n{paragraph(answer_text(subject), css_class='answer')}\n"
        f"{definitions(facts)}\n</header>"
    )


def _used(subject: MonthSubject) -> str:
    rows = [_used_row(line) for line in subject.lines if line.kind != SAVED]
    if not rows:
        return section("Who used what", paragraph("The ledger knows of no job and no reading of that time."))
    caption = "Energy, money and CO2 of the jobs that ended, by account; and what meters say of the nodes"
    return section("Who used what", table(caption, USED, rows))


def _used_row(line: Line) -> tuple[Cell, ...]:
    parts = (line.measured_kwh, line.partly_kwh, line.modelled_kwh)
    texts = (
        "" if line.jobs is None else f"{line.jobs:,}",
        kwh_text(line.energy_kwh),
        *(share_text(line, part) for part in parts),
        cost_text(line),
        kg_text(line),
    )
    return Cell(line.name), *(Cell(text) for text in texts)


def _saved(subject: MonthSubject) -> str:
    rows = [
        (
            Cell(line.name),
            Cell(kwh_text(line.energy_kwh)),
            Cell(cost_text(line), range_text(line), NOISE if CHANCE in line.basis else ""),
            Cell(kg_text(line)),
            Cell("", mark=line.basis.partition(":")[0]),
        )
        for line in _savings(subject)
    ]
    if not rows:
        return section("What was saved", paragraph("Nothing was booked, and nothing could be replayed."))
    return section("What was saved", table("Against all nodes on, in the site's own order", SAVINGS, rows))


def _savings(subject: MonthSubject) -> list[Line]:
    return [line for line in subject.lines if line.kind == SAVED]
