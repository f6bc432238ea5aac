"""`offpeak estimate`: what this cluster used lately, what it paid, and what reordering its queue would have saved."""

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from offpeak.settings_file import settings_path
from ui.options import CONFIG, FEWEST_REPLAYS, chosen_settings, option

DAYS = 30


def estimate(
    log: Annotated[
        str | None,
        typer.Argument(
            help="Accounting of the cluster: `sacct -P` output, jobcomp log, PBS accounting file or folder, SWF, GWF;"
            " - reads stdin. Without one Slurm's or PBS's own is read.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, help=f"The last DAYS only. [default: {DAYS} of a live cluster, all of a file]"),
    ] = None,
    prices: Annotated[str | None, option("prices.file")] = None,
    price_layout: Annotated[str | None, option("prices.layout")] = None,
    tariff: Annotated[str | None, option("prices.tariff")] = None,
    peak_rule: Annotated[str | None, option("prices.peak_rule")] = None,
    fill_gaps: Annotated[bool | None, option("prices.fill_gaps")] = None,
    carbon: Annotated[str | None, option("carbon.source")] = None,
    policy: Annotated[list[str] | None, option("scheduling.policies")] = None,
    nodes: Annotated[int | None, option("machine.nodes")] = None,
    processors_per_node: Annotated[int | None, option("machine.processors_per_node")] = None,
    power: Annotated[str | None, option("power.job")] = None,
    node_class: Annotated[str | None, option("power.node_class")] = None,
    idle_power: Annotated[str | None, option("power.idle")] = None,
    seed: Annotated[int | None, option("power.seed")] = None,
    time_zone: Annotated[str | None, option("log.time_zone")] = None,
    anonymise: Annotated[bool | None, option("log.anonymise")] = None,
    replays: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_REPLAYS,
            help="Replays with shifted submit times that tell savings from chance."
            " [default: 20, or the first 4 if their savings hardly differ]",
        ),
    ] = None,
    levers: Annotated[
        bool, typer.Option("--levers", help="Measure sleeping nodes and dear hours as well: takes a minute or more.")
    ] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    config: CONFIG = None,
) -> None:
    """Say what the cluster used and paid lately, and what reordering its queue would have saved."""
    settings = chosen_settings(
        settings_path(config, os.environ),
        options={
            "prices.file": prices,
            "prices.layout": price_layout,
            "prices.tariff": tariff,
            "prices.peak_rule": peak_rule,
            "prices.fill_gaps": fill_gaps,
            "carbon.source": carbon,
            "scheduling.policies": ",".join(policy) if policy else None,
            "machine.nodes": nodes,
            "machine.processors_per_node": processors_per_node,
            "power.job": power,
            "power.node_class": node_class,
            "power.idle": idle_power,
            "power.seed": seed,
            "log.time_zone": time_zone,
            "log.anonymise": anonymise,
        },
    )
    # What answers loads numba and pyarrow, which `offpeak --version` must not wait for.
    from ui.estimate.answer import answer

    answer(settings, Request(log, days, replays, levers, lenient, as_json))


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    log: str | None
    days: int | None
    replays: int | None
    levers: bool
    lenient: bool
    as_json: bool
