"""`offpeak generate`: write a job log that no machine has seen, for trying out machines, policies and prices."""

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offpeak.errors import BadInput

if TYPE_CHECKING:
    from offpeak.model.jobs import Jobs
    from sim_backend.workloads.generate import LogRequest


def generate(
    out: Annotated[str, typer.Argument(help="Log to write, gzipped if it ends in .gz; - is standard output.")],
    jobs: Annotated[int, typer.Option(help="Number of jobs.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the machine that they are for.")],
    load: Annotated[float, typer.Option(help="Share of the machine that they ask for.")] = 0.7,
    model: Annotated[str, typer.Option(help="Kind of jobs: batch, interactive, typeless or mixed.")] = "batch",
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same log.")] = 1,
    start: Annotated[str, typer.Option(help="Date on which the log begins, at midnight.")] = "2024-01-01",
    time_zone: Annotated[str, typer.Option(help="Whose midnight.")] = "Europe/Berlin",
) -> None:
    """Write a job log drawn from a workload model, in the Standard Workload Format."""
    # What is imported here loads numpy and pyarrow, which `offpeak --version` must not wait for.
    from offpeak.files import check_writable
    from sim_backend.traces.swf.write import write_swf
    from sim_backend.workloads.generate import LogRequest, generate_jobs, notes_of

    request = LogRequest(jobs, nodes, load, model, seed)
    begin_s = _midnight_s(start, time_zone)
    if out != "-":
        check_writable(Path(out), example="generated.swf.gz")
    made = generate_jobs(request)
    write_swf(
        made,
        "-" if out == "-" else Path(out),
        processors=nodes,
        unix_start_s=begin_s,
        zone=time_zone,
        notes=notes_of(request),
    )
    typer.echo(_summary(out, request, made), err=out == "-")


def _midnight_s(start: str, time_zone: str) -> int:
    """Return when the date begins in that zone [Unix s]."""
    from zoneinfo import ZoneInfo

    from offpeak.model.local_time import parse_zone

    zone = parse_zone(time_zone)
    if time_zone != "UTC" and not isinstance(zone, ZoneInfo):
        raise BadInput(f"the log's header has no place for {time_zone!r}", hint="name a zone, such as Europe/Berlin")
    try:
        day = date.fromisoformat(start)
    except ValueError:
        raise BadInput(f"cannot read the date {start!r}", hint="write it like 2024-01-01") from None
    if day.year < 1971:
        raise BadInput(f"no log begins in {day.year}", hint="logs count from 1970: give a later year")
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def _summary(out: str, request: "LogRequest", made: "Jobs") -> str:
    from offpeak.model.local_time import DAY_S
    from offpeak.text import counted
    from ui.clock_text import clock_text

    span_s = max(int(made.submit_s[-1] - made.submit_s[0]), 1)
    load = float((made.size * made.runtime_s.astype(float)).sum()) / (request.nodes * span_s)
    name = "standard output" if out == "-" else out
    what = f"{counted(len(made), 'job')} on {counted(request.nodes, 'node')}, {span_s / DAY_S:,.1f} days"
    return f"{name}: {what}, load {load:.2f}, mean run time {clock_text(made.runtime_s.mean())}"
