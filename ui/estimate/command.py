"""`offpeak estimate`: what pays on a cluster, by its own log: all levers, their harm, and what is recommended."""

import os
from pathlib import Path
from typing import Annotated

import typer

from offpeak.settings.file import settings_path
from ui.options import CONFIG, FEWEST_REPLAYS, ON, chosen_settings, settings_options
from ui.requests import ESTIMATE_DAYS, EstimateRequest

ESTIMATE_SETTINGS = (
    "prices.file",
    "prices.layout",
    "prices.tariff",
    "prices.peak_rule",
    "prices.decide_by",
    "prices.fill_gaps",
    "carbon.source",
    "plan.devices",
    "plan.peak_target",
    "plan.peak_wait",
    "flexibility.qos",
    "flexibility.partitions",
    "hardware.inventory",
    "scheduling.policies",
    "machine.nodes",
    "machine.processors_per_node",
    "machine.cluster",
    "power.job",
    "power.node_class",
    "power.idle",
    "power.seed",
    "log.time_zone",
    "log.anonymise",
)


@settings_options(*ESTIMATE_SETTINGS)
def estimate(
    *,
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
        typer.Option(min=1, help=f"The last DAYS only. [default: {ESTIMATE_DAYS} of a live cluster, all of a file]"),
    ] = None,
    options: dict[str, object],
    replays: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_REPLAYS,
            help="Replays with shifted submit times, for ranges of savings."
            " [default: 20 of orders, 10 of other levers; fewer if enough, or of very many jobs]",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write one page for those who decide: an HTML file.")
    ] = None,
    write_cluster: Annotated[
        Path | None,
        typer.Option(
            "--write-cluster",
            help="Write the nodes and partitions that the scheduler reports to this TOML file, for --cluster on another"
            " machine.",
        ),
    ] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    on: ON = None,
    config: CONFIG = None,
) -> None:
    """Estimate what would have saved most on this cluster, and at what harm: sleep, order, delay, caps."""
    settings = chosen_settings(settings_path(config, os.environ), options=options)
    # What answers loads numba and pyarrow, which `offpeak --version` must not wait for.
    from ui.estimate.answer import answer

    answer(
        settings,
        EstimateRequest(
            log=log,
            days=days,
            replays=replays,
            lenient=lenient,
            as_json=as_json,
            report=report,
            write_cluster=write_cluster,
            on=on,
        ),
    )
