"""The figures of a month, a line for each account, total and saving, and their texts.

The month is a local one, as an operator writes it (2026-11). Text, page and CSV are made from these lines; each line
has its basis. The method describes how the figures were computed, for auditors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from offpeak import display
from offpeak.errors import BadInput
from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.job_costs import AccountUse, GpuUse, known_sum, sum_uses
from offpeak.ledger.seals import LedgerSeal
from offpeak.model.constants import HOUR_S, J_PER_KWH
from offpeak.model.time_range import TimeRange, parse_range
from offpeak.model.zones import date_text, zone_text
from offpeak.power.meters.gpu import IDLE_BELOW_PERCENT
from offpeak.prices.tariff import Tariff
from offpeak.services.accounts.account_of_savings import (
    MEASURED,
    MODELLED,
    ORDER,
    PARTLY,
    SLEEP,
    DemandSaving,
    LeverSaving,
    delays_text,
    saving_text,
    shadow_text,
)
from offpeak.services.accounts.counterfactual import REPLAYS
from offpeak.services.accounts.job_use import ALL
from offpeak.services.accounts.month_account import MonthAccount
from offpeak.text import counted
from offpeak.ui.ledger.text import assumed_prices


@dataclass(frozen=True)
class Month:
    """A month, or another period, with its name, "November 2026"; the span of the current one ends now."""

    name: str
    span: TimeRange
    whole: TimeRange

    @property
    def goes_on(self) -> bool:
        """Whether it is not over."""
        return self.span != self.whole


def month_of(text: str | None, *, now_unix_s: float, zone: tzinfo) -> Month:
    """Return the month of a text such as "2026-11", by default the last complete one; raise BadInput if invalid."""
    if text is None:
        last = datetime.fromtimestamp(now_unix_s, zone).replace(day=1) - timedelta(days=1)
        text = f"{last:%Y-%m}"
    return period_of(text, now_unix_s=now_unix_s, zone=zone)


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def period_of(text: str, *, now_unix_s: float, zone: tzinfo, option: str = "--month") -> Month:
    """Return the month of a text; of the option --bill a year, or dates with a slash between them, too.

    Raises BadInput for anything else.
    """
    start, slash, end = text.partition("/")
    is_year = option == "--bill" and "-" not in text
    try:
        if slash and option == "--bill":
            span, name = parse_range(start, end, now_unix_s=now_unix_s, zone=zone), text
        else:
            first = datetime.strptime(text, "%Y" if is_year else "%Y-%m").replace(tzinfo=zone)
            months = 12 * first.year + first.month - 1 + (12 if is_year else 1)
            after = first.replace(year=months // 12, month=months % 12 + 1)
            span = TimeRange(first.timestamp(), after.timestamp())
            name = str(first.year) if is_year else f"{MONTHS[first.month - 1]} {first.year}"
    except ValueError:
        hint = "write it like 2026-11" + (", 2026 or 2026-11-01/2026-11-16" if option == "--bill" else "")
        raise BadInput(f"{option} {text}: is not a {'period' if option == '--bill' else 'month'}", hint=hint) from None
    if span.from_unix_s >= now_unix_s:
        now = datetime.fromtimestamp(now_unix_s, zone)
        raise BadInput(f"{option} {text}: has not begun", hint=f"this month is {now:%Y-%m}")
    return Month(name, TimeRange(span.from_unix_s, min(span.until_unix_s, now_unix_s)), span)


ACCOUNT, TOTAL, NODES, DEMAND, SAVED, SHADOW = "account", "jobs", "nodes", "demand", "saved", "shadow"
SAVING_KINDS = (SAVED, SHADOW)
IDLE_GPUS = "idle GPUs"
CHANCE = "may be due to chance"


@dataclass(frozen=True)
class MonthLine:
    """A line: an account, all jobs, the nodes, a saving. None is unknown; chance moves a cost from `low` to `high`.

    Of a user's GPUs energy and cost are those of the idle ones; hours that are neither idle nor busy are not known.
    """

    kind: str
    name: str
    jobs: int | None = None
    energy_kwh: float | None = None
    measured_kwh: float | None = None
    partly_kwh: float | None = None
    modelled_kwh: float | None = None
    cost: float | None = None
    low: float | None = None
    high: float | None = None
    currency: str = ""
    co2_kg: float | None = None
    basis: str = ""
    gpu_h: float | None = None
    idle_gpu_h: float | None = None
    busy_gpu_h: float | None = None


def lines_of(account: MonthAccount, tariff: Tariff) -> tuple[MonthLine, ...]:
    """Return the lines of a month, the savings last."""
    demand = [demand_lines(charge, tariff.calendar.zone) for charge in account.demand]
    return (
        *map(account_line, account.accounts),
        *_totals(account.accounts),
        *([nodes_line(account.nodes)] if account.nodes else []),
        *(charge for charge, _ in demand),
        *map(gpu_line, account.gpus),
        *(lever_line(lever, account.saved.currency, SAVED) for lever in account.saved.levers),
        *(lever_line(lever, account.shadow.currency, SHADOW) for lever in account.shadow.levers),
        *(saved for _, saved in demand),
    )


def account_line(use: AccountUse) -> MonthLine:
    """Return the line of an account."""
    parts_j = {MEASURED: use.measured_j, PARTLY: use.partly_j, MODELLED: use.modelled_j}
    measured, partly, modelled = (joules / J_PER_KWH for joules in parts_j.values())
    basis = " and ".join(name for name, joules in parts_j.items() if joules) or "nothing used"
    line = MonthLine(ACCOUNT, use.account, use.jobs, use.energy_j / J_PER_KWH, measured, partly, modelled)
    return replace(line, cost=use.cost, currency=use.currency, co2_kg=_kg(use.carbon_g), basis=basis)


def nodes_line(nodes: Sequence[EnergyUse]) -> MonthLine:
    """Return the line of the metered nodes."""
    kwh = sum(node.energy_j for node in nodes) / J_PER_KWH
    basis = f"{MEASURED}, {covered_text(nodes)}"
    cost, carbon_g = (known_sum(getattr(node, name) for node in nodes) for name in ("cost", "carbon_g"))
    line = MonthLine(NODES, "nodes with meters", None, kwh, kwh, 0.0, 0.0, cost=cost, co2_kg=_kg(carbon_g))
    return replace(line, currency=nodes[0].currency, basis=basis)


def covered_text(nodes: Sequence[EnergyUse]) -> str:
    """Return the share of the time of nodes that their meters cover."""
    covered = sum(node.covered or 0.0 for node in nodes) / len(nodes)
    return f"{display.percent_text(100 * covered, 1)} of the time of {counted(len(nodes), 'node')}"


def demand_lines(demand: DemandSaving, zone: tzinfo) -> tuple[MonthLine, MonthLine]:
    """Return the line of a demand charge, and that of what was saved of it."""
    name = f"{demand.name}: {demand.peak_kw:,.1f} kW on {display.minute_text(demand.at_unix_s, zone)}"
    so_far, share = "" if demand.is_over else ", so far", display.percent_text(100 * demand.share, 1)
    basis = f"{MEASURED}, the highest quarter-hour of the nodes with meters{so_far}; {share} of the charge"
    charge = MonthLine(DEMAND, name, cost=demand.cost, currency=demand.currency, basis=basis)
    basis = f"{MEASURED}: {demand.without_kw or 0.0:,.1f} kW with all nodes on"
    if demand.why:
        basis = f"{display.NOT_KNOWN}: {demand.why}"
    return charge, replace(charge, kind=SAVED, name=f"{demand.name}{so_far}", cost=demand.saved, basis=basis)


def gpu_line(use: GpuUse) -> MonthLine:
    """Return the line of the GPUs that the jobs of a user had, and left idle."""
    kwh = use.idle_j / J_PER_KWH if use.idle_s + use.busy_s else None
    basis = "not metered" if kwh is None else MEASURED
    name = ", ".join(filter(None, (use.account, use.user)))
    line = MonthLine(IDLE_GPUS, name, use.jobs, energy_kwh=kwh, measured_kwh=kwh, basis=basis)
    line = replace(line, cost=use.idle_cost, currency=use.currency, gpu_h=use.allocated_s / HOUR_S)
    return replace(line, idle_gpu_h=use.idle_s / HOUR_S, busy_gpu_h=use.busy_s / HOUR_S)


def lever_line(saving: LeverSaving, currency: str, kind: str) -> MonthLine:
    """Return the line of what a lever saved, or would have saved in shadow mode."""
    kwh = saving.energy_j / J_PER_KWH
    chance = f"; {CHANCE}" if saving.is_noise else ""
    basis = f"{saving.known or MODELLED}: {counted(saving.days, 'day')}; the last: {saving.basis}{chance}"
    name = f"{saving.name}, in shadow mode" if kind == SHADOW else saving.name
    line = MonthLine(kind, name, energy_kwh=kwh, modelled_kwh=kwh, currency=currency, basis=basis)
    return replace(line, cost=saving.cost, low=saving.low, high=saving.high, co2_kg=_kg(saving.carbon_g))


def _totals(accounts: Sequence[AccountUse]) -> Iterator[MonthLine]:
    """Yield the sum of all accounts of each currency."""
    currencies = sorted({account.currency for account in accounts})
    for currency in currencies:
        uses = [account for account in accounts if account.currency == currency]
        name = "all accounts" if len(currencies) == 1 else f"all in {currency or 'no currency'}"
        yield replace(account_line(sum_uses(name, currency, uses)), kind=TOTAL)


def _kg(grams: float | None) -> float | None:
    return None if grams is None else grams / 1000


@dataclass(frozen=True)
class MonthSubject:
    """A month, its account, the lines of its report, and the last seal of its days."""

    month: Month
    zone: tzinfo
    account: MonthAccount
    lines: tuple[MonthLine, ...]
    seal: LedgerSeal | None


def headline(subject: MonthSubject) -> str:
    """Name the month and its days."""
    span = subject.month.span
    first, last = (date_text(int(second), subject.zone) for second in (span.from_unix_s, span.until_unix_s - 1))
    so_far = ", so far" if subject.month.goes_on else ""
    return f"{subject.month.name}{so_far}: {first} to {last}, {zone_text(subject.zone) or 'clock of this machine'}"


def answer_text(subject: MonthSubject) -> str:
    """Return the result of the month in a sentence."""
    saved, shadow = subject.account.saved, subject.account.shadow
    if shadow.levers and not saved.levers:
        return f"Shadow mode {shadow_text(shadow)}."
    if saved.levers:
        return f"Saved {saving_text(saved)}."
    return "; ".join(filter(None, ("No saving is booked", delays_text(saved)))) + "."


def used_cells(subject: MonthSubject) -> list[tuple[str, ...]]:
    """Return the texts of each account, of all accounts, and of the nodes."""
    return [
        (
            line.name or "no account",
            "" if line.jobs is None else f"{line.jobs:,}",
            display.amount_text(line.energy_kwh),
            *(share_text(line, part) for part in (line.measured_kwh, line.partly_kwh, line.modelled_kwh)),
            display.money_text(line.cost, line.currency),
            display.amount_text(line.co2_kg),
        )
        for line in subject.lines
        if line.kind not in (*SAVING_KINDS, IDLE_GPUS)
    ]


GPU_COLUMNS = ("account, user", "jobs", "GPU hours", "idle", "energy kWh", "cost")


def gpu_cells(subject: MonthSubject) -> list[tuple[str, ...]]:
    """Return the texts of each account and user whose jobs had GPUs, the one that left most of them idle first."""
    return [
        (
            line.name,
            f"{line.jobs:,}",
            display.amount_text(line.gpu_h),
            display.idle_hours_text(use.allocated_s, use.idle_s, use.busy_s),
            display.amount_text(line.energy_kwh),
            display.money_text(line.cost, line.currency),
        )
        for use, line in zip(subject.account.gpus, map(gpu_line, subject.account.gpus), strict=True)
    ]


def saved_cells(subject: MonthSubject) -> list[tuple[str, ...]]:
    """Return the texts of each source of savings: name, energy, money and its range, CO2, basis."""
    return [
        (
            line.name,
            "" if line.energy_kwh is None else display.amount_text(line.energy_kwh),
            display.money_text(line.cost, line.currency),
            display.range_text(line.low, line.high),
            "" if line.energy_kwh is None else display.amount_text(line.co2_kg),
            line.basis,
        )
        for line in subject.lines
        if line.kind in SAVING_KINDS
    ]


def share_text(line: MonthLine, part_kwh: float | None) -> str:
    """Return the share of a line's energy."""
    return display.percent_text(100 * (part_kwh or 0.0) / line.energy_kwh) if line.energy_kwh else ""


