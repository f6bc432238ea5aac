"""A month on a terminal: accounts, savings, and the method.

The method describes how the figures were computed, for auditors.
"""

from collections.abc import Iterator, Sequence

from rich.table import Table

from offpeak.display import clock_text
from offpeak.ledger.job_costs import AccountUse
from offpeak.model.constants import J_PER_KWH
from offpeak.model.local_time import date_text, zone_text
from offpeak.text import counted, printable
from services.accounts.counterfactual import REPLAYS, Counterfactual
from services.accounts.job_use import ALL
from ui.ledger.text import assumed_prices
from ui.month.subject import ACCOUNT, SAVED, TOTAL, MonthLine, MonthSubject

UNKNOWN = "not known"


def headline(subject: MonthSubject) -> str:
    """Name the month and its days."""
    span = subject.month.span
    first, last = (date_text(int(second), subject.zone) for second in (span.from_unix_s, span.until_unix_s - 1))
    so_far = ", so far" if subject.month.goes_on else ""
    return f"{subject.month.name}{so_far}: {first} to {last}, {zone_text(subject.zone) or 'clock of this machine'}"


def used_table(subject: MonthSubject) -> Table:
    """Return a table with a row for each account, for all accounts, and for the nodes."""
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
    """Return a table with a row for each source of savings."""
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
    """Return whether any saving was booked or replayed."""
    return any(line.kind == SAVED for line in subject.lines)


def is_empty(subject: MonthSubject) -> bool:
    """Return whether the ledger has no record of the month."""
    return not any(line.kind in (ACCOUNT, TOTAL) or line.energy_kwh for line in subject.lines)


def footnotes(lines: list[str]) -> Iterator[str]:
    """Yield the method, numbered."""
    return (f"{number}. {line}" for number, line in enumerate(lines, 1))


def kwh_text(kwh: float | None) -> str:
    """Return energy to a hundredth."""
    return UNKNOWN if kwh is None else f"{kwh:z,.2f}"


def share_text(line: MonthLine, part_kwh: float | None) -> str:
    """Return the share of a line's energy."""
    return f"{100 * (part_kwh or 0.0) / line.energy_kwh:.0f} %" if line.energy_kwh else ""


def cost_text(line: MonthLine) -> str:
    """Return the money."""
    return UNKNOWN if line.cost is None else f"{line.cost:z,.2f} {line.currency}"


def range_text(line: MonthLine) -> str:
    """Return the range of the money, "" if chance does not affect it."""
    return "" if line.low is None or line.high is None else f"{line.low:z,.2f} to {line.high:z,.2f}"


def kg_text(line: MonthLine) -> str:
    """Return the CO2."""
    return UNKNOWN if line.co2_kg is None else f"{line.co2_kg:z,.2f}"


ACCOUNTS = (
    "Jobs count as a whole in the month in which they ended, as on a bill. Each quarter of an hour is paid at the price"
    " that stood in the ledger when the job was booked.",
    f"Measured: meters knew the job's nodes for at least {ALL:.1%} of its time. Partly measured: for less of it, the"
    " rest is modelled. Modelled: from like jobs, or the class of its nodes.",
    "Energy of nodes is what their meters said, gaps not filled. What of it no job used is in no account.",
)
AT_REST = (
    "Nodes at rest: what the same nodes would have drawn idle, by their node class, less what they drew going down,"
    " asleep and waking, measured where meters know nine tenths of the rest. Only rests that offpeak began count."
)


def method(subject: MonthSubject) -> list[str]:
    """Return the sentences."""
    lines = [*assumed_prices(subject.account.assumed_price_share, subject.zone)]
    lines += [*ACCOUNTS, *_left_out(subject.account.accounts)]
    if subject.account.rested:
        lines.append(AT_REST)
    return [*lines, *(_replay(subject.without) if subject.without else [f"Order of the queue: {subject.why_not}."])]


def _left_out(accounts: Sequence[AccountUse]) -> Iterator[str]:
    """Yield the limits of the accounts, if there are any."""
    unpriced_kwh = sum(each.unpriced_j for each in accounts) / J_PER_KWH
    unknown = sum(each.unknown for each in accounts)
    if unpriced_kwh:
        yield f"{unpriced_kwh:,.2f} kWh of jobs had no price: they are in the energy and in no cost."
    if unknown:
        yield f"Of {counted(unknown, 'job')} the energy is not known: they are counted, and in no figure."


def _replay(without: Counterfactual) -> Iterator[str]:
    yield (
        f"Order of the queue: {counted(without.jobs, 'job')} of the accounting, cut to the month, on"
        f" {counted(without.nodes, 'node')}, are replayed {REPLAYS} times, each time with submissions up to a minute"
        f" later: under {without.site}, the site's own scheduling, and under {without.ordering} on those days on which"
        " the ledger says that jobs were moved. The saving is the difference of the two; 19 of 20 replays lie in its"
        " range."
    )
    yield (
        f"All are charged alike: every node on, the ledger's prices, and each job's own draw, which the ledger knows of"
        f" {without.drawn:,} of {without.jobs:,}. So order saves no energy, and what nodes at rest saved is not counted"
        " twice. What is moved out of the month is paid at its end."
    )
    yield (
        f"Replay error: the second replay is of what happened. Its days cost {without.error_share:.1%} more or less"
        " than those of the real starts, all nodes on; by that error each day is set right. Mean wait"
        f" {clock_text(without.wait_s)} as it was, {clock_text(without.own_wait_s)} replayed,"
        f" {clock_text(without.without_wait_s)} in the site's own order."
    )
