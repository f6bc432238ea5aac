"""`offpeak prices` and `forecast`: known and future prices, the wait, run time and power of one job, and the errors
of each predictor.
"""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from offpeak.ui.options import JSON, KNOWN_PRICES, LENIENT, CommandSettings, settings_options
from offpeak.ui.parameters import PlainCommand, PlainGroup

forecast = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    rich_markup_mode=None,
    help="Forecast prices, or the wait, run time or power of a job. Each has a range and a basis; score has errors.",
)

LOG = Annotated[
    str | None,
    typer.Argument(
        help="Job log to learn from: `sacct -P` output, jobcomp log, PBS accounting file or folder, SWF, GWF; - reads"
        " stdin. Without one Slurm's or PBS's own is read.",
        show_default=False,
    ),
]
SIZE = Annotated[
    int, typer.Option("--size", min=1, help="Nodes that the job requests, or processors if the log counts these.")
]
ESTIMATE = Annotated[
    str, typer.Option("--estimate", help="Wall-time limit of the job, such as 2h.", show_default=False)
]
USER = Annotated[str | None, typer.Option("--user", help="Owner of the job.", show_default=False)]
GROUP = Annotated[str | None, typer.Option("--group", help="Group or account of the job.", show_default=False)]
QUEUE = Annotated[str | None, typer.Option("--queue", help="Queue or partition of the job.", show_default=False)]
NAME = Annotated[str | None, typer.Option("--name", help="Name of the job or of its program.", show_default=False)]
DAYS = Annotated[
    int | None,
    typer.Option(min=1, help="Learn from the last DAYS only. [default: 90 of a live cluster, all of a file]"),
]
MODELS = Annotated[
    Path | None,
    typer.Option("--models", help="Folder of learned models: the next run learns only new jobs.", show_default=False),
]


@settings_options(*KNOWN_PRICES)
def prices(
    chosen: CommandSettings,
    from_: Annotated[
        str | None, typer.Option("--from", help="First date, or date and time. [default: today]", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="End: date, or date and time. [default: two days later]", show_default=False)
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the known prices, and the errors of their sources."""
    from offpeak.ui.forecast.known_prices import answer

    answer(chosen.read(), from_, to, as_json=as_json)


@forecast.command("price", cls=PlainCommand)
@settings_options(*KNOWN_PRICES, "feeds.inputs", "feeds.place")
def price(
    chosen: CommandSettings,
    hours: Annotated[int, typer.Option(min=1, max=168, help="Number of hours to forecast.")] = 36,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="First date, or date and time. [default: this hour]", show_default=False),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the prices of the next hours, published or forecast. A forecast has a range."""
    from offpeak.ui.forecast.prices import answer

    answer(chosen.read(), from_, hours, as_json=as_json)


def _about_a_job(quantity: str, meaning: str) -> None:
    """Add the command that forecasts this quantity of a job from its request alone."""

    @forecast.command(quantity, help=meaning, cls=PlainCommand)
    @settings_options("machine.nodes", "log.time_zone")
    def predict(
        chosen: CommandSettings,
        size: SIZE,
        estimate: ESTIMATE,
        log: LOG = None,
        user: USER = None,
        group: GROUP = None,
        queue: QUEUE = None,
        name: NAME = None,
        days: DAYS = None,
        models: MODELS = None,
        lenient: LENIENT = False,
        as_json: JSON = False,
    ) -> None:
        from offpeak.ui.forecast.jobs import BY_COMMAND, ForecastJob, JobForecastRequest

        job = ForecastJob(size, estimate, user, group, queue, name)
        BY_COMMAND[quantity](chosen.read(), JobForecastRequest(job, log, days, models, lenient, as_json))


_about_a_job("runtime", "Forecast the run time of a job from similar jobs.")
_about_a_job("power", "Forecast the power of a job from similar jobs.")
_about_a_job("wait", "Forecast how long a job would wait if it were submitted now.")


@forecast.command("score", cls=PlainCommand)
def score(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...",
            help="Price files (.csv), job logs, or folders of them; without one the bundled samples are used.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Date of the first row of price files without a column of times, such as 2014-06-01."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to run in [default: one a processor].")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Leave out what is not scored within that time, such as 5min."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measure the error of each predictor on past data. The data are replayed in time order: none can look ahead."""
    from offpeak.executor import local_processes
    from offpeak.model.units import parse_duration_s
    from offpeak.ui.forecast.scoring import ScoredFiles, scores
    from offpeak.ui.replay.tables import print_report
    from offpeak.ui.terminal import task_progress

    with task_progress("scoring (the first run compiles the kernels)") as progress:
        notify = partial(typer.echo, err=True)
        files = ScoredFiles(tuple(paths or ()), start, parse_duration_s(budget) if budget else None)
        report = scores(files, local_processes(processes), progress, notify)
    if not as_json:
        print_report(report)
        return
    tables = {table.name: [dict(zip(table.headers, row, strict=True)) for row in table.rows] for table in report.tables}
    typer.echo(json.dumps({"notes": list(report.notes), **tables}, indent=2, default=asdict))
