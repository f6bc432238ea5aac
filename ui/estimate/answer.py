"""Answers `offpeak estimate`: finds the accounting, replays it under every lever, and prints what pays.

On a terminal the first answer rests on few replays and is refined while it is watched. Elsewhere it is printed once,
with as many replays as a few seconds allow; their number depends on the log, not on the clock.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from offpeak.errors import BadInput
from offpeak.executor import HERE, executor_on
from offpeak.files import check_writable, replacing
from offpeak.model.cluster_file import cluster_text
from offpeak.model.site_devices import read_devices
from offpeak.power.capacity.levers import LEVERS, REPLAYS, LeverMeasurement
from offpeak.prices import ASSUMED_TARIFF
from offpeak.settings.kinds import TARIFF
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.site_jobs import cluster_note
from offpeak.sim_backend.comparison.devices import with_device_bills
from offpeak.sim_backend.estimate import FIRST_REPLAYS, MOST_REPLAYS, estimate_savings, reasons, replay_more
from offpeak.sim_backend.mixed.replay import knows_pools
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.ui.estimate.accounting_source import accounting_of, site_cluster, with_nodes, with_site_cluster
from offpeak.ui.estimate.text import (
    LeversAnswer,
    answer_view,
    assumed_prices_lines,
    assumptions,
    fragment,
    headline,
    lever_cells,
    lever_headers,
    lever_lines,
    no_range_lines,
    sureness,
    unmeasured_lines,
    use_lines,
    verdict,
)
from offpeak.ui.options import ESTIMATE_DAYS
from offpeak.ui.replay.comparison import basis_json, machine_text, one_user_remark, prices_text, remarks, unlike_remark
from offpeak.ui.replay.likeness import difference_lines, likeness_json
from offpeak.ui.replay.unused import refuse_unused
from offpeak.ui.report.page import bullets, definitions, paragraph, section, still_page, table
from offpeak.ui.terminal import plain_console, repeat_progress, say_written, task_progress


@dataclass(frozen=True)
class EstimateRequest:
    """What is asked for besides the settings, and which of these are given as options."""

    log: str | None
    days: int | None
    replays: int | None
    lenient: bool
    as_json: bool
    report: Path | None = None
    write_cluster: Path | None = None
    given: frozenset[str] = frozenset()
    on: str | None = None


def estimate_json(answer: LeversAnswer) -> str:
    """Return the answer as a JSON object, units in the keys."""
    estimate, best = answer.estimate, answer.recommended
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
        "levers": [asdict(lever) for lever in answer.levers],
        "recommended": None if best is None else {**asdict(best), "settings_toml": fragment(answer)},
        "devices": next(map(asdict, estimate.comparison.device_bills), None),
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
    if request.report is not None:
        check_writable(request.report, example="estimate.html")
    if not request.as_json:
        settings = _with_typed_prices(settings)
    devices = settings.plan.devices and read_devices(settings.plan.devices)
    accounting = accounting_of(request.log, request.days or ESTIMATE_DAYS, settings, lenient=request.lenient)
    if _reads_site_cluster(request, settings, policies):
        accounting = with_site_cluster(accounting, settings)
    settings = with_nodes(settings, accounting)
    refuse_unused(request.given, settings, accounting, is_repeated=True, is_estimate=True)
    console = plain_console()
    is_watched = console.is_terminal and not request.as_json and request.replays is None
    with executor_on(request.on, HERE) as executor:
        with repeat_progress(request.replays or MOST_REPLAYS) as progress:
            estimate = estimate_savings(
                accounting.trace,
                settings,
                policies,
                days=request.days,
                replays=FIRST_REPLAYS if is_watched else request.replays,
                progress=progress,
                cluster=accounting.cluster,
                executor=executor,
            )
        if devices:
            estimate = replace(estimate, comparison=with_device_bills(estimate.comparison, devices))
        replays = LeverMeasurement(estimate, settings, policies, executor)
        with task_progress("levers") as report:
            first = request.replays or (FIRST_REPLAYS if is_watched or replays.is_wide else REPLAYS)
            found = _measured(replays, first, lambda done: report(done, len(LEVERS)), is_quick=is_watched)
        if is_watched:
            found = _watched(console, replays, found)
    if request.as_json:
        typer.echo(estimate_json(found))
    elif not is_watched:
        print_answer(found)
    if request.report is not None:
        write_estimate_page(request.report, found)
        say_written(request.report, as_json=request.as_json)


def print_answer(answer: LeversAnswer) -> None:
    """Print the answer as text, not wrapped unless on a terminal."""
    plain_console().print(answer_view(answer))


def _measured(
    replays: LeverMeasurement, number: int, progress: Callable[[int], None] = lambda _: None, *, is_quick: bool = False
) -> LeversAnswer:
    levers = replays.measure(number, progress, is_quick=is_quick)
    return LeversAnswer(replays.estimate, levers, replays.recommend(levers, number), replays.settings)


REFINING = "refining: "


def _watched(console: Console, replays: LeverMeasurement, first: LeversAnswer) -> LeversAnswer:
    """Show the first answer and refine it with more replays while it is watched; Ctrl-C keeps the last one."""
    found = first
    policies, seed = tuple(replays.policies), replays.settings.power.seed
    with Live(answer_view(found), console=console, auto_refresh=False) as live:
        with suppress(KeyboardInterrupt):
            for number in (REPLAYS, MOST_REPLAYS):
                note = Text(f"{REFINING}{number} replays (Ctrl-C keeps what is shown)", style="dim")
                live.update(Group(note, answer_view(found)), refresh=True)
                replays.estimate = replay_more(
                    replays.estimate, policies=policies, seed=seed, replays=number, executor=replays.executor
                )
                found = _measured(replays, number)
        live.update(answer_view(found), refresh=True)
    return found


def _with_typed_prices(settings: Settings) -> Settings:
    """Return the settings with the prices that the user types, if none are given and a person is at the terminal."""
    prices = settings.prices
    if prices.file is not None or prices.tariff is not None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return settings
    typer.echo(f"No prices are given. Type a CSV file of prices or a tariff such as {ASSUMED_TARIFF};")
    typed = typer.prompt("Enter assumes that one", default="", show_default=False).strip()
    if not typed:
        return settings
    if "=" in typed:
        return replace(settings, prices=replace(prices, tariff=TARIFF.read(typed)))
    return replace(settings, prices=replace(prices, file=Path(typed)))


def _reads_site_cluster(request: EstimateRequest, settings: Settings, policies: Sequence[Policy]) -> bool:
    """Return whether the log of a scheduler is replayed on the nodes that it reports, rather than on equal ones.

    The baseline decides: no other policy changes what the others are replayed on.
    """
    machine = settings.machine
    is_described = machine.nodes is not None or machine.processors_per_node is not None or machine.cluster is not None
    if request.log is not None or is_described:
        return False
    return knows_pools(policies[0])


def _write_cluster(path: Path, settings: Settings) -> None:
    check_writable(path, example="cluster.toml")
    cluster = site_cluster(settings)
    with replacing(path) as file:
        file.write(cluster_text(cluster, "The cluster that the scheduler reported, for --cluster.").encode())
    typer.echo(f"{path}: {cluster_note(cluster)}", err=True)


def write_estimate_page(path: Path, answer: LeversAnswer) -> None:
    """Write the page; raise CannotWrite on failure, without a partial file."""
    with replacing(path) as file:
        file.write(estimate_page(answer).encode())


def estimate_page(answer: LeversAnswer) -> str:
    """Return the page as HTML."""
    estimate = answer.estimate
    basis = estimate.prepared.basis
    rows = [(f"{saving.capability}: {saving.policy}", *lever_cells(saving, estimate.used)) for saving in answer.savings]
    facts = (("log", headline(estimate)), ("prices", prices_text(basis)), ("machine", machine_text(basis)))
    head = "\n".join(
        [
            f"<header>\n<h1>{escape(estimate.trace.name)}: what pays</h1>",
            *(paragraph(line) for line in assumed_prices_lines(estimate)),
            _hero(answer),
            paragraph(verdict(answer), css_class="answer"),
            f"{definitions(facts)}\n</header>",
        ]
    )
    settings = fragment(answer)
    caption, headers = "saved against the operation of today", ("lever", *lever_headers(estimate.used))
    assumed = (*use_lines(estimate.used), *lever_lines(answer), *assumptions(estimate))
    recommended = section("Recommended settings", f'<pre class="command">{escape(settings)}</pre>')
    sections = [
        section(
            "All levers, in order of money",
            table(caption, headers, rows),
            *map(paragraph, (*no_range_lines(answer), *unmeasured_lines(answer.levers))),
        ),
        *([recommended] if settings else []),
        section("How sure is this?", bullets(sureness(estimate))),
        section("What was used, and what is assumed", bullets(assumed)),
    ]
    return still_page(f"{estimate.trace.name}: what pays", f'<div class="sheet">{head}', [*sections, "</div>"])


def _hero(answer: LeversAnswer) -> str:
    """Return the yearly saving in large type; "" if none is claimed."""
    best = answer.recommended
    if best is None or not fragment(answer):
        return ""
    money = best.saving.a_year
    text = f"{money.middle:,.0f} {answer.estimate.used.currency} a year"
    held = f" <small>19 of 20 years like these weeks: {money.low:,.0f} to {money.high:,.0f}</small>"
    return f'<p class="hero">{escape(text)}{held if best.saving.has_range else ""}</p>'
