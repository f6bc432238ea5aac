"""Tables for the terminal: cooling, sleeping nodes and the spread of many replays of policies; those of a study."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from offpeak.display import ENERGY_UNITS, Unit, clock_text, energy_text, figure, percent_text, unit_of
from offpeak.report_tables import Report, cell_text
from offpeak.sim_backend.comparison.compare import Comparison
from offpeak.sim_backend.comparison.outcome import DeviceBill, PolicyOutcome, PolicyRun
from offpeak.sim_backend.comparison.pools import PoolSleep, pool_sleeps
from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread
from offpeak.ui.terminal import plain_console

COOLING_HEADERS = (
    *("policy", "computers\n{energy}", "cooling\n{energy}", "PUE", "cooling\n{currency}", "both\n{currency}"),
    *("saving\nof both",),
)
DEMAND_REMARK = "highest: of the quarter-hours that a demand charge counts; bill: energy and demand charges"
REMARK = "cost, energy and CO2 of the first table exclude cooling; PUE: energy of both divided by that of the computers"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> Table:
    """Return a table whose first columns are `texts`."""
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for at, header in enumerate(headers):
        table.add_column(header, justify="left" if at < texts else "right", overflow="fold", vertical="bottom")
    for row in rows:
        table.add_row(*row)
    return table


def cooling_headers(outcomes: Sequence[PolicyOutcome]) -> list[str]:
    """Return the headers with the units in them."""
    energy = energy_unit(outcomes).name
    return [header.format(currency=outcomes[0].currency, energy=energy) for header in COOLING_HEADERS]


def energy_unit(outcomes: Sequence[PolicyOutcome]) -> Unit:
    """Return the unit that suits the energy of the computers."""
    return unit_of(max(outcome.energy_kwh for outcome in outcomes), ENERGY_UNITS)


def cooling_table(outcomes: Sequence[PolicyOutcome]) -> Table:
    """Return a row a policy; savings are against the first."""
    energy = energy_unit(outcomes)
    return _table(
        cooling_headers(outcomes), [cooling_row(each, energy, is_first=each is outcomes[0]) for each in outcomes]
    )


def cooling_row(outcome: PolicyOutcome, energy: Unit, *, is_first: bool) -> tuple[str, ...]:
    """Return the cells of a policy."""
    cooling_cost = outcome.cooling_cost or 0.0
    return (
        outcome.policy,
        energy.figure(outcome.energy_kwh),
        energy.figure(outcome.cooling_kwh or 0.0),
        f"{outcome.pue:.3f}",
        figure(cooling_cost),
        figure(outcome.cost + cooling_cost),
        "-" if is_first or outcome.never_started else percent_text(outcome.cooled_saving_pct or 0, 2),
    )


def demand_table(outcomes: Sequence[PolicyOutcome]) -> Table:
    """Return a row a policy: its highest quarter-hour, and its bill with the demand charges."""
    currency = outcomes[0].currency
    rows = []
    for outcome in outcomes:
        bill, peak_kw = outcome.bill or 0.0, outcome.peak_kw
        saving = "-" if outcome is outcomes[0] else percent_text(outcome.bill_saving_pct or 0.0, 2)
        peak = "-" if peak_kw is None else figure(peak_kw)
        rows.append((outcome.policy, peak, figure(bill - outcome.cost), figure(bill), saving))
    return _table(("policy", "highest\nkW", f"demand\n{currency}", f"bill\n{currency}", "saving\nof the bill"), rows)


SLEEP_HEADERS = (
    *("policy", "idle energy\nsaved", "of what\nis possible", "node time\ninactive", "cycles a\nnode and day"),
    *("jobs\ndelayed", "mean\ndelay", "above\nSLA"),
)


def sleep_table(outcomes: Sequence[PolicyOutcome]) -> Table:
    """Return one row for each policy whose nodes can sleep."""
    return _table(SLEEP_HEADERS, map(sleep_row, outcomes))


def sleep_row(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Return the cells of a policy."""
    return (
        outcome.policy,
        percent_text(outcome.idle_saved_pct or 0, 1),
        percent_text(outcome.captured_pct or 0, 1),
        _share(outcome.asleep_share),
        f"{outcome.cycles_per_node_day:.2f}",
        _share(outcome.delayed_share),
        clock_text(outcome.mean_sleep_delay_s or 0),
        _share(outcome.above_sla_share),
    )


def _share(share: float | None) -> str:
    return percent_text(100 * (share or 0), 1)


def run_pool_sleeps(comparison: Comparison, run: PolicyRun) -> tuple[PoolSleep, ...]:
    """Return how the nodes of each pool slept under the policy, none where nodes are equal or cannot sleep."""
    case = comparison.case
    if case.cluster is None or not case.is_mixed or run.sleep is None:
        return ()
    return pool_sleeps(case.cluster, run.sleep.pools)


POOL_HEADERS = (
    *("policy", "node type", "class", "nodes", "node hours\nasleep", "of node\ntime", "cycles a\nnode and day"),
)


