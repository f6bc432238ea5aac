"""Answers `offpeak estimate`: finds the accounting, replays it often, and prints the result as text or JSON.

The text answers in this order: what would be saved, how sure that is, what differs by partition, what was assumed and
left out, what to do next. The JSON has more figures, with the units in the keys.
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
from offpeak.prices.tariff import ASSUMED_TARIFF_BASIS
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
from ui.replay.comparison import basis_json, basis_lines, one_user_remark, remarks, unlike_remark
from ui.replay.likeness import (
    NOT_CLAIMED,
    difference_lines,
    likeness_json,
    order_text,
    partition_table,
    replayed_waits,
)
from ui.replay.tables import NOISE, quoted_text
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
    savings = [lever.saving for lever in levers if lever.saving is not None] or estimate.savings
    console.print()
    console.print(levers_verdict(estimate, savings) if levers else verdict(estimate), style="bold")
    for line in reasons(estimate):
        console.print(line)
    console.print()
    console.print(savings_table(savings, estimate.used.currency, is_far=_is_far(estimate)))
    for line in (*policy_lines(estimate.spreads[0].policy, estimate.savings), *([LEVER_POLICIES] if levers else [])):
        console.print(line)
    console.print()
    for line in use_lines(estimate.used):
        console.print(line)
    _print_section(console, "How sure is this?", sureness(estimate))
    if estimate.likeness is not None and len(estimate.likeness.partitions) > 1:
        console.print()
        console.print("By partition: use and mean wait in the log, mean waits in the replays", style="bold")
        console.print(partition_table(estimate.likeness.partitions, replayed_waits((), estimate.spreads)))
    _print_section(console, "What was assumed and left out", (*lever_lines(levers), *assumptions(estimate)))
    _print_section(console, "What to do next", next_steps(estimate, levers))


def _print_section(console: Console, title: str, lines: Sequence[str]) -> None:
    console.print()
    console.print(title, style="bold")
    for line in lines:
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
    mean = f"the mean price of the period is {figure(used.plain_mean_price)}"
    price = f"{figure(used.mean_price)} {used.currency}/MWh; {mean}"
    emitted = () if used.co2_kg is None else (f"emitted  {_co2_text(used.co2_kg)} of CO2",)
    waiting = f"{percent_text(100 * used.waiting_share)} of the time; mean wait {clock_text(used.mean_wait_s)}"
    return [
        f"used     {bounds_text(energy)} {unit.name}, {unit.figure(used.idle_energy_kwh)} of it by idle nodes",
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


def savings_table(savings: Sequence[CapabilitySaving], currency: str, *, is_far: bool = False) -> Table:
    """Return a table with a row for each capability and policy; `is_far`: it holds for the replay only."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("saved in the replay" if is_far else "what would have been saved")
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


POLICIES = {
    "greedy": "starts jobs of high power first while electricity is cheap, those of low power while it is expensive",
    "knapsack": "fills the free nodes with the most power while it is cheap, with the least while it is expensive",
}


def policy_lines(baseline: str, savings: Sequence[CapabilitySaving]) -> list[str]:
    """Return what each policy does, and what it is compared with."""
    shown = [f"{name} {what}" for name, what in POLICIES.items() if any(each.policy == name for each in savings)]
    return [f"{'; '.join(shown)}; compared with {baseline}, which stands for the order of the site"] if shown else []


LEVER_POLICIES = (
    "timeout puts a node to sleep after that idle time, break-even when sleep saves more energy than waking costs,"
    " forecast if it is hardly needed within that time; ols and profile offer only the nodes that keep the slowdown"
    " below the SLA, profile in expensive hours only"
)


def lever_lines(levers: Sequence[Lever]) -> list[str]:
    """Return notes on how the levers were measured, and why some were not."""
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
        sure = "; the replay is not near enough to what happened to be sure" if _is_far(estimate) else ""
        if len(clear) == len(estimate.savings) > 0:
            return f"Reordering the queue would have saved nothing: every policy costs more than the baseline{sure}."
        return f"Reordering the queue would have saved nothing beyond random variation{sure}."
    if _is_far(estimate):
        return NOT_CLAIMED
    best = max(saved, key=lambda saving: saving.share_pct.middle)
    share = f"{share_text(best)} of the bill"
    if estimate.hardly_pays:
        return f"Reordering the queue does not pay here: the best policy, {best.policy}, saves {share}."
    if_power_differs = (
        " if the power of jobs differs as assumed, else nothing" if estimate.prepared.power.assumed else ""
    )
    money = f"{bounds_text(best.a_year)} {estimate.used.currency} a year"
    return f"{best.policy} would have saved {share}: {money}{if_power_differs}."


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