ACCOUNTS = (
    "Jobs count as a whole in the month in which they ended, as on a bill. Each quarter of an hour is charged at its "
    "price in the ledger at the time of booking.",
    f"Measured: meters covered the job's nodes for at least {display.percent_text(100 * ALL, 1)} of its time. Partly "
    "measured: for less of its time, the rest is modelled. Modelled: from similar jobs, or from the class of its "
    "nodes.",
)
NODES_METERED = (
    "The energy of nodes is that of their meters, which cover {covered}. Of a node with several meters one counts in "
    "each quarter-hour, and gaps are not filled. Energy that no job used belongs to no account."
)
PEAKS = (
    "Demand: the highest quarter-hour of the nodes with meters so far in the period of the charge, at the price of the "
    "tariff, tax included, and the part of the period within the month. The bill has the peak of the whole site. What "
    "was saved is the difference to the highest quarter-hour with all nodes on; it is known at the end of the period."
)
GPUS = (
    f"Idle GPUs: a GPU of a job is idle while its utilisation is below {IDLE_BELOW_PERCENT:g} %, by its readings. "
    "Energy and cost are those of the idle GPUs. A range begins with the hours that were idle for certain; the others "
    "have no reading, or are those of a shared node, of which meters do not say whose job has which GPU."
)
AT_REST = (
    "Sleeping nodes: the idle energy of these nodes, by their readings while idle, else by their node class, minus "
    "their energy while going down, asleep and waking, measured if meters cover nine tenths of it. Only sleeps "
    "that offpeak began count. The range is that of the readings."
)


