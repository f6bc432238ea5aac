"""A comparison as a table for the terminal: what was replayed, a row a policy, and what a reader must know of it."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from offpeak.jobs import Rejected, Trace
from sim_backend.breakdown import Row
from sim_backend.case import Prepared
from sim_backend.compare import Comparison
from sim_backend.outcome import Outcome
from ui.clock_text import clock_text

SHOWN_JOBS = 5
SHOWN_ROWS = 20
WIDTH_IN_PIPES = 160


def print_comparison(
    trace: Trace, prepared: Prepared, comparison: Comparison, groups: Mapping[str, Sequence[Sequence[Row]]]
) -> None:
    """Print the comparison, and for each kind of group the rows of each policy."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=WIDTH_IN_PIPES)
    console.print(headline(trace, comparison))
    console.print()
    console.print(policy_table(comparison.outcomes))
    console.print()
    for line in remarks(trace, prepared, comparison):
        console.print(f"- {line}")
    for kind, of_policies in groups.items():
        for outcome, rows in zip(comparison.outcomes, of_policies, strict=True):
            print_groups(console, outcome, kind, rows)


def headline(trace: Trace, comparison: Comparison) -> str:
    """Say in a line what was replayed."""
    case = comparison.case
    days = (comparison.until_s - comparison.begin_s) / 86_400
    source = case.prices.laid.series.source
    return f"{trace.name}: {len(case.jobs):,} jobs on {case.machine.size:,} nodes, {days:,.0f} days, priced by {source}"


def policy_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a row a policy; savings and postponements are against the first one."""
    first = outcomes[0]
    table = Table(box=None, pad_edge=False, header_style="bold")
    headers = ("policy", f"cost {first.currency}", "saving", "energy MWh", "utilization", "mean wait")
    for header in (*headers, "bounded slowdown", "worst postponement"):
        table.add_column(header, justify="left" if header == "policy" else "right")
    if first.co2_kg is not None:
        table.add_column("CO2 t", justify="right")
    for outcome in outcomes:
        table.add_row(*policy_row(outcome, is_first=outcome is first), *co2_cell(outcome))
    return table


def policy_row(outcome: Outcome, *, is_first: bool) -> tuple[str, ...]:
    """Return the cells of a policy."""
    return (
        outcome.policy,
        f"{outcome.cost:,.2f}",
        "" if is_first else f"{outcome.saving_pct:.2f} %",
        f"{outcome.energy_kwh / 1000:,.2f}",
        f"{100 * outcome.utilization:.1f} %",
        clock_text(outcome.mean_wait_s),
        f"{outcome.mean_bounded_slowdown:,.2f}",
        "" if is_first else clock_text(max(0, outcome.worst_postponement_s)),
    )


def co2_cell(outcome: Outcome) -> tuple[str, ...]:
    """Return the cell of the emissions, or none."""
    return () if outcome.co2_kg is None else (f"{outcome.co2_kg / 1000:,.2f}",)


def remarks(trace: Trace, prepared: Prepared, comparison: Comparison) -> list[str]:
    """Return what the figures rest on, in sentences."""
    laid = comparison.case.prices.laid
    lines = [*laid.notes, *prepared.notes, *gap_remark(comparison)]
    if trace.skipped_lines:
        lines.append(f"malformed lines skipped: {trace.skipped_lines:,}")
    return lines + [rejected_remark(rejected) for rejected in prepared.rejected]


def gap_remark(comparison: Comparison) -> tuple[str, ...]:
    """Say how much energy was used while no price was known."""
    unpriced_kwh = comparison.outcomes[0].unpriced_kwh
    if not unpriced_kwh:
        return ()
    share = 100 * unpriced_kwh / comparison.outcomes[0].energy_kwh
    return (f"{share:.2f} % of the energy fell into gaps of the prices and is not in the cost; --fill-gaps fills them",)


def rejected_remark(rejected: Rejected) -> str:
    """Say which jobs were left out and why."""
    shown = ", ".join(str(job_id) for job_id in rejected.job_ids[:SHOWN_JOBS])
    more = ", ..." if len(rejected.job_ids) > SHOWN_JOBS else ""
    return f"left out: {len(rejected.job_ids):,} jobs, {rejected.reason} (job {shown}{more})"


def print_groups(console: Console, outcome: Outcome, kind: str, rows: Sequence[Row]) -> None:
    """Print a policy's rows by class, user or day: days in order, the others by cost."""
    ordered = rows if kind == "day" else sorted(rows, key=lambda row: -row.cost)
    table = Table(title=f"{outcome.policy} by {kind}", title_justify="left", box=None, pad_edge=False)
    for header in (kind, "jobs", "mean wait", "energy kWh", f"cost {outcome.currency}"):
        table.add_column(header, justify="left" if header == kind else "right")
    for row in ordered[:SHOWN_ROWS]:
        cells = (f"{row.jobs:,}", clock_text(row.mean_wait_s), f"{row.energy_kwh:,.0f}", f"{row.cost:,.2f}")
        table.add_row(row.group, *cells)
    console.print()
    console.print(table)
    if len(rows) > SHOWN_ROWS:
        console.print(f"... and {len(rows) - SHOWN_ROWS:,} more: --json has them all")
