"""Answers `offpeak estimate`: finds the accounting, replays it under every lever, and prints what pays.

On a terminal the first answer rests on few replays and is refined while it is watched. Elsewhere it is printed once,
with as many replays as a few seconds allow; their number depends on the log, and on the clock only with a budget.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from offpeak.display import duration_text
from offpeak.errors import BadInput
from offpeak.executor import THREADS, Executor, executor_on
from offpeak.files import check_writable, replacing
from offpeak.model.cluster_file import cluster_text
from offpeak.model.site_devices import SiteDevices
from offpeak.model.site_devices_file import read_devices
from offpeak.power.capacity.levers import LEVERS, REPLAYS, LeverMeasurement, days_of_jobs
from offpeak.prices import ASSUMED_TARIFF
from offpeak.settings.replay import TARIFF
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.site_jobs import cluster_note
from offpeak.sim_backend.comparison.devices import with_device_bills
from offpeak.sim_backend.estimate import FIRST_REPLAYS, MOST_REPLAYS, estimate_savings, reasons, replay_more
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.traces.filters import last_days
from offpeak.ui.estimate.accounting_source import Accounting, accounting_of, site_cluster, with_nodes, with_site_cluster
from offpeak.ui.estimate.page import estimate_page
from offpeak.ui.estimate.text import (
    LeversAnswer,
    answer_view,
    fragment,
)
from offpeak.ui.options import ESTIMATE_DAYS
from offpeak.ui.replay.comparison import basis_json, one_user_remark, remarks, unlike_remark
from offpeak.ui.replay.likeness import difference_lines, likeness_json
from offpeak.ui.replay.unused import refuse_unused
from offpeak.ui.terminal import plain_console, say_written, task_progress

FIRST_JOBS = 12_000
"""On nodes that differ, the first figures rest on the last days with so many jobs: they come within seconds."""
SLOW_LEVERS = 1.5
"""How much longer a replay takes with the levers that first figures leave out."""
ORDERS_SHARE = 0.3
"""The share of the time of a stage that the replays of orders take."""
REFINING, KEEPS = "refining: ", " (Ctrl-C keeps what is shown)"


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
    budget_s: int | None = None


def estimate_json(answer: LeversAnswer) -> str:
    """Return the answer as a JSON object, units in the keys."""
    estimate, best = answer.estimate, answer.recommended
    aligned = estimate.comparison.case.prices.aligned
    document = {
        "log": estimate.trace.name,
        "jobs": len(estimate.prepared.case.jobs),
        "machine_size": estimate.comparison.case.machine.size,
        "units_per_node": estimate.prepared.units_per_node,
        "prices": aligned.series.source,
        **basis_json(estimate.prepared.basis),
        "unix_offset_s": aligned.offset_s,
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
        path = request.write_cluster
        check_writable(path, example="cluster.toml")
        cluster = site_cluster(settings)
        with replacing(path) as file:
            file.write(cluster_text(cluster, "The cluster that the scheduler reported, for --cluster.").encode())
        typer.echo(f"{path}: {cluster_note(cluster)}", err=True)
    if request.report is not None:
        check_writable(request.report, example="estimate.html")
    if not request.as_json:
        settings = _with_typed_prices(settings)
    devices = settings.plan.devices and read_devices(settings.plan.devices)
    accounting = accounting_of(request.log, request.days or ESTIMATE_DAYS, settings, lenient=request.lenient)
    machine = settings.machine
    is_described = machine.nodes is not None or machine.processors_per_node is not None or machine.cluster is not None
    if request.log is None and not is_described:
        accounting = with_site_cluster(accounting, settings)
    settings = with_nodes(settings, accounting)
    refuse_unused(request.given, settings, accounting, is_repeated=True, is_estimate=True)
    console = plain_console()
    is_watched = console.is_terminal and not request.as_json and request.replays is None
    with executor_on(request.on, THREADS) as executor:
        refined = RefinedEstimate(accounting, settings, policies, executor, devices or None)
        stages = _stages(request, accounting, is_watched=is_watched)
        if is_watched:
            found = _watched(console, refined, stages, request.budget_s)
        else:
            with task_progress("replays") as report:
                answers = refined.answers(stages, request.budget_s, lambda done: report(round(100 * done), 100))
                (found,) = deque(answers, maxlen=1)
    if request.as_json:
        typer.echo(estimate_json(found))
    elif not is_watched:
        plain_console().print(answer_view(found))
    if request.report is not None:
        with replacing(request.report) as file:
            file.write(estimate_page(found).encode())
        say_written(request.report, as_json=request.as_json)


class Stage(NamedTuple):
    """One answer of ever better ones: by how many replays of orders and of other levers, over how many last days.

    None stands for all days, or for as many replays as an answer within seconds allows. `is_quick` leaves slow levers
    out. `work` is how many jobs are replayed, those of earlier stages left out.
    """

    days: int | None
    orders: int | None
    levers: int | None
    is_quick: bool = False
    work: float = 0.0


def _stages(request: EstimateRequest, accounting: Accounting, *, is_watched: bool) -> list[Stage]:
    if request.replays is not None:
        return [Stage(request.days, request.replays, request.replays)]
    if not is_watched and request.budget_s is None:
        return [Stage(request.days, None, None)]
    submit_s = last_days(accounting.trace, request.days).jobs.submit_s
    stages, done = [], 0
    if accounting.cluster is not None and len(submit_s) > FIRST_JOBS:
        days = days_of_jobs(submit_s, FIRST_JOBS)
        stages.append(Stage(days, FIRST_REPLAYS, FIRST_REPLAYS, is_quick=True, work=FIRST_REPLAYS * FIRST_JOBS))
    for replays in (FIRST_REPLAYS, REPLAYS, MOST_REPLAYS):
        is_quick = replays == FIRST_REPLAYS
        work = (replays - done) * len(submit_s) * (1.0 if is_quick else SLOW_LEVERS)
        stages.append(Stage(request.days, replays, replays, is_quick, work))
        done = replays
    return stages


@dataclass
class RefinedEstimate:
    """Answers with ever more replays; those that a stage has made are not repeated by the next one of the same days."""

    accounting: Accounting
    settings: Settings
    policies: tuple[Policy, ...]
    executor: Executor
    devices: SiteDevices | None
    _measured: LeverMeasurement | None = None
    _days: int | None = None

    def answers(
        self, stages: Sequence[Stage], budget_s: float | None, progress: Callable[[float], None]
    ) -> Iterator[LeversAnswer]:
        """Yield the answer of each stage, at least of the first; `progress` gets the share of a stage that is done.

        A stage that would probably not end within the budget, by the time of the last one, is left out.
        """
        begun_s = stage_s = time.monotonic()
        for number, stage in enumerate(stages):
            if number and budget_s is not None:
                now_s = time.monotonic()
                if now_s - begun_s + (now_s - stage_s) * stage.work / stages[number - 1].work > budget_s:
                    return
            stage_s = time.monotonic()
            yield self._answer(stage, progress)

    def _answer(self, stage: Stage, progress: Callable[[float], None]) -> LeversAnswer:
        orders, seed = stage.orders or MOST_REPLAYS, self.settings.power.seed

        def order_progress(done: int) -> None:
            progress(ORDERS_SHARE * min(done / orders, 1.0))

        measured = self._measured
        if measured is None or self._days != stage.days:
            estimate = estimate_savings(
                self.accounting.trace,
                self.settings,
                self.policies,
                days=stage.days,
                replays=stage.orders,
                progress=order_progress,
                cluster=self.accounting.cluster,
                executor=self.executor,
            )
            if self.devices:
                estimate = replace(estimate, comparison=with_device_bills(estimate.comparison, self.devices))
            measured = self._measured = LeverMeasurement(estimate, self.settings, self.policies, self.executor)
            self._days = stage.days
        else:
            measured.estimate = replay_more(
                measured.estimate,
                policies=self.policies,
                seed=seed,
                replays=orders,
                progress=order_progress,
                executor=self.executor,
            )
        number = stage.levers or (FIRST_REPLAYS if measured.is_wide else REPLAYS)
        levers = measured.measure(
            number,
            lambda done: progress(ORDERS_SHARE + (1 - ORDERS_SHARE) * done / len(LEVERS)),
            is_quick=stage.is_quick,
        )
        best = measured.recommend(levers, number)
        weekly = None if best is None else measured.weekly_bill(best.saving)
        return LeversAnswer(measured.estimate, levers, best, self.settings, weekly)


def _watched(
    console: Console, refined: RefinedEstimate, stages: Sequence[Stage], budget_s: float | None
) -> LeversAnswer:
    """Show the first answer and refine it while it is watched; Ctrl-C keeps the last one."""
    found: LeversAnswer | None = None
    number, begun_s = 0, time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(done: float) -> None:
            left_s = (1 - done) / done * (time.monotonic() - begun_s) if done else 0.0
            left = f"{done:.0%}, about {duration_text(left_s)} left" if done else ""
            what = f"{stages[number].orders} replays" if found else f"first {stages[number].orders} replays"
            text = Text(f"{REFINING if found else ''}{what} {left}{KEEPS if found else ''}", style="dim")
            live.update(Group(text, answer_view(found)) if found else text, refresh=True)

        try:
            show(0.0)
            for better in refined.answers(stages, budget_s, show):
                found = better
                number, begun_s = min(number + 1, len(stages) - 1), time.monotonic()
                show(0.0)
        except KeyboardInterrupt:
            if found is None:
                raise
        assert found is not None
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
