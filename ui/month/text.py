"""A month on a terminal: the accounts, what was saved, and how it is known."""

from collections.abc import Iterator

from rich.table import Table

from offpeak.model.local_time import date_text, zone_text
from offpeak.text import printable
from ui.month.lines import ACCOUNT, SAVED, TOTAL, Line
from ui.month.subject import MonthSubject

UNKNOWN = "not known"


def headline(subject: MonthSubject) -> str:
    """Name the month and its days."""
    span = subject.month.span
    first, last = (date_text(int(second), subject.zone) for second in (span.from_unix_s, span.until_unix_s - 1))
    so_far = ", so far" if subject.month.goes_on else ""
    return f"{subject.month.name}{so_far}: {first} to {last}, {zone_text(subject.zone) or 'clock of this machine'}"


def used_table(subject: MonthSubject) -> Table:
    """Return a line an account, of all of them and of the nodes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("account")
    for header in ("jobs", "energy kWh", "measured", "partly", "modelled", "cost", "CO2 kg"):
        table.add_column(header, justify="right")
    for line in subject.lines:
        if line.kind != SAVED:
            parts = (line.measured_kwh, line.partly_kwh, line.modelled_kwh)
            figures = (kwh_text(line.energy_kwh), *(share_text(line, part) for part in parts))
            jobs = "" if line.jobs is None else f"{line.jobs:,}"
            table.add_row(printable(line.name), jobs, *figures, cost_text(line), kg_text(line))
    return table


def saved_table(subject: MonthSubject) -> Table:
    """Return a line for each way of saving."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("saved by")
    for header in ("energy kWh", "money", "19 of 20 replays", "CO2 kg"):
        table.add_column(header, justify="right")
    table.add_column("basis")
    for line in subject.lines:
        if line.kind == SAVED:
            table.add_row(
                line.name, kwh_text(line.energy_kwh), cost_text(line), range_text(line), kg_text(line), line.basis
            )
    return table


def has_savings(subject: MonthSubject) -> bool:
    """Tell whether anything was booked or replayed."""
    return any(line.kind == SAVED for line in subject.lines)


def is_empty(subject: MonthSubject) -> bool:
    """Tell whether the ledger knows nothing of the month."""
    return not any(line.kind in (ACCOUNT, TOTAL) or line.energy_kwh for line in subject.lines)


def footnotes(lines: list[str]) -> Iterator[str]:
    """Yield the method, numbered."""
    return (f"{number}. {line}" for number, line in enumerate(lines, 1))


def kwh_text(kwh: float | None) -> str:
    """Return energy to a hundredth."""
    return UNKNOWN if kwh is None else f"{kwh:z,.2f}"


def share_text(line: Line, part_kwh: float | None) -> str:
    """Return what part of a line's energy that is."""
    return f"{100 * (part_kwh or 0.0) / line.energy_kwh:.0f} %" if line.energy_kwh else ""


def cost_text(line: Line) -> str:
    """Return the money."""
    return UNKNOWN if line.cost is None else f"{line.cost:z,.2f} {line.currency}"


def range_text(line: Line) -> str:
    """Return the range of the money, "" where chance has no part in it."""
    return "" if line.low is None or line.high is None else f"{line.low:z,.2f} to {line.high:z,.2f}"


def kg_text(line: Line) -> str:
    """Return the CO2."""
    return UNKNOWN if line.co2_kg is None else f"{line.co2_kg:z,.2f}"
