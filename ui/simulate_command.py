"""`offpeak simulate`: replay a site's own log under several policies and say what each would have cost."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.settings import Settings, Value
from offpeak.settings_file import read_values, settings_path
from offpeak.suggest import did_you_mean
from ui.options import CONFIG, option

KINDS = ("class", "user", "day")


def simulate(
    trace: Annotated[str, typer.Argument(help="Job log in the Standard Workload Format, plain or .gz; - reads stdin.")],
    prices: Annotated[str | None, option("prices.file")] = None,
    price_layout: Annotated[str | None, option("prices.layout")] = None,
    tariff: Annotated[str | None, option("prices.tariff")] = None,
    peak_rule: Annotated[str | None, option("prices.peak_rule")] = None,
    fill_gaps: Annotated[bool | None, option("prices.fill_gaps")] = None,
    carbon: Annotated[str | None, option("carbon.source")] = None,
    policy: Annotated[list[str] | None, option("scheduling.policies")] = None,
    window: Annotated[int | None, option("scheduling.window")] = None,
    period: Annotated[str | None, option("scheduling.period")] = None,
    max_postponement: Annotated[str | None, option("scheduling.max_postponement")] = None,
    estimates: Annotated[str | None, option("scheduling.estimates")] = None,
    kill_at_estimate: Annotated[bool | None, option("scheduling.kill_at_estimate")] = None,
    passes: Annotated[str | None, option("scheduling.passes")] = None,
    nodes: Annotated[int | None, option("machine.nodes")] = None,
    processors_per_node: Annotated[int | None, option("machine.processors_per_node")] = None,
    power: Annotated[str | None, option("power.job")] = None,
    idle_power: Annotated[str | None, option("power.idle")] = None,
    seed: Annotated[int | None, option("power.seed")] = None,
    start: Annotated[str | None, typer.Option(help="Date of the prices on which the log is laid: 2023-01-09.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    by: Annotated[str | None, typer.Option(help="Break each policy's cost down: class, user, day, or several.")] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Write job_id,start_s,end_s in trace seconds, one file a policy.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Replay a job log under several policies and say what each would have cost."""
    values = read_values(
        settings_path(config, os.environ),
        options={
            "prices.file": prices,
            "prices.layout": price_layout,
            "prices.tariff": tariff,
            "prices.peak_rule": peak_rule,
            "prices.fill_gaps": fill_gaps,
            "carbon.source": carbon,
            "scheduling.policies": ",".join(policy) if policy else None,
            "scheduling.window": window,
            "scheduling.period": period,
            "scheduling.max_postponement": max_postponement,
            "scheduling.estimates": estimates,
            "scheduling.kill_at_estimate": kill_at_estimate,
            "scheduling.passes": passes,
            "machine.nodes": nodes,
            "machine.processors_per_node": processors_per_node,
            "power.job": power,
            "power.idle": idle_power,
            "power.seed": seed,
        },
    )
    if tariff is not None and prices is None:
        values["prices.file"] = Value(None, None, "--tariff")
    if tariff is not None and prices is not None:
        raise BadInput("--prices and --tariff exclude each other", hint="give the one that you pay")
    _answer(trace, Settings.of(values), Request(start, lenient, _kinds(by), schedule, as_json))


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    start: str | None
    lenient: bool
    kinds: tuple[str, ...]
    schedule: Path | None
    as_json: bool


def _kinds(by: str | None) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in by.split(",")) if by else ()
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"--by: unknown group {kind!r}", hint=did_you_mean(kind, KINDS))
    return kinds


def _answer(source: str, settings: Settings, request: Request) -> None:
    # What is imported here loads numba and pyarrow, which `offpeak --version` must not wait for.
    from sim_backend.breakdown import breakdown
    from sim_backend.case import prepare
    from sim_backend.compare import compare
    from sim_backend.policy import parse_policy
    from sim_backend.traces.schedule_csv import check_schedule_path, write_schedules
    from sim_backend.traces.swf.read import read_swf
    from ui.comparison_json import comparison_json
    from ui.comparison_table import print_comparison
    from ui.progress import replay_progress

    policies = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    if request.schedule is not None:
        check_schedule_path(request.schedule, settings.scheduling.policies)
    trace = read_swf("-" if source == "-" else Path(source), lenient=request.lenient)
    prepared = prepare(trace, settings, start=request.start)
    with replay_progress(len(prepared.case.jobs)) as progress:
        comparison = compare(prepared.case, policies, progress)
    if request.schedule is not None:
        write_schedules(comparison, request.schedule)
    groups = {kind: tuple(breakdown(comparison, run, kind) for run in comparison.runs) for kind in request.kinds}
    if request.as_json:
        typer.echo(comparison_json(trace, prepared, comparison, groups))
    else:
        print_comparison(trace, prepared, comparison, groups)
