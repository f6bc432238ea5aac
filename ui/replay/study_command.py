"""`offpeak study`: re-run a published experiment and put our figures beside the published ones."""

import os
from pathlib import Path
from typing import Annotated

import typer


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="The study: dynamic-pricing, online-simulation, price-capacity, sleeping, energy-carbon, day-ahead or"
            " profit-cooling."
        ),
    ],
    part: Annotated[
        str | None,
        typer.Option(help="Part of energy-carbon: single-site or federation; of day-ahead: xsede or nordugrid."),
    ] = None,
    logs: Annotated[
        Path | None, typer.Option(help="Folder of logs, .swf or .swf.gz; without one a generated log is used.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of prices, for price-capacity; without one the bundled year is used. For day-ahead the "
            "folder of XSEDE's sites and the prices of 2014, XSEDE/ and NORDU/."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables, figures and what is finished [default: the study's name].")
    ] = None,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each case, each with its own chances.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all chances: the same seed gives the same tables.")] = 1,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to run in [default: one a processor].")
    ] = None,
) -> None:
    """Re-run a published experiment beside its own figures; price-capacity asks whether fewer nodes in dear hours pay.

    What is interrupted goes on where it stopped.
    """
    # What is imported here loads numba and pyarrow, which `offpeak --version` must not wait for.
    from studies.order import Order
    from studies.registry import study_named
    from studies.write import write_report
    from ui.progress import task_progress
    from ui.replay.report_tables import print_report

    chosen = study_named(name, part)
    order = Order(logs, out or Path(name, part or ""), replays, seed, processes or len(os.sched_getaffinity(0)), prices)
    with task_progress("replaying (the first run compiles the engine)") as progress:
        report = chosen(order, progress)
    write_report(report, order.out)
    print_report(report)
    typer.echo(f"written to {order.out}: {', '.join(('study.md', 'tables as CSV', *report.figures))}")
