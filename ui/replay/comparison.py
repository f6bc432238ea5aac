"""A comparison of policies as a table for the terminal and as JSON: the replayed log, one row per policy, and remarks.

The basis names the prices and the machine, with their assumptions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console

from offpeak.display import (
    CO2_UNITS,
    ENERGY_UNITS,
    Unit,
    duration_text,
    figure,
    percent_text,
    power_text,
    unit_of,
    watts_text,
)
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.case.replay_case import Basis, PreparedCase
from offpeak.sim_backend.comparison.breakdown import BreakdownRow
from offpeak.sim_backend.comparison.compare import Comparison
from offpeak.sim_backend.comparison.likeness import likeness_of, partition_uses, waits_are_near
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import ReplicationSpread
from offpeak.text import counted
from offpeak.ui.replay import tables as replay_tables
from offpeak.ui.replay.likeness import difference_lines, likeness_json, partition_table, replayed_waits
from offpeak.ui.terminal import TextTable, plain_console, print_table, text_table


def basis_lines(basis: Basis) -> tuple[str, str]:
    """Return a line on the prices and one on the machine, each with its assumptions."""
    return f"prices   {prices_text(basis)}", f"machine  {machine_text(basis)}"


def prices_text(basis: Basis) -> str:
    """Return the prices as text."""
    return f"{basis.prices} ({basis.prices_assumed})" if basis.prices_assumed else basis.prices


def machine_text(basis: Basis) -> str:
    """Return the machine as text: nodes, processors per node, power."""
    fewest, most = basis.node_processors
    processors = counted(most, "processor") if fewest == most else f"{fewest} to {most} processors"
    size = f"{counted(basis.nodes, 'node')} of {processors}"
    low_w, high_w = basis.busy_w
    busy = watts_text(low_w) if round(low_w) == round(high_w) else f"{low_w:,.0f} to {watts_text(high_w)}"
    source = f" ({basis.busy_source})" if basis.busy_source else ""
    idle = f"{watts_text(basis.idle_w)}{f' ({basis.idle_source})' if basis.idle_source else ''}"
    watts = f"a busy one draws {busy}{source}, an idle one {idle}"
    in_all = f"{power_text(basis.nodes * high_w)} when all are busy"
    return f"{size}; {watts}; {in_all}" + (f"; assumed: {'; '.join(basis.assumed)}" if basis.assumed else "")


def basis_json(basis: Basis) -> dict[str, Any]:
    """Return the same as objects, units in the keys."""
    return {
        "prices_in_words": basis.prices,
        "prices_assumed": basis.prices_assumed or None,
        "machine": {
            "nodes": basis.nodes,
            "processors_per_node": basis.processors_per_node,
            "busy_node_lowest_w": basis.busy_w[0],
            "busy_node_highest_w": basis.busy_w[1],
            "idle_node_w": basis.idle_w,
            "assumed": list(basis.assumed),
        },
    }


SHOWN_JOBS = 5
SHOWN_ROWS = 20
HEADERS = (
    *("policy", "{cost} {currency}", "saving", "energy {energy}", "utilization", "mean wait"),
    *("bounded slowdown", "longest delay", "CO2 {co2}"),
)
"""The columns of the table of policies; `longest delay` is that of a job against the first policy."""

NO_BASELINE = "-"


@dataclass(frozen=True)
class PolicyUnits:
    """The units of a table of policies: one for all rows, by the largest."""

    currency: str
    energy: Unit
    co2: Unit | None
    cost: str

    def headers(self) -> list[str]:
        """Return the headers; CO2 has a column if it is known."""
        co2 = self.co2.name if self.co2 else ""
        shown = HEADERS if self.co2 else HEADERS[:-1]
        units = {"currency": self.currency, "energy": self.energy.name, "co2": co2, "cost": self.cost}
        return [each.format(**units) for each in shown]


def policy_units(outcomes: Sequence[PolicyOutcome]) -> PolicyUnits:
    """Return the units that suit the figures."""
    co2_kg = [abs(outcome.co2_kg) for outcome in outcomes if outcome.co2_kg is not None]
    return PolicyUnits(
        outcomes[0].currency,
        unit_of(max(outcome.energy_kwh for outcome in outcomes), ENERGY_UNITS),
        unit_of(max(co2_kg), CO2_UNITS) if co2_kg else None,
        "cost" if outcomes[0].bill is None else "cost without demand charge",
    )


def print_comparison(
    trace: Trace,
    prepared: PreparedCase,
    comparison: Comparison,
    spreads: Sequence[ReplicationSpread],
    groups: Mapping[str, Sequence[Sequence[BreakdownRow]]],
) -> None:
    """Print the comparison, what many replays make of it if there are any, and for each kind of group the rows."""
    console = plain_console()
    console.print(headline(trace, prepared, comparison))
    for line in basis_lines(prepared.basis):
        console.print(line)
    console.print()
    outcomes, case, bills = comparison.outcomes, prepared.case, comparison.device_bills
    has_demand, uses = outcomes[0].bill is not None, partition_uses(comparison, trace.names, prepared.units_per_node)
    tables = [
        policy_table(outcomes),
        *([replay_tables.sleep_table(outcomes)] if case.nodes is not None else []),
        *([replay_tables.pool_table(comparison)] if case.nodes is not None and case.is_mixed else []),
        *([replay_tables.cooling_table(outcomes)] if case.room is not None else []),
        *([replay_tables.demand_table(outcomes)] if has_demand else []),
        *([replay_tables.device_table(comparison)] if bills else []),
        *([replay_tables.spread_table(spreads)] if spreads else []),
        *([partition_table(uses, replayed_waits(outcomes, spreads))] if len(uses) > 1 else []),
    ]
    for table in tables:
        print_table(table)
        console.print()
    lines = [
        *unlike_remark(comparison),
        *difference_lines(likeness_of(comparison, trace.names, prepared.units_per_node)),
        *one_user_remark(trace),
        *([replay_tables.spread_remark(spreads), *replay_tables.chance_remark(spreads)] if spreads else []),
        *([replay_tables.sleep_remark(case.sla)] if case.nodes is not None else []),
        *([replay_tables.REMARK] if case.room is not None else []),
        *([replay_tables.DEMAND_REMARK] if has_demand else []),
        *([replay_tables.device_remark(bills[0])] if bills else []),
        *remarks(trace, prepared, comparison),
    ]
    for line in lines:
        console.print(f"- {line}")
    for kind, of_policies in groups.items():
        for outcome, rows in zip(comparison.outcomes, of_policies, strict=True):
            print_groups(console, outcome, kind, rows)


def headline(trace: Trace, prepared: PreparedCase, comparison: Comparison) -> str:
    """Return the replayed log as a line."""
    case = comparison.case
    length = duration_text(comparison.outcomes[0].until_s - comparison.begin_s)
    nodes = counted(prepared.basis.nodes, "node")
    return f"{trace.name}: {counted(len(case.jobs), 'job')} on {nodes}, {length}"


def policy_table(outcomes: Sequence[PolicyOutcome]) -> TextTable:
    """Return a row for each policy; savings and delays refer to the first one."""
    units = policy_units(outcomes)
    rows = [policy_row(outcome, units, is_first=outcome is outcomes[0]) for outcome in outcomes]
    return text_table(units.headers(), rows, spare=("bounded slowdown", "utilization"))


def policy_row(outcome: PolicyOutcome, units: PolicyUnits, *, is_first: bool) -> tuple[str, ...]:
    """Return the cells of a policy."""
    return (
        outcome.policy,
        figure(outcome.cost),
        NO_BASELINE if is_first or outcome.never_started else percent_text(outcome.saving_pct, 2),
        units.energy.figure(outcome.energy_kwh),
        percent_text(100 * outcome.utilization, 1),
        duration_text(outcome.mean_wait_s),
        f"{outcome.mean_bounded_slowdown:,.2f}",
        NO_BASELINE if is_first else duration_text(max(0, outcome.worst_postponement_s)),
        *(() if outcome.co2_kg is None or units.co2 is None else (units.co2.figure(outcome.co2_kg),)),
    )


def remarks(trace: Trace, prepared: PreparedCase, comparison: Comparison) -> list[str]:
    """Return remarks on the figures in addition to the basis and the baseline."""
    outcomes, first = comparison.outcomes, comparison.outcomes[0]
    notes = prepared.case.notes_until(comparison.until_s)
    lines = [*(note for note in notes if note not in prepared.basis.prices_notes), *prepared.notes]
    # Jobs may end so much later than under the first policy that its cost until then is another.
    later = [
        f"{each.policy} {duration_text(each.until_s - first.until_s)} ({figure(each.baseline.cost)} {each.currency})"
        for each in outcomes
        if each.baseline and figure(each.baseline.cost) != figure(first.cost)
    ]
    if later:
        what = f"jobs end later than under {first.policy}, and the row covers the longer time (in brackets what"
        lines.append(f"{what} {first.policy} costs until then): {', '.join(later)}")
    if first.unpriced_kwh:
        share, remedy = percent_text(100 * first.unpriced_kwh / first.energy_kwh, 2), "fills them from earlier weeks"
        if comparison.case.prices.aligned.are_gaps_filled:
            remedy = "found no earlier week with a price for them"
        lines.append(f"{share} of the energy fell into gaps of the prices and is not in the cost; --fill-gaps {remedy}")
    for each in outcomes:
        if each.never_started:
            jobs = counted(each.never_started, "job")
            lines.append(f"{each.policy}: {jobs} never started, as too many nodes had failed")
    for each in outcomes:
        if each.stopped_runs:
            hours = f"{each.stopped_node_h:,.1f} node-hours"
            lines.append(f"{each.policy}: {counted(each.stopped_runs, 'run')} stopped for other jobs, {hours} wasted")
    if trace.skipped_lines:
        lines.append(f"malformed lines skipped: {trace.skipped_lines:,}")
    return lines + [rejected_remark(rejected) for rejected in prepared.rejected]


def unlike_remark(comparison: Comparison) -> tuple[str, ...]:
    """Say that jobs wait much longer or shorter in the baseline's replay than in the log, if they do.

    A log in which no job waits at all, as from a workload model, has no waits to compare.
    """
    waits_s = comparison.mean_waits_s()
    if waits_s is None or waits_are_near(*waits_s):
        return ()
    logged, replayed = (duration_text(wait_s) for wait_s in waits_s)
    name = comparison.runs[0].policy
    unknown = "node types, partitions, limits, reservations or priorities of the site"
    if comparison.case.cluster is not None:
        unknown = "failed nodes, maintenance or limits, except those that the cluster file has"
    return (
        f"the replay is not close to the log: jobs wait {replayed} on average under {name}, in the log {logged};"
        f" the replay knows no {unknown}",
    )


def one_user_remark(trace: Trace) -> tuple[str, ...]:
    """Say that all jobs are of one user, as in a dump that was made without the permission to see the others."""
    if not trace.names.user or len(users := np.unique(trace.jobs.user)) != 1:
        return ()
    name = trace.names.user_text(int(users[0]))
    return (f"all jobs are of user {name}: if the cluster has others, the log lacks their jobs (sacct -a lists them)",)


def rejected_remark(rejected: RejectedJobs) -> str:
    """Say which jobs were left out and why."""
    shown = ", ".join(str(job_id) for job_id in rejected.job_ids[:SHOWN_JOBS])
    more = ", ..." if len(rejected.job_ids) > SHOWN_JOBS else ""
    noun = "job" if len(rejected.job_ids) == 1 else "jobs"
    return f"left out: {counted(len(rejected.job_ids), 'job')}, {rejected.reason} ({noun} {shown}{more})"


def print_groups(console: Console, outcome: PolicyOutcome, kind: str, rows: Sequence[BreakdownRow]) -> None:
    """Print a policy's rows by class, user or day: days in order, the others by cost."""
    ordered = rows if kind == "day" else sorted(rows, key=lambda row: -row.cost)
    energy = unit_of(max((row.energy_kwh for row in rows), default=0.0), ENERGY_UNITS)
    headers = (kind, "jobs", "mean wait", f"energy {energy.name}", f"cost {outcome.currency}")
    rows_shown = [
        (row.group, f"{row.jobs:,}", duration_text(row.mean_wait_s), energy.figure(row.energy_kwh), figure(row.cost))
        for row in ordered[:SHOWN_ROWS]
    ]
    console.print()
    console.print(f"{outcome.policy} by {kind}", style="bold")
    print_table(text_table(headers, rows_shown))
    if len(rows) > SHOWN_ROWS:
        console.print(f"... and {len(rows) - SHOWN_ROWS:,} more: --json has them all")


