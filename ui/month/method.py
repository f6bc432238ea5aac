"""How the figures of a month came about, in sentences: the footnote that an auditor reads first."""

from collections.abc import Iterator, Sequence

from offpeak.ledger.energy_use import J_PER_KWH
from offpeak.ledger.job_costs import AccountUse
from offpeak.text import counted
from services.accounts.counterfactual import REPLAYS, Counterfactual
from services.accounts.job_use import ALL
from ui.clock_text import clock_text
from ui.ledger.text import assumed_prices
from ui.month.subject import MonthSubject

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
    """Yield what the accounts cannot know, if there is any."""
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
