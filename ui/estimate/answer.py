"""Answers `offpeak estimate`: finds the accounting, replays it often, and prints the result as text or JSON.

The text fits on one screen: energy and money of the period, the possible savings, the reasons and the basis. The JSON
has more figures, with the units in the keys.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from offpeak.display import CO2_UNITS, ENERGY_UNITS, NOT_WRAPPED, clock_text, figure, length_text, percent_text, unit_of
from offpeak.errors import BadInput
from offpeak.files import check_writable, replacing
from offpeak.model.cluster_file import cluster_text
from offpeak.model.local_time import date_text, zone_text
from offpeak.settings.table import Settings
from offpeak.text import counted
from power.capacity.levers import LEVERS, REPLAYS, Lever, measure_levers
from sim_backend.case.site_jobs import cluster_note
from sim_backend.estimate import (
    FIRST_REPLAYS,
    MOST_REPLAYS,
    SETTLED_PCT,
    Bounds,
    CapabilitySaving,
    LoggedUse,
    SavingsEstimate,
    estimate_savings,
    reasons,
)
from sim_backend.mixed.replay import knows_pools
from sim_backend.replay.policy import Policy, parse_policy
from ui.estimate.accounting_source import accounting_of, site_cluster, with_nodes, with_site_cluster
from ui.progress import repeat_progress
from ui.replay.comparison import basis_json, basis_lines, remarks, unlike_remark
from ui.replay.likeness import NOT_CLAIMED, difference_lines, likeness_json, order_text, partition_table
from ui.replay.tables import NOISE
from ui.requests import ESTIMATE_DAYS, EstimateRequest

HARDLY_LONGER_S = 600
CAPABILITIES = {"order": "queue order", "sleep": "sleeping nodes", "time": "expensive hours", "place": "other sites"}


def print_estimate(estimate: SavingsEstimate, levers: Sequence[Lever]) -> None:
    """Print the estimate; `levers` is empty if they are not measured."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    console.print(headline(estimate))
    for line in basis_lines(estimate.prepared.basis):
        console.print(line)
    console.print()
    for line in use_lines(estimate.used):
        console.print(line)
    console.print()
    if estimate.likeness is not None and len(estimate.likeness.partitions) > 1:
        console.print(partition_table(estimate.likeness.partitions))
        console.print()
    savings = [lever.saving for lever in levers if lever.saving is not None] or estimate.savings
    console.print(savings_table(savings, estimate.used.currency))
    console.print()
    console.print(levers_verdict(estimate, savings) if levers else verdict(estimate), style="bold")
    console.print()
    unlike = (*unlike_remark(estimate.comparison), *difference_lines(estimate.likeness))
    for line in (*unlike, *reasons(estimate), *lever_lines(levers), *assumptions(estimate)):
        console.print(f"- {line}")


def headline(estimate: SavingsEstimate) -> str:
    """Return the subject of the estimate as a line."""
    used, laid = estimate.used, estimate.comparison.case.prices.laid
    first, last = (date_text(second + laid.offset_s, laid.zone) for second in (used.begin_s, used.until_s))
    nodes = estimate.prepared.basis.nodes
    jobs = counted(len(estimate.prepared.case.jobs), "job")
    length = length_text(used.until_s - used.begin_s)
    starts = f", started as {estimate.spreads[0].policy} starts them: no start is logged"
    what = f"{jobs} on {counted(nodes, 'node')}{starts if estimate.are_starts_replayed else ''}"
    return f"{estimate.trace.name}, {first} to {last} ({length}): {what}"


def use_lines(used: LoggedUse) -> list[str]:
    """Return energy, cost and load of the period."""
    kwh = used.energy_kwh
    unit = unit_of(kwh.middle, ENERGY_UNITS)
    energy = Bounds(kwh.low / unit.size, kwh.middle / unit.size, kwh.high / unit.size)
    price = f"{figure(used.mean_price)} {used.currency}/MWh; the period's mean is {figure(used.plain_mean_price)}"
    emitted = () if used.co2_kg is None else (f"emitted  {_co2_text(used.co2_kg)} of CO2",)
    waiting = f"{percent_text(100 * used.waiting_share)} of the time, {clock_text(used.mean_wait_s)} on average"
    return [
        f"used     {bounds_text(energy)} {unit.name}, of that {unit.figure(used.idle_energy_kwh)} by idle nodes",
        f"paid     {bounds_text(used.cost)} {used.currency}, at {price}{_unpriced_text(used)}",
        *emitted,
        f"load     {percent_text(100 * used.utilization, 1)} of the machine; jobs were waiting {waiting}",
    ]


def _co2_text(co2_kg: float) -> str:
    unit = unit_of(co2_kg, CO2_UNITS)
    return f"{unit.figure(co2_kg)} {unit.name}"