def pool_table(comparison: Comparison) -> Table:
    """Return a row for each policy and node type: how long its nodes slept."""
    rows = []
    for run in comparison.runs:
        for pool in run_pool_sleeps(comparison, run):
            asleep, cycles = f"{pool.asleep_node_h:,.0f}", f"{pool.cycles_per_node_day:.2f}"
            kind = run.policy, pool.node_type.equipment, pool.power_class
            rows.append((*kind, f"{pool.nodes:,}", asleep, _share(pool.asleep_share), cycles))
    return _table(POOL_HEADERS, rows, texts=3)


DEVICE_HEADERS = (
    *("policy", "without\ndevices", "PV\nalone", "PV and\nbattery", "perfect\nknowledge", "saved\na year"),
    *("of what\nis possible", "battery\ncycles"),
)


def device_table(comparison: Comparison) -> Table:
    """Return a row for each policy: its bill without and with PV and battery."""
    rows = []
    for run, bill in zip(comparison.runs, comparison.device_bills, strict=True):
        possible = bill.without - bill.bound
        shown = (bill.without, bill.pv_alone, bill.planned, bill.bound, bill.a_year(bill.planned))
        captured = percent_text(100 * (bill.without - bill.planned) / possible, 1) if possible > 0 else "-"
        rows.append((run.policy, *map(figure, shown), captured, f"{bill.cycles:,.0f}"))
    return _table(DEVICE_HEADERS, rows)


def device_remark(bill: DeviceBill) -> str:
    """Say what the bills mean, and what became of the energy of PV."""
    rest = f"{energy_text(bill.exported_kwh)} exported, {energy_text(bill.curtailed_kwh)} curtailed"
    unpriced = f"; in {bill.unpriced_h:,.0f} h without a price the battery holds" if bill.unpriced_h else ""
    return (
        f"bills in {bill.currency} of machine, cooling and demand charges; the battery follows plans made each"
        " midnight; perfect knowledge: no operation costs less;"
        f" PV: {energy_text(bill.pv_kwh)}, under the first policy {rest}{unpriced}"
    )


def sleep_remark(sla: float) -> str:
    """Say what the table's words mean."""
    return (
        "delay: mean time over all jobs for which only sleeping nodes kept a job from running; possible: upper bound "
        f"with these starts; SLA: slowdown of {sla:g}"
    )


NOISE = "noise"
COLUMNS = (
    ("saving", "saving_pct"),
    ("of the bill", "bill_saving_pct"),
    ("mean wait", "mean_wait_s"),
    ("bounded slowdown", "mean_bounded_slowdown"),
    ("idle energy saved", "idle_saved_pct"),
    ("mean delay", "mean_sleep_delay_s"),
)
"""The figures that are shown; the last two only where nodes can sleep."""


def spread_table(spreads: Sequence[ReplicationSpread]) -> Table:
    """Return a row a policy: the mean or median of each figure, its range, and whether its difference is noise."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", overflow="fold")
    shown = [(header, name) for header, name in COLUMNS if name in spreads[0].figures]
    for header, _ in shown:
        table.add_column(header)
    for spread in spreads:
        is_first = spread is spreads[0]
        table.add_row(spread.policy, *(spread_cell(spread, name, is_first=is_first) for _, name in shown))
    return table


def spread_cell(spread: ReplicationSpread, name: str, *, is_first: bool) -> str:
    """Return a figure and its range; the first policy saves nothing against itself."""
    if is_first and name.endswith("saving_pct"):
        return "-"
    text = interval_text(spread.figures[name], name)
    return f"{text} {NOISE}" if not is_first and spread.is_noise(name) else text


def interval_text(interval: ReplicationInterval, name: str) -> str:
    """Return "0.62 (0.51 to 0.70) %"."""
    if name.endswith("_s"):
        return f"{clock_text(interval.middle)} ({clock_text(interval.low)} to {clock_text(interval.high)})"
    unit = " %" if name.endswith("_pct") else ""
    return f"{interval.middle:z,.2f} ({interval.low:z,.2f} to {interval.high:z,.2f}){unit}"


def spread_remark(spreads: Sequence[ReplicationSpread]) -> str:
    """Say what the table shows."""
    first, over, held = spreads[0], "", "of them"
    if first.alignments > 1:
        over, held = f" over {first.alignments} alignments with the prices,", "further alignments"
    return (
        f"{first.replays} replays{over} with submit times shifted by up to a minute; ranges hold 19 of 20 {held}, "
        f"{NOISE} is a difference to {first.policy} that chance alone can make"
    )


def quoted_text(spread: ReplicationSpread) -> str:
    """Return "means of 20 replays", or "medians of 20 replays over 20 alignments with the prices"."""
    if spread.alignments == 1:
        return f"means of {spread.replays} replays"
    return f"medians of {spread.replays} replays over {spread.alignments} alignments with the prices"


def print_report(report: Report) -> None:
    """Print title, notes and tables; into a pipe without breaking lines."""
    console = plain_console()
    console.print(report.title, style="bold")
    for note in report.notes:
        console.print(note)
    for table in report.tables:
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for header in table.headers:
            shown.add_column(header, vertical="bottom")
        for row in table.rows:
            shown.add_row(*map(cell_text, row))
        console.print()
        console.print(table.title, style="bold")
        console.print(table.note)
        console.print(shown)