BY_ORDER = (
    f"Order of the queue: the jobs of each day, as they came, are replayed {REPLAYS} times under the site's own "
    "scheduling and in the order of offpeak, with every node on and the same power and prices. The saving is the "
    "difference of the two; its range holds 19 of 20 replays, and the error of the replay of what was."
)

DELAYS = (
    "Delays that owners allow are in no sum: each is the energy of a job that ended, at the mean price from the start "
    "that it would have had, minus that from its start. It has the idle energy of its nodes, too, which counts under "
    "sleeping nodes for the hours that the job left; replays of the order know no delays. `offpeak jobs` has each job."
)


def method(subject: MonthSubject) -> list[str]:
    """Return the sentences."""
    account = subject.account
    levers = {lever.lever for saved in (account.saved, account.shadow) for lever in saved.levers}
    about = {
        AT_REST: SLEEP in levers,
        BY_ORDER: ORDER in levers,
        DELAYS: account.saved.delays.jobs,
        PEAKS: account.demand,
        GPUS: account.gpus,
    }
    return [
        *assumed_prices(account.assumed_price_share, subject.zone),
        *ACCOUNTS,
        *([NODES_METERED.format(covered=covered_text(account.nodes))] if account.nodes else []),
        *_left_out(account),
        *(text for text, is_used in about.items() if is_used),
        *(f"Trial {result.trial}, lever {result.lever}: {result.text}." for result in account.trials),
        _seal_line(subject),
    ]


