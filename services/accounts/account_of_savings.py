"""The account of savings: what each lever saved in a time, their sum with its range, and its share of the bill.

It is the only place that adds savings up. Its rows are those of the ledger's table `savings`, one for each lever and
day; terminal, status page, reports, metrics and `offpeak status` show this account. A saving is the cost of the same
jobs under the baseline of the lever, less their cost as it was. The baseline of sleeping is "all nodes on", that of the
order of the queue is the site's own order, also with all nodes on: so no joule counts twice. The account of shadow
mode holds what would have been saved. `DemandSaving` is what of a demand charge was saved.

`DelaySaving` is what delays that owners allow have saved, as the bills of these jobs have it. It is shown beside the
sum and not added to it: a bill has all the energy of the nodes of a job, and the nodes that rest in the hour that a job
left are already in the saving of sleeping. Replays of the order know no begin times.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from math import hypot
from typing import TYPE_CHECKING, Any

from offpeak.display import duration_text, energy_text, minute_text, money_text, percent_text, range_text
from offpeak.model.constants import DAY_S, J_PER_KWH, QUARTER_S, YEAR_S
from offpeak.model.time_range import TimeRange
from offpeak.text import counted

if TYPE_CHECKING:
    from sqlalchemy import Connection

SLEEP, ORDER, DEMAND = "sleep", "order", "demand"
BASELINE = "all nodes on"
MEASURED, PARTLY, MODELLED = "measured", "partly measured", "modelled"
MEASURED_SHARE, MODELLED_SHARE = 0.995, 0.005
ENOUGH = 0.9
"""The least share of the time that meters cover, and of the energy that has a price, of a bill that is known."""
LEVER_NAMES = {SLEEP: "sleeping nodes", ORDER: "order of the queue"}


@dataclass(frozen=True)
class LeverSaving:
    """What one lever saved in some days: energy [J], money, and CO2 [g]; None is unknown.

    The money is that of the days whose saving is known and has a price; `unpriced_days` lack one, or a part of it. 19
    of 20 cases are within `low` and `high`. `measured_share` is that of the rows' time, 0 if all is modelled.
    `node_hours` are those of rest; the `delayed_jobs` started `delay_s` later on average.
    """

    lever: str
    days: int
    energy_j: float
    cost: float | None = None
    low: float | None = None
    high: float | None = None
    carbon_g: float | None = None
    measured_share: float | None = None
    node_hours: float | None = None
    delayed_jobs: int | None = None
    delay_s: float | None = None
    unpriced_days: int = 0
    basis: str = ""

    @property
    def known(self) -> str:
        """How the saving is known: measured, partly measured or modelled; "" if the rows do not say."""
        share = self.measured_share
        if share is None:
            return ""
        return MEASURED if share >= MEASURED_SHARE else MODELLED if share <= MODELLED_SHARE else PARTLY

    @property
    def name(self) -> str:
        """The lever in words."""
        return LEVER_NAMES.get(self.lever, self.lever)

    @property
    def is_noise(self) -> bool:
        """Whether chance alone explains the saving."""
        return self.low is not None and self.high is not None and self.low < self.high and self.low <= 0 <= self.high


@dataclass(frozen=True)
class DelaySaving:
    """What delays saved by the bills of the `jobs` that ended: the sum of those known, None if none is."""

    jobs: int = 0
    saved: float | None = None
    currency: str = ""


@dataclass(frozen=True)
class SavingsAccount:
    """What was saved in a time: by lever, and in all, in one currency; None is unknown.

    The money is that of the levers and days that have a price. `bill` is the cost of the metered nodes, from the first
    to the last of the days, None unless meters cover nine tenths of that time. `is_shadow`: shadow mode would have
    saved it. Of the `unknown` levers no row has a figure. `length_s` is the time of the days,
    `priced_s` that of days with a price. No sum has the `delays`.
    """

    levers: tuple[LeverSaving, ...] = ()
    energy_j: float | None = None
    cost: float | None = None
    low: float | None = None
    high: float | None = None
    currency: str = ""
    carbon_g: float | None = None
    bill: float | None = None
    days: int = 0
    unknown: tuple[str, ...] = ()
    is_shadow: bool = False
    length_s: float = 0.0
    priced_s: float = 0.0
    delays: DelaySaving = DelaySaving()

    @property
    def cost_per_year(self) -> float | None:
        """The saving of a year at this rate, None for less than a day."""
        return None if self.cost is None or self.priced_s < DAY_S else self.cost * YEAR_S / self.priced_s

    @property
    def share(self) -> float | None:
        """The saving as a share of the bill under the baseline, 0..1."""
        if self.cost is None or self.bill is None:
            return None
        baseline = self.bill if self.is_shadow else self.bill + self.cost
        return self.cost / baseline if baseline > 0 else None

    @property
    def known(self) -> str:
        """How the saving is known: measured, partly measured or modelled; "" if the rows do not say."""
        known = {lever.known for lever in self.levers}
        return known.pop() if len(known) == 1 else PARTLY if known & {MEASURED, PARTLY} else ""


@dataclass(frozen=True)
class DemandSaving:
    """A demand charge in its period: its highest quarter-hour, which begins `at_unix_s`, and what of it was saved.

    The costs have the tax, and are those of `share` of the period. `without_kw` is the highest quarter-hour under the
    baseline; None is not known, because `why`. Until the period `is_over`, all of it is so far.
    """

    name: str
    at_unix_s: float
    peak_kw: float
    cost: float
    currency: str
    share: float
    is_over: bool
    without_kw: float | None = None
    saved: float | None = None
    why: str = ""

    def text(self, zone: tzinfo) -> str:
        """Return the charge and what of it was saved, in one phrase."""
        so_far = "" if self.is_over else " so far"
        peak = f"{self.name}: {self.peak_kw:,.1f} kW on {minute_text(self.at_unix_s, zone)}"
        if self.without_kw is None:
            saved = f"saving not known, because {self.why}"
        else:
            saved = f"saved {money_text(self.saved, self.currency)}{so_far}, {self.without_kw:,.1f} kW without offpeak"
        return f"{peak}, {money_text(self.cost, self.currency)}{so_far}; {saved}"


NO_SAVINGS, NO_SHADOW = SavingsAccount(), SavingsAccount(is_shadow=True)


def account_of(
    connection: "Connection", span: TimeRange, *, is_shadow: bool = False, knows_booking: bool = True
) -> SavingsAccount:
    """Return the account of days that begin in a time, today's to the end. Raises BadInput for two currencies.

    Without `knows_booking` the bill of a running day goes to the end of that time: a bundle has no time of a booking.
    """
    # The status of the agent is of this account, and commands that print it start without SQLAlchemy.
    from offpeak.ledger.records import savings_in
    from offpeak.services.accounts.credits import credits_by_account

    rows = [row for row in savings_in(connection, span) if bool(row["is_shadow"]) == is_shadow]
    rows = [row for row in rows if row["lever"] != DEMAND]
    # Shadow mode delays no job.
    delays = DelaySaving() if is_shadow else sum_delays(credits_by_account(connection, span))
    priced = [row for row in rows if _cost_of(row) is not None]
    if not priced:
        return replace(sum_account(rows, None, is_shadow=is_shadow), delays=delays)
    last_s = max(row["until_unix_s"] for row in priced)
    # The bill of a running day ends where its saving ends, so that the share is the same until the next booking.
    booked = [row["as_of_unix_s"] or last_s for row in priced if row["until_unix_s"] == last_s]
    booked_s = max(booked) if knows_booking else last_s
    bill = _bill(connection, TimeRange(priced[0]["from_unix_s"], min(span.until_unix_s, booked_s)))
    return replace(sum_account(rows, bill, is_shadow=is_shadow), delays=delays)


def sum_delays(groups: Sequence[Mapping[str, Any]]) -> DelaySaving:
    """Return the sum of the rows of `offpeak ledger credits`; no money in two currencies."""
    jobs, known = sum(row["jobs"] for row in groups), [row for row in groups if row["saved"] is not None]
    currencies = {row["currency"] for row in known}
    if len(currencies) != 1:
        return DelaySaving(jobs)
    return DelaySaving(jobs, sum(row["saved"] for row in known), currencies.pop())


def daily_accounts(
    connection: "Connection", span: TimeRange, *, is_shadow: bool = False
) -> dict[float, SavingsAccount]:
    """Return the account of each day whose rows begin in a time, by its end, without its bill."""
    from offpeak.ledger.records import savings_in

    days: dict[float, list[Mapping[str, Any]]] = {}
    for row in _latest_rows(savings_in(connection, span), is_shadow=is_shadow):
        days.setdefault(row["until_unix_s"], []).append(row)
    return {end_s: sum_account(rows, None, is_shadow=is_shadow) for end_s, rows in days.items()}


def _latest_rows(rows: Iterable[Mapping[str, Any]], *, is_shadow: bool) -> list[Mapping[str, Any]]:
    """Return the rows by lever and begin; of two rows of one lever and begin the one that ends later.

    Rows of demand charges are left out: a day has no saving of its own there, only the whole period.
    """
    latest: dict[tuple[str, float], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: float(row["until_unix_s"])):
        if bool(row["is_shadow"]) == is_shadow and row["lever"] != DEMAND:
            latest[row["lever"], row["from_unix_s"]] = row
    return [row for _, row in sorted(latest.items(), key=lambda each: each[0])]


def sum_account(rows: Iterable[Mapping[str, Any]], bill: float | None, *, is_shadow: bool = False) -> SavingsAccount:
    """Return the sum of rows of the ledger, as `_latest_rows` selects them."""
    latest = _latest_rows(rows, is_shadow=is_shadow)
    by_lever: dict[str, list[Mapping[str, Any]]] = {}
    for row in latest:
        by_lever.setdefault(row["lever"], []).append(row)
    levers = tuple(_sum_lever(lever, days) for lever, days in by_lever.items() if any(map(_is_known, days)))
    unknown = tuple(LEVER_NAMES.get(lever, lever) for lever, days in by_lever.items() if not any(map(_is_known, days)))
    if not levers:
        return SavingsAccount(unknown=unknown, is_shadow=is_shadow)
    currencies = {row["currency"] for row in latest if _cost_of(row) is not None}
    priced = [lever for lever in levers if lever.cost is not None]
    cost = _sum([lever.cost for lever in priced]) if len(currencies) == 1 else None
    low, high = _combine(priced, cost)
    return SavingsAccount(
        levers=levers,
        energy_j=sum(lever.energy_j for lever in levers),
        cost=cost,
        low=low,
        high=high,
        currency=currencies.pop() if len(currencies) == 1 else "",
        carbon_g=_sum([lever.carbon_g for lever in levers]),
        bill=bill,
        days=_count_days(latest),
        unknown=unknown,
        is_shadow=is_shadow,
        length_s=_length_s(latest),
        priced_s=_length_s(row for row in latest if _cost_of(row) is not None),
    )


def _length_s(rows: Iterable[Mapping[str, Any]]) -> float:
    """Return the time of the days of the rows; a running day has lasted to its latest booking.

    The rows of a day begin at different times, where the agent was away in it, and all end with the day.
    """
    days: dict[float, list[Mapping[str, Any]]] = {}
    for row in rows:
        days.setdefault(row["until_unix_s"], []).append(row)
    begins = (min(row["from_unix_s"] for row in of_day) for of_day in days.values())
    ends = (max(row["as_of_unix_s"] or row["until_unix_s"] for row in of_day) for of_day in days.values())
    return float(sum(end_s - begin_s for begin_s, end_s in zip(begins, ends, strict=True)))


def _count_days(rows: Iterable[Mapping[str, Any]]) -> int:
    return len({row["until_unix_s"] for row in rows})


def _sum_lever(lever: str, days: Sequence[Mapping[str, Any]]) -> LeverSaving:
    """Return the sum of the days of a lever.

    The range of sleeping comes from the idle power, whose error is the same each day, so the ranges of its days add
    up. Those of replays are by chance, day by day, and add up by their squares.
    """
    unpriced = [day for day in days if _cost_of(day) is None]
    days = [day for day in days if _is_known(day)]
    priced = [day for day in days if _cost_of(day) is not None]
    cost = _sum([_cost_of(day) for day in priced]) if len({day["currency"] for day in priced}) == 1 else None
    lows = [None if day["low_cost"] is None else (_cost_of(day) or 0.0) - day["low_cost"] for day in priced]
    highs = [None if day["high_cost"] is None else day["high_cost"] - (_cost_of(day) or 0.0) for day in priced]
    below, above = (_sum(lows), _sum(highs)) if lever == SLEEP else (_root(lows), _root(highs))
    jobs = _sum([day["delayed_jobs"] for day in days])
    delay_s = [(day["delay_s"] or 0.0) * (day["delayed_jobs"] or 0) for day in days]
    return LeverSaving(
        lever=lever,
        days=_count_days(days),
        energy_j=sum(day["baseline_energy_j"] - day["energy_j"] for day in days),
        cost=cost,
        low=None if cost is None or below is None else cost - below,
        high=None if cost is None or above is None else cost + above,
        carbon_g=_sum([day["saved_carbon_g"] for day in days]),
        measured_share=_mean_share(days),
        node_hours=_sum([day["node_hours"] for day in days]),
        delayed_jobs=None if jobs is None else round(jobs),
        delay_s=sum(delay_s) / jobs if jobs else None,
        unpriced_days=_count_days(unpriced),
        basis=days[-1]["basis"],
    )


def _mean_share(days: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the measured share of all days, by their node-hours where those are known."""
    shares = [day["measured_share"] for day in days]
    if any(share is None for share in shares):
        return None
    weights = [day["node_hours"] or 0.0 for day in days]
    total = sum(weights)
    if not total:
        return float(sum(shares) / len(shares))
    return float(sum(share * weight for share, weight in zip(shares, weights, strict=True)) / total)


