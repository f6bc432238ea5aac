"""Tables for the terminal: cooling, sleeping nodes and the spread of many replays of policies; those of a study."""

from collections.abc import Sequence

from offpeak.display import ENERGY_UNITS, Unit, duration_text, energy_text, figure, percent_text, unit_of
from offpeak.report_tables import Report, cell_text
from offpeak.sim_backend.comparison.compare import Comparison
from offpeak.sim_backend.comparison.outcome import DeviceBill, PolicyOutcome, PolicyRun
from offpeak.sim_backend.comparison.pools import PoolSleep, pool_sleeps
from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread
from offpeak.ui.terminal import TextTable, plain_console, print_table, text_table

COOLING_HEADERS = (
    *("policy", "computers {energy}", "cooling {energy}", "PUE", "cooling {currency}", "both {currency}"),
    *("saving of both",),
)
DEMAND_REMARK = "highest: of the quarter-hours that a demand charge counts; bill: energy and demand charges"
REMARK = "cost, energy and CO2 of the first table exclude cooling; PUE: energy of both divided by that of the computers"


def cooling_headers(outcomes: Sequence[PolicyOutcome]) -> list[str]:
    """Return the headers with the units in them."""
    energy = energy_unit(outcomes).name
    return [header.format(currency=outcomes[0].currency, energy=energy) for header in COOLING_HEADERS]


def energy_unit(outcomes: Sequence[PolicyOutcome]) -> Unit:
    """Return the unit that suits the energy of the computers."""
    return unit_of(max(outcome.energy_kwh for outcome in outcomes), ENERGY_UNITS)


def cooling_table(outcomes: Sequence[PolicyOutcome]) -> TextTable:
    """Return a row a policy; savings are against the first."""
    energy = energy_unit(outcomes)
    rows = [cooling_row(each, energy, is_first=each is outcomes[0]) for each in outcomes]
    return text_table(cooling_headers(outcomes), rows)


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


def demand_table(outcomes: Sequence[PolicyOutcome]) -> TextTable:
    """Return a row a policy: its highest quarter-hour, and its bill with the demand charges."""
    currency = outcomes[0].currency
    rows = []
    for outcome in outcomes:
        bill, peak_kw = outcome.bill or 0.0, outcome.peak_kw
        saving = "-" if outcome is outcomes[0] else percent_text(outcome.bill_saving_pct or 0.0, 2)
        peak = "-" if peak_kw is None else figure(peak_kw)
        rows.append((outcome.policy, peak, figure(bill - outcome.cost), figure(bill), saving))
    headers = ("policy", "highest kW", f"demand {currency}", f"bill {currency}", "saving of the bill")
    return text_table(headers, rows)


SLEEP_HEADERS = (
    *("policy", "idle energy saved", "of what is possible", "node time inactive", "cycles a node and day"),
    *("jobs delayed", "mean delay", "above SLA"),
)


def sleep_table(outcomes: Sequence[PolicyOutcome]) -> TextTable:
    """Return one row for each policy whose nodes can sleep."""
    return text_table(SLEEP_HEADERS, map(sleep_row, outcomes))


