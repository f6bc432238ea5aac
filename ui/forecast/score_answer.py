"""Print `offpeak score`: the tables of the scores, or the same as JSON."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import typer

from studies.scores.scoring import ScoredFiles, scores
from ui.progress import task_progress
from ui.replay.tables import print_report


def answer(paths: tuple[Path, ...], start: str | None, processes: int | None, *, as_json: bool) -> None:
    """Print the errors of each predictor; raise BadInput for unreadable files."""
    with task_progress("scoring (the first run compiles the kernels)") as progress:
        report = scores(ScoredFiles(paths, start), processes or len(os.sched_getaffinity(0)), progress)
    if not as_json:
        print_report(report)
        return
    tables = {table.name: [dict(zip(table.headers, row, strict=True)) for row in table.rows] for table in report.tables}
    typer.echo(json.dumps({"notes": list(report.notes), **tables}, indent=2, default=asdict))