def _unpriced_text(used: LoggedUse) -> str:
    """Return the share of the energy without a price, if it matters for the cost."""
    share_pct = 100 * used.unpriced_kwh / used.energy_kwh.middle if used.energy_kwh.middle else 0.0
    return f"; {percent_text(share_pct, 1)} of the energy has no price and is not in it" if share_pct >= 0.1 else ""


def bounds_text(bounds: Bounds) -> str:
    """Return a figure, with its range if it rests on assumptions."""
    if bounds.low == bounds.high:
        return figure(bounds.middle)
    return f"{figure(bounds.middle)} ({figure(bounds.low)} to {figure(bounds.high)})"


def savings_table(savings: Sequence[CapabilitySaving], currency: str) -> Table:
    """Return a table with a row for each capability and policy."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what would have been saved")
    for header in ("share of the bill", f"{currency} a year", "mean wait"):
        table.add_column(header, justify="right")
    for saving in savings:
        table.add_row(
            f"{CAPABILITIES[saving.capability]}: {saving.policy}",
            share_text(saving),
            NOISE if saving.is_noise else bounds_text(saving.a_year),
            wait_text(saving),
        )
    return table


def lever_lines(levers: Sequence[Lever]) -> list[str]:
    """Return notes on how the levers were measured, and why some were not."""
    if not levers:
        return ["sleeping nodes and expensive hours: --levers measures what they would have saved"]
    notes: dict[str, list[str]] = {}
    for lever in levers:
        if lever.note:
            names = notes.setdefault(lever.note, [])
            names += [CAPABILITIES[lever.name]] if CAPABILITIES[lever.name] not in names else []
    return [f"{', '.join(names)}: {note}" for note, names in notes.items()]


def share_text(saving: CapabilitySaving) -> str:
    """Return the share of the bill with its range."""
    share = saving.share_pct
    return f"{share.middle:z.2f} ({share.low:z.2f} to {share.high:z.2f}) %"


def wait_text(saving: CapabilitySaving) -> str:
    """Return how much longer or shorter jobs would have waited."""
    if saving.wait_is_noise:
        return NOISE
    return f"{clock_text(abs(saving.wait_change_s))} {'longer' if saving.wait_change_s > 0 else 'shorter'}"


def verdict(estimate: SavingsEstimate) -> str:
    """Return a sentence on whether reordering pays."""
    clear = [saving for saving in estimate.savings if not saving.is_noise]
    saved = [saving for saving in clear if saving.share_pct.middle > 0]
    if not saved:
        if len(clear) == len(estimate.savings) > 0:
            return "Reordering the queue would have saved nothing: every policy costs more than the baseline."
        return "Reordering the queue would have saved nothing beyond random variation."
    if _is_far(estimate):
        return NOT_CLAIMED
    best = max(saved, key=lambda saving: saving.share_pct.middle)
    share = f"{share_text(best)} of the bill"
    if estimate.hardly_pays:
        return f"Reordering the queue does not pay here: the best policy, {best.policy}, saves {share}."
    return f"{best.policy} would have saved {share}: {bounds_text(best.a_year)} {estimate.used.currency} a year."


def _is_far(estimate: SavingsEstimate) -> bool:
    return estimate.likeness is not None and not estimate.likeness.is_near


def levers_verdict(estimate: SavingsEstimate, savings: Sequence[CapabilitySaving]) -> str:
    """Return a sentence on the lever that saves most among those with hardly longer waits."""
    hardly = clock_text(HARDLY_LONGER_S)
    quick = [
        saving
        for saving in savings
        if not saving.is_noise and (saving.wait_is_noise or saving.wait_change_s <= HARDLY_LONGER_S)
    ]
    best = max(quick, key=lambda saving: saving.share_pct.middle, default=None)
    if best is None or best.share_pct.middle <= 0:
        return f"Nothing saves here unless jobs wait more than {hardly} longer on average."
    if _is_far(estimate):
        return NOT_CLAIMED
    money = f"{bounds_text(best.a_year)} {estimate.used.currency} a year"
    share = f"{share_text(best)} of the bill, {money}"
    return f"Among the options with waits at most {hardly} longer on average, {best.policy} saves most: {share}."


def assumptions(estimate: SavingsEstimate) -> list[str]:
    """Return the basis of the figures, in sentences."""
    first = estimate.spreads[0]
    wait = first.figures["mean_wait_s"]
    few = f"they differ by less than {SETTLED_PCT} points of the saving, so no more replays were needed"
    replay = (
        f"each figure of a policy is from {first.replays} replays with submit times shifted by up to a minute; "
        + (few if first.replays == FIRST_REPLAYS else "ranges hold 19 of 20 of them")
    )
    likeness = (
        f"{first.policy} replayed lets jobs wait {clock_text(wait.mean)} on average, the log "
        f"{clock_text(estimate.used.mean_wait_s)}: the smaller the difference, the better the replay represents the "
        f"cluster{order_text(estimate.likeness)}"
    )
    unlike = "the replay cannot be compared with the cluster: waits above are replayed, because the log has no starts"
    zone = zone_text(estimate.comparison.case.prices.laid.zone) or "this machine"
    clock = f"hours and days are in the time zone {zone}; --time-zone sets another"
    if estimate.are_starts_replayed:
        likeness = unlike
    # The remark on an unlike replay names both waits.
    likeness_lines = () if unlike_remark(estimate.comparison) else (likeness,)
    return [
        replay,
        *likeness_lines,
        clock,
        *_power_lines(estimate),
        *remarks(estimate.trace, estimate.prepared, estimate.comparison),
    ]


def _power_lines(estimate: SavingsEstimate) -> list[str]:
    if not estimate.prepared.power.assumed:
        return []
    return [
        "the ranges of energy and money are those of 100 and of 300 W per busy node; the saving is 0 if all jobs draw "
        "the same; --power and --idle-power narrow the ranges"
    ]


def estimate_json(estimate: SavingsEstimate, levers: Sequence[Lever]) -> str:
    """Return the estimate as a JSON object; `levers` is empty if they are not measured."""
    laid = estimate.comparison.case.prices.laid
    document = {
        "log": estimate.trace.name,
        "jobs": len(estimate.prepared.case.jobs),
        "machine_size": estimate.comparison.case.machine.size,
        "units_per_node": estimate.prepared.units_per_node,
        "prices": laid.series.source,
        **basis_json(estimate.prepared.basis),
        "unix_offset_s": laid.offset_s,
        "used": asdict(estimate.used),
        "partitions": [asdict(use) for use in estimate.likeness.partitions] if estimate.likeness else [],
        "likeness": likeness_json(estimate.likeness),
        "power_assumed": estimate.prepared.power.assumed,
        "savings": [asdict(saving) for saving in estimate.savings],
        "levers": [asdict(lever) for lever in levers],
        "hardly_pays": estimate.hardly_pays,
        "policies": [asdict(spread) for spread in estimate.spreads],
        "reasons": reasons(estimate),
        "notes": [
            *unlike_remark(estimate.comparison),
            *difference_lines(estimate.likeness),
            *remarks(estimate.trace, estimate.prepared, estimate.comparison),
        ],
    }
    return json.dumps(document, indent=2)


def answer(settings: Settings, request: EstimateRequest) -> None:
    """Print the estimate of the requested accounting; raise BadInput with fewer than two policies."""
    policies = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    if len(policies) < 2:
        raise BadInput("an estimate needs a baseline and another policy", hint="--policy easy,greedy")
    if request.write_cluster is not None:
        _write_cluster(request.write_cluster, settings)
    accounting = accounting_of(request.log, request.days or ESTIMATE_DAYS, settings, lenient=request.lenient)
    if _reads_site_cluster(request, settings, policies):
        accounting = with_site_cluster(accounting, settings)
    with repeat_progress(request.replays or MOST_REPLAYS) as progress:
        estimate = estimate_savings(
            accounting.trace,
            with_nodes(settings, accounting),
            policies,
            days=request.days,
            replays=request.replays,
            progress=progress,
            cluster=accounting.cluster,
        )
    measured = _levers(estimate, settings, policies[0]) if request.levers else ()
    if request.as_json:
        typer.echo(estimate_json(estimate, measured))
    else:
        print_estimate(estimate, measured)


def _levers(estimate: SavingsEstimate, settings: Settings, baseline: Policy) -> tuple[Lever, ...]:
    with repeat_progress(len(LEVERS) * REPLAYS) as progress:
        return measure_levers(estimate, settings, baseline, progress=progress)


def _reads_site_cluster(request: EstimateRequest, settings: Settings, policies: Sequence[Policy]) -> bool:
    """Return whether the log of a scheduler is replayed on the nodes that it reports, rather than on equal ones."""
    machine = settings.machine
    is_described = machine.nodes is not None or machine.processors_per_node is not None or machine.cluster is not None
    if request.log is not None or is_described:
        return False
    return all(map(knows_pools, policies))


def _write_cluster(path: Path, settings: Settings) -> None:
    check_writable(path, example="cluster.toml")
    cluster = site_cluster(settings)
    with replacing(path) as file:
        file.write(cluster_text(cluster, "The cluster that the scheduler reported, for --cluster.").encode())
    typer.echo(f"{path}: {cluster_note(cluster)}", err=True)
