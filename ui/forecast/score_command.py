"""`offpeak score`: how wrong each predictor would have been on a price file or a job log."""

from pathlib import Path
from typing import Annotated

import typer


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Say how wrong each predictor would have been, replayed in time order so that none can look ahead."""
    # What answers loads numba and pyarrow, which `offpeak --version` must not wait for.
    from ui.forecast.score_answer import answer

    answer(tuple(paths or ()), start, processes, as_json=as_json)