def policies_json(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the figures of each policy as an object."""
    policies = [asdict(outcome) for outcome in comparison.outcomes]
    for policy in policies:
        policy["baseline_cost"] = policy.pop("baseline")["cost"]
        del policy["weeks"]
    for policy, bill in zip(policies, comparison.device_bills, strict=False):
        policy["devices"] = asdict(bill)
    if comparison.case.nodes is not None and comparison.case.is_mixed:
        for policy, run in zip(policies, comparison.runs, strict=True):
            slept = replay_tables.run_pool_sleeps(comparison, run)
            policy["by_node_type"] = [{**asdict(pool), "node_type": pool.node_type.equipment} for pool in slept]
    return policies


def comparison_json(
    trace: Trace,
    prepared: PreparedCase,
    comparison: Comparison,
    spreads: Sequence[ReplicationSpread],
    breakdowns: dict[str, tuple[tuple[BreakdownRow, ...], ...]],
) -> str:
    """Return the comparison as a JSON object; `breakdowns` holds the rows of each policy by kind of group."""
    case = comparison.case
    likeness = likeness_of(comparison, trace.names, prepared.units_per_node)
    document: dict[str, Any] = {
        "log": trace.name,
        "machine_size": case.machine.size,
        "units_per_node": prepared.units_per_node,
        "prices": case.prices.aligned.series.source,
        **basis_json(prepared.basis),
        "begin_s": comparison.begin_s,
        "until_s": comparison.until_s,
        "unix_offset_s": case.prices.aligned.offset_s,
        "partitions": [asdict(use) for use in partition_uses(comparison, trace.names, prepared.units_per_node)],
        "likeness": likeness_json(likeness),
        "notes": [
            *unlike_remark(comparison),
            *difference_lines(likeness),
            *one_user_remark(trace),
            *prepared.case.notes_until(comparison.until_s),
            *prepared.notes,
        ],
        "rejected": [
            {"reason": rejected.reason, "jobs": len(rejected.job_ids), "job_ids": rejected.job_ids}
            for rejected in prepared.rejected
        ],
        "skipped_lines": trace.skipped_lines,
        "policies": policies_json(comparison),
    }
    for kind, of_policies in breakdowns.items():
        for policy, rows in zip(document["policies"], of_policies, strict=True):
            policy[f"by_{kind}"] = [asdict(row) for row in rows]
    if spreads:
        document["replays"] = [asdict(spread) for spread in spreads]
    return json.dumps(document, indent=2)