def _seal_line(subject: MonthSubject) -> str:
    """Return the head of the chain of seals, which proves the rows once it is kept outside of the ledger."""
    if subject.seal is None:
        return "Seals: no day of this month is sealed yet, so nothing can prove these figures."
    until_s, digest = subject.seal.until_unix_s, subject.seal.digest
    so_far = ", so far" if until_s < subject.month.whole.until_unix_s else ""
    return (
        f"Seals: until {display.minute_text(until_s, subject.zone)}{so_far}, digest {digest}. Keep it outside of the "
        "ledger: `offpeak verify --digest` compares the rows with it."
    )


def _left_out(account: MonthAccount) -> Iterator[str]:
    """Yield the limits of the accounts and of the nodes, if there are any."""
    for name, uses in (("jobs", account.accounts), ("nodes", account.nodes)):
        unpriced_kwh = sum(use.unpriced_j for use in uses) / J_PER_KWH
        if unpriced_kwh:
            yield f"{display.energy_text(unpriced_kwh)} of {name} had no price: they are in the energy and in no cost."
        without_kwh = sum(use.without_carbon_j for use in uses) / J_PER_KWH
        if without_kwh and any(use.carbon_g is not None for use in uses):
            energy = display.energy_text(without_kwh)
            yield f"{energy} of {name} had no carbon intensity: they are in the energy and in no CO2."
    unknown = sum(use.unknown for use in account.accounts)
    if unknown:
        yield f"Of {counted(unknown, 'job')} the energy is not known: they are counted, and in no figure."