def _combine(levers: Sequence[LeverSaving], cost: float | None) -> tuple[float | None, float | None]:
    """Return the range of the sum; the errors of different levers are independent."""
    if cost is None:
        return None, None
    below = _root([None if lever.low is None else (lever.cost or 0.0) - lever.low for lever in levers])
    above = _root([None if lever.high is None else lever.high - (lever.cost or 0.0) for lever in levers])
    return None if below is None else cost - below, None if above is None else cost + above


def _bill(connection: "Connection", span: TimeRange) -> float | None:
    """Return the cost of all nodes in a time, None if meters or prices miss much of it.

    The time begins when the ledger knows a node or a meter, and ends with the last reading or decision: so meters that
    came later, or fell silent, are missed, and so are nodes without one.
    """
    from sqlalchemy import func, select

    from offpeak.ledger.node_energy import node_energy
    from offpeak.ledger.records import last_written_unix_s
    from offpeak.ledger.tables import quarters, states

    since = (quarters.c.at_unix_s >= span.from_unix_s) & (quarters.c.at_unix_s < span.until_unix_s)
    edges = connection.execute(select(func.min(quarters.c.at_unix_s), func.max(quarters.c.at_unix_s)).where(since))
    first_s, last_s = tuple(edges.one())
    if first_s is None or last_s is None:
        return None
    # The first quarter-hour is measured at its end, the last one at its begin.
    covered = select(quarters.c.at_unix_s, func.max(quarters.c.covered_s)).group_by(quarters.c.at_unix_s)
    both = connection.execute(covered.where(quarters.c.at_unix_s.in_((first_s, last_s))))
    lengths_s = {row[0]: row[1] for row in both}
    first_s, last_s = first_s + QUARTER_S - lengths_s[first_s], last_s + lengths_s[last_s]
    known = select(func.min(states.c.at_unix_s), func.count(states.c.node.distinct()))
    known_s, known_nodes = tuple(connection.execute(known.where(states.c.at_unix_s < span.until_unix_s)).one())
    begin_s = max(span.from_unix_s, min(first_s, first_s if known_s is None else known_s))
    end_s = min(span.until_unix_s, max(last_s, last_written_unix_s(connection) or 0.0))
    nodes = node_energy(connection, TimeRange(float(begin_s), end_s), ("node",), UTC)
    share = sum(node.covered or 0.0 for node in nodes) / max(len(nodes), known_nodes, 1)
    unpriced_j, energy_j = sum(node.unpriced_j for node in nodes), sum(node.energy_j for node in nodes)
    if share < ENOUGH or unpriced_j > (1 - ENOUGH) * energy_j:
        return None
    return sum(node.cost or 0.0 for node in nodes)