BY_SUBMISSION = "jobs wait in the order of submission, for equal nodes: --cluster FILE adds partitions and priorities"


def sureness(estimate: SavingsEstimate) -> list[str]:
    """Return in sentences how near the replay is to the log, and how much of the figures is chance or assumed."""
    first = estimate.spreads[0]
    wait = first.figures["mean_wait_s"]
    near = (
        f"the replay is near the log: jobs wait {clock_text(wait.middle)} on average under {first.policy}, in the log"
        f" {clock_text(estimate.used.mean_wait_s)}{order_text(estimate.likeness)}"
    )
    far = (*unlike_remark(estimate.comparison), *difference_lines(estimate.likeness))
    if estimate.are_starts_replayed:
        far = (
            "the replay cannot be compared with the cluster: waits above are replayed, because the log has no starts",
        )
    power = (
        "the ranges of energy and money are those of 100 and of 300 W per busy node, which is assumed; if all jobs draw"
        " the same, no order of the queue saves anything"
    )
    few = (
        f"; more were not needed, as their savings differ by less than {SETTLED_PCT} points"
        if first.replays == FIRST_REPLAYS and first.alignments == 1
        else ""
    )
    return [
        *(far or (near,)),
        *one_user_remark(estimate.trace),
        *((power,) if estimate.prepared.power.assumed else ()),
        f"shares and waits are {quoted_text(first)} with submissions up to a minute later; brackets hold 19 of 20"
        f" {'replays' if first.alignments == 1 else 'further alignments'}; {NOISE}: chance alone can make the"
        f" difference{few}",
    ]


def assumptions(estimate: SavingsEstimate) -> list[str]:
    """Return what is assumed, how the log was read, and which jobs were left out."""
    zone = zone_text(estimate.comparison.case.prices.laid.zone) or "this machine"
    return [
        f"hours and days are in the time zone {zone}; --time-zone sets another",
        *([] if estimate.comparison.case.cluster else [BY_SUBMISSION]),
        *remarks(estimate.trace, estimate.prepared, estimate.comparison),
    ]


def next_steps(estimate: SavingsEstimate, levers: Sequence[Lever]) -> list[str]:
    """Return the options and commands that make the estimate surer, measure more, or use it."""
    case = estimate.comparison.case
    tariff = case.prices.laid.tariff
    has_partitions = estimate.likeness is not None and len(estimate.likeness.partitions) > 1
    steps = []
    if tariff is not None and tariff.basis == ASSUMED_TARIFF_BASIS:
        steps.append("--prices FILE or --tariff RULE: your own prices in place of the assumed ones")
    if estimate.prepared.power.assumed:
        steps.append("--power and --idle-power: the measured power of your nodes in place of the assumed one")
    is_mixed = has_partitions or estimate.prepared.units_per_node > 1
    if case.cluster is None and (is_mixed or _is_far(estimate)):
        steps.append(
            "--cluster FILE: replay on the node types, partitions and limits of the cluster, not on equal nodes;"
            " `offpeak estimate --write-cluster FILE` on its head node writes the file"
        )
    elif _is_far(estimate):
        steps.append("add limits of QOS, reservations and priorities to the cluster file, if it lacks some")
    if not levers:
        steps.append(
            "--levers: what sleeping nodes and fewer nodes in expensive hours save, often more than queue order"
        )
    else:
        steps.append("--node-class FILE: power and boot times of your own nodes (docs/how-to/sleeping-nodes.md)")
    return [
        *steps,
        "`offpeak simulate LOG --replays 20 --by user,partition --report report.html`, with the options used here: who"
        " would wait longer",
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
            *one_user_remark(estimate.trace),
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
