"""`offpeak estimate`: what pays on a cluster, by its own log, with which side effects, and what is recommended."""

from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.ui.options import ESTIMATE_DAYS, FEWEST_REPLAYS, JSON, LENIENT, ON, CommandSettings, settings_options


@settings_options(
    *("prices.file", "prices.layout", "prices.tariff", "prices.peak_rule", "prices.decide_by", "prices.fill_gaps"),
    *("carbon.source",),
    *("plan.devices", "plan.peak_target", "plan.peak_wait"),
    *("flexibility.qos", "flexibility.partitions"),
    *("hardware.inventory",),
    *("scheduling.policies",),
    *("machine.nodes", "machine.processors_per_node", "machine.cluster"),
    *("power.job", "power.node_class", "power.idle", "power.seed"),
    *("log.time_zone", "log.anonymise"),
)
def estimate(
    chosen: CommandSettings,
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
    replays: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_REPLAYS,
            help="Replays with shifted submit times, for ranges of savings."
            " [default: 20 of orders, 10 of other levers; fewer of very many jobs]",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="DURATION", help="Begin with few replays, and refine within this time, such as 2min."
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
    lenient: LENIENT = False,
    as_json: JSON = False,
    on: ON = None,
) -> None:
    """Estimate what would have saved most, and its side effects. The levers are sleep, order, delay and caps."""
    from offpeak.model.units import parse_duration_s
    from offpeak.ui.estimate.estimate import EstimateRequest, answer

    if budget and replays is not None:
        raise BadInput("--budget and --replays cannot be combined", hint="either says how long it takes")
    request = EstimateRequest(
        log=log,
        days=days,
        replays=replays,
        lenient=lenient,
        as_json=as_json,
        report=report,
        write_cluster=write_cluster,
        given=chosen.given,
        on=on,
        budget_s=parse_duration_s(budget) if budget else None,
    )
    answer(chosen.read(), request)