def sleep_row(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Return the cells of a policy."""
    return (
        outcome.policy,
        percent_text(outcome.idle_saved_pct or 0, 1),
        percent_text(outcome.captured_pct or 0, 1),
        _share(outcome.asleep_share),
        f"{outcome.cycles_per_node_day:.2f}",
        _share(outcome.delayed_share),
        duration_text(outcome.mean_sleep_delay_s or 0),
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
    *("policy", "node type", "class", "nodes", "node-hours asleep", "of node time", "cycles a node and day"),
)


def pool_table(comparison: Comparison) -> TextTable:
    """Return a row for each policy and node type: how long its nodes slept."""
    rows = []
    for run in comparison.runs:
        for pool in run_pool_sleeps(comparison, run):
            asleep, cycles = f"{pool.asleep_node_h:,.0f}", f"{pool.cycles_per_node_day:.2f}"
            kind = run.policy, pool.node_type.equipment, pool.power_class
            rows.append((*kind, f"{pool.nodes:,}", asleep, _share(pool.asleep_share), cycles))
    return text_table(POOL_HEADERS, rows, texts=(0, 1, 2))


DEVICE_HEADERS = (
    *("policy", "without devices", "PV alone", "PV and battery", "perfect knowledge", "saved a year"),
    *("of what is possible", "battery cycles"),
)


def device_table(comparison: Comparison) -> TextTable:
    """Return a row for each policy: its bill without and with PV and battery."""
    rows = []
    for run, bill in zip(comparison.runs, comparison.device_bills, strict=True):
        possible = bill.without - bill.bound
        shown = (bill.without, bill.pv_alone, bill.planned, bill.bound, bill.a_year(bill.planned))
        captured = percent_text(100 * (bill.without - bill.planned) / possible, 1) if possible > 0 else "-"
        rows.append((run.policy, *map(figure, shown), captured, f"{bill.cycles:,.0f}"))
    return text_table(DEVICE_HEADERS, rows)


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


NOT_SIGNIFICANT = "not significant"
"""A difference that chance alone can make."""

COLUMNS = (
    ("saving", "saving_pct"),
    ("of the bill", "bill_saving_pct"),
    ("mean wait", "mean_wait_s"),
    ("bounded slowdown", "mean_bounded_slowdown"),
    ("idle energy saved", "idle_saved_pct"),
    ("mean delay", "mean_sleep_delay_s"),
)
"""The figures that are shown; the last two only where nodes can sleep."""


def spread_table(spreads: Sequence[ReplicationSpread]) -> TextTable:
    """Return a row a policy: the mean or median of each figure and its range; the first has no saving."""
    first, shown = spreads[0], {header: name for header, name in COLUMNS if name in spreads[0].figures}
    rows = [
        (
            spread.policy,
            *(
                "-" if spread is first and name.endswith("saving_pct") else interval_text(spread.figures[name], name)
                for name in shown.values()
            ),
        )
        for spread in spreads
    ]
    spare = ("idle energy saved", "mean delay", "bounded slowdown", "of the bill")
    return text_table(("policy", *shown), rows, spare=spare)


def interval_text(interval: ReplicationInterval, name: str) -> str:
    """Return "0.62 (0.51 to 0.70) %", without the range if both ends look the same."""
    if name.endswith("_s"):
        middle, low, high = map(duration_text, (interval.middle, interval.low, interval.high))
        return f"{middle} ({low} to {high})" if low != high else middle
    unit = " %" if name.endswith("_pct") else ""
    return f"{interval.middle:z,.2f} ({interval.low:z,.2f} to {interval.high:z,.2f}){unit}"


def spread_remark(spreads: Sequence[ReplicationSpread]) -> str:
    """Say what the table shows."""
    first, over, held = spreads[0], "", "of them"
    if first.alignments > 1:
        over, held = f" over {first.alignments} alignments with the prices,", "further alignments"
    return f"{first.replays} replays{over} with submit times shifted by up to a minute; ranges hold 19 of 20 {held}"


def chance_remark(spreads: Sequence[ReplicationSpread]) -> list[str]:
    """Name the figures of each policy whose difference to the first policy chance alone can make."""
    shown = [(header, name) for header, name in COLUMNS if name in spreads[0].figures]
    names = {each.policy: [header for header, name in shown if each.is_noise(name)] for each in spreads[1:]}
    listed = "; ".join(f"{policy}: {', '.join(headers)}" for policy, headers in names.items() if headers)
    what = f"{NOT_SIGNIFICANT}, as the difference from {spreads[0].policy} may be due to chance"
    return [f"{what}: {listed}"] if listed else []


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
        texts = [at for at in range(len(table.headers)) if all(isinstance(row[at], str) for row in table.rows)]
        shown = text_table(table.headers, [map(cell_text, row) for row in table.rows], texts=texts)
        console.print()
        console.print(table.title, style="bold")
        console.print(table.note)
        print_table(shown)