def _is_known(row: Mapping[str, Any]) -> bool:
    return row["energy_j"] is not None


def _cost_of(row: Mapping[str, Any]) -> float | None:
    baseline, cost = row["baseline_cost"], row["cost"]
    return None if baseline is None or cost is None else float(baseline) - float(cost)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum, None if one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _root(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return hypot(*known) if known and len(known) == len(values) else None


NOTHING = "nothing is booked"


def saving_text(account: SavingsAccount) -> str:
    """Return the saving in one phrase: money with its range, share of the bill, energy, and how it is known."""
    if account.energy_j is None:
        return NOTHING + "".join(f", {text}" for text in _missing(account))
    energy = energy_text(account.energy_j / J_PER_KWH)
    if account.cost is None:
        unknown = (f"without {name}, which is not known" for name in account.unknown)
        return f"{energy}{_in_parentheses(account.known, 'the price is not known', *unknown, delays_text(account))}"
    share = "" if account.share is None else f", {percent_text(100 * account.share, 1)} of the bill"
    ranged = range_text(account.low, account.high)
    money = money_text(account.cost, account.currency)
    notes = _in_parentheses(account.known, *_missing(account))
    return f"{money}{f' ({ranged})' if ranged else ''}{share}; {energy}{notes}"


def _missing(account: SavingsAccount) -> list[str]:
    """Return what the money lacks: days of a lever that have no figure, and levers without any."""
    some = [lever for lever in account.levers if lever.unpriced_days]
    return [
        *(f"without {counted(lever.unpriced_days, 'day')} of {lever.name}" for lever in some if lever.cost is not None),
        *(f"without {lever.name}, whose price is not known" for lever in some if lever.cost is None),
        *(f"without {name}, which is not known" for name in account.unknown),
        *filter(None, [delays_text(account)]),
    ]


def delays_text(account: SavingsAccount) -> str:
    """Return what delays saved by the bills of their jobs, and that no sum has it; "" without a delay."""
    delays = account.delays
    if not delays.jobs:
        return ""
    jobs = counted(delays.jobs, "delayed job")
    if delays.saved is None:
        return f"not included: what {jobs} saved, which is not known"
    saved = money_text(delays.saved, delays.currency)
    return f"not included: {saved} that {jobs} saved, as sleeping nodes count part of it"


def shadow_text(account: SavingsAccount) -> str:
    """Return what shadow mode would have saved, and its side effects, in one sentence."""
    if account.energy_j is None:
        return NOTHING
    hours = _sum([lever.node_hours for lever in account.levers if lever.node_hours is not None])
    jobs = _sum([lever.delayed_jobs for lever in account.levers if lever.delayed_jobs is not None])
    slept = "" if hours is None else f", {hours:,.1f} node-hours asleep"
    waited = sum((lever.delay_s or 0.0) * (lever.delayed_jobs or 0) for lever in account.levers)
    delayed = "" if jobs is None else f", {counted(round(jobs), 'job')} delayed"
    delay = f" by {duration_text(waited / jobs)} on average" if jobs else ""
    return f"would have saved {saving_text(account)}{slept}{delayed}{delay}"


def _in_parentheses(*texts: str) -> str:
    known = "; ".join(filter(None, texts))
    return f" ({known})" if known else ""
