"""`offpeak simulate`: replay a site's own log under several policies and say what each would have cost."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.settings_file import settings_path
from offpeak.suggest import did_you_mean
from ui.options import CONFIG, FEWEST_REPLAYS, chosen_settings, option

KINDS = ("class", "user", "day")


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            help="Job log: SWF, GWF, `sacct -P` output, jobcomp log, PBS accounting file or folder; plain or .gz;"
            " - reads stdin."
        ),
    ],
    prices: Annotated[str | None, option("prices.file")] = None,
    price_layout: Annotated[str | None, option("prices.layout")] = None,
    tariff: Annotated[str | None, option("prices.tariff")] = None,
    peak_rule: Annotated[str | None, option("prices.peak_rule")] = None,
    fill_gaps: Annotated[bool | None, option("prices.fill_gaps")] = None,
    carbon: Annotated[str | None, option("carbon.source")] = None,
    facility: Annotated[str | None, option("plan.facility")] = None,
    outside: Annotated[float | None, option("plan.outside_c")] = None,
    policy: Annotated[list[str] | None, option("scheduling.policies")] = None,
    window: Annotated[int | None, option("scheduling.window")] = None,
    period: Annotated[str | None, option("scheduling.period")] = None,
    max_postponement: Annotated[str | None, option("scheduling.max_postponement")] = None,
    estimates: Annotated[str | None, option("scheduling.estimates")] = None,
    kill_at_estimate: Annotated[bool | None, option("scheduling.kill_at_estimate")] = None,
    passes: Annotated[str | None, option("scheduling.passes")] = None,
    capacity: Annotated[list[str] | None, option("capacity.policies")] = None,
    sla: Annotated[float | None, option("capacity.sla")] = None,
    node_class: Annotated[str | None, option("power.node_class")] = None,
    depth: Annotated[str | None, option("capacity.depths")] = None,
    keep_hot: Annotated[int | None, option("capacity.keep_hot")] = None,
    wake_ahead: Annotated[str | None, option("capacity.wake_ahead")] = None,
    min_awake: Annotated[str | None, option("capacity.min_awake")] = None,
    min_asleep: Annotated[str | None, option("capacity.min_asleep")] = None,
    cycles_per_day: Annotated[int | None, option("capacity.cycles_per_day")] = None,
    sleep_order: Annotated[str | None, option("capacity.order")] = None,
    sleep_rate: Annotated[int | None, option("capacity.sleeps_per_min")] = None,
    wake_rate: Annotated[int | None, option("capacity.wakes_per_min")] = None,
    sleep_ramp: Annotated[str | None, option("capacity.sleep_ramp")] = None,
    wake_ramp: Annotated[str | None, option("capacity.wake_ramp")] = None,
    cycle_cost: Annotated[float | None, option("capacity.cycle_cost")] = None,
    nodes: Annotated[int | None, option("machine.nodes")] = None,
    processors_per_node: Annotated[int | None, option("machine.processors_per_node")] = None,
    power: Annotated[str | None, option("power.job")] = None,
    idle_power: Annotated[str | None, option("power.idle")] = None,
    seed: Annotated[int | None, option("power.seed")] = None,
    time_zone: Annotated[str | None, option("log.time_zone")] = None,
    anonymise: Annotated[bool | None, option("log.anonymise")] = None,
    replays: Annotated[
        int | None,
        typer.Option(min=FEWEST_REPLAYS, help="Replay each policy so often with shifted submit times: is it chance?"),
    ] = None,
    start: Annotated[str | None, typer.Option(help="Date of the prices on which the log is laid: 2023-01-09.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    by: Annotated[str | None, typer.Option(help="Break each policy's cost down: class, user, day, or several.")] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Write job_id,start_s,end_s in trace seconds, one file a policy.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report with figures: one HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Replay a job log under several policies and say what each would have cost."""
    settings_file = settings_path(config, os.environ)
    settings = chosen_settings(
        settings_file,
        options={
            "prices.file": prices,
            "prices.layout": price_layout,
            "prices.tariff": tariff,
            "prices.peak_rule": peak_rule,
            "prices.fill_gaps": fill_gaps,
            "carbon.source": carbon,
            "plan.facility": facility,
            "plan.outside_c": outside,
            "scheduling.policies": ",".join(policy) if policy else None,
            "scheduling.window": window,
            "scheduling.period": period,
            "scheduling.max_postponement": max_postponement,
            "scheduling.estimates": estimates,
            "scheduling.kill_at_estimate": kill_at_estimate,
            "scheduling.passes": passes,
            "capacity.policies": ",".join(capacity) if capacity else None,
            "capacity.sla": sla,
            "power.node_class": node_class,
            "capacity.depths": depth,
            "capacity.keep_hot": keep_hot,
            "capacity.wake_ahead": wake_ahead,
            "capacity.min_awake": min_awake,
            "capacity.min_asleep": min_asleep,
            "capacity.cycles_per_day": cycles_per_day,
            "capacity.order": sleep_order,
            "capacity.sleeps_per_min": sleep_rate,
            "capacity.wakes_per_min": wake_rate,
            "capacity.sleep_ramp": sleep_ramp,
            "capacity.wake_ramp": wake_ramp,
            "capacity.cycle_cost": cycle_cost,
            "machine.nodes": nodes,
            "machine.processors_per_node": processors_per_node,
            "power.job": power,
            "power.idle": idle_power,
            "power.seed": seed,
            "log.time_zone": time_zone,
            "log.anonymise": anonymise,
        },
    )
    # What answers loads numba and pyarrow, which `offpeak --version` must not wait for.
    from ui.replay.simulate_answer import answer

    answer(trace, settings, Request(start, lenient, replays, _kinds(by), schedule, report, as_json, settings_file))


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    start: str | None
    lenient: bool
    replays: int | None
    kinds: tuple[str, ...]
    schedule: Path | None
    report: Path | None
    as_json: bool
    settings_file: Path | None


def _kinds(by: str | None) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in by.split(",")) if by else ()
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"--by: unknown group {kind!r}", hint=did_you_mean(kind, KINDS))
    return kinds
