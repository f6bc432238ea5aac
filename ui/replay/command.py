"""`offpeak simulate`, `study` and `generate`: replay a log or a published experiment, generate synthetic logs."""

import shlex
import sys
from datetime import date, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offpeak.errors import BadInput
from offpeak.text import did_you_mean
from offpeak.ui.options import FEWEST_REPLAYS, JSON, LENIENT, ON, CommandSettings, settings_options

if TYPE_CHECKING:
    from offpeak.model.jobs import Jobs
    from offpeak_studies.registry import Study
    from offpeak_studies.workloads.generate import LogRequest

KINDS = ("class", "user", "partition", "day")


SIMULATED = (
    *("prices.file", "prices.layout", "prices.tariff", "prices.peak_rule", "prices.decide_by", "prices.fill_gaps"),
    *("carbon.source",),
    *("plan.devices", "plan.peak_target", "plan.peak_wait", "plan.facility", "plan.outside_c"),
    *("scheduling.policies", "scheduling.window", "scheduling.period", "scheduling.max_postponement"),
    *("scheduling.priority_band", "scheduling.estimates", "scheduling.kill_at_estimate", "scheduling.passes"),
    *("capacity.policies", "capacity.sla"),
    *("power.node_class",),
    *("capacity.depths", "capacity.keep_hot", "capacity.wake_ahead", "capacity.min_awake", "capacity.min_asleep"),
    *("capacity.cycles_per_day", "capacity.order", "capacity.sleeps_per_min", "capacity.wakes_per_min"),
    *("capacity.sleep_ramp", "capacity.wake_ramp", "capacity.cycle_cost"),
    *("machine.nodes", "machine.processors_per_node", "machine.cluster"),
    *("power.job", "power.idle", "power.seed"),
    *("log.time_zone", "log.anonymise"),
)
"""The settings of a replay."""


@settings_options(*SIMULATED)
def simulate(
    chosen: CommandSettings,
    log: Annotated[
        str,
        typer.Argument(
            help="Job log: SWF, GWF, `sacct -P` output, jobcomp log, PBS accounting file or folder; plain or .gz;"
            " - reads stdin."
        ),
    ],
    replays: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_REPLAYS, help="Replay each policy this often with shifted submit times, to give ranges."
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Date of the prices to which the log's start is mapped: 2023-01-09.")
    ] = None,
    lenient: LENIENT = False,
    by: Annotated[
        str | None, typer.Option(help="Break each policy's cost down: class, user, partition, day, or several.")
    ] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Write job_id,start_s,end_s in seconds of the log, one file per policy.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report with figures: one HTML file.")] = None,
    as_json: JSON = False,
    on: ON = None,
) -> None:
    """Replay a job log under several policies, and compare them."""
    from offpeak.ui.replay.simulate import SimulateRequest, answer

    kinds = tuple(kind.strip() for kind in by.split(",")) if by else ()
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"--by: unknown group {kind!r}", hint=did_you_mean(kind, KINDS))
    request = SimulateRequest(
        start=start,
        lenient=lenient,
        replays=replays,
        kinds=kinds,
        schedule=schedule,
        report=report,
        as_json=as_json,
        settings_file=chosen.file,
        given=chosen.given,
        on=on,
    )
    answer(log, chosen.read(), request)


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="The study: dynamic-pricing, online-simulation, price-capacity, sleeping, energy-carbon, day-ahead or"
            " profit-cooling; or a grid of your own, GRID.toml."
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
        Path | None, typer.Option(help="Folder for tables, figures and finished tasks [default: the study's name].")
    ] = None,
    replays: Annotated[
        int | None, typer.Option(min=1, help="Replays of each case, each with its own random numbers. [default: 10]")
    ] = None,
    search_time: Annotated[
        str | None,
        typer.Option(
            help="For profit-cooling: time of each search for a day's plan, 4000s in the paper [default: 5s]."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed: the same seed gives the same tables.")] = 1,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to run in [default: one a processor].")
    ] = None,
    on: ON = None,
) -> None:
    """Re-run a published experiment, or sweep a grid of your own. A grid has policies, prices and nodes.

    An interrupted study continues where it stopped.
    """
    from offpeak.executor import executor_on, local_processes
    from offpeak.model.units import parse_duration_s

    _require_studies()
    from offpeak.ui.replay.tables import print_report
    from offpeak.ui.report.page import write_study_page
    from offpeak.ui.terminal import REPLAYING, task_progress
    from offpeak_studies.harness import StudyOrder
    from offpeak_studies.registry import GRID_OPTIONS, OPTIONS, REPLAYS, WITHOUT, study_named
    from offpeak_studies.report import write_report

    if on and processes:
        raise BadInput("--processes is for this machine, --on for others", hint="leave one out; --on slurm:8 is 8 jobs")
    search_s = parse_duration_s(search_time) if search_time else None
    is_grid = name.endswith(".toml")
    given = {"--logs": logs, "--prices": prices, "--replays": replays, "--search-time": search_time}
    chosen = _grid_study(Path(name), part) if is_grid else study_named(name, part)
    for option, value in given.items():
        if value is not None and option not in (GRID_OPTIONS if is_grid else OPTIONS[name]):
            raise BadInput(f"{option} changes nothing: {name} {WITHOUT[option]}", hint=f"leave {option} out")
    with executor_on(on, local_processes(processes)) as executor, task_progress(REPLAYING) as progress:
        folder = out or Path(Path(name).stem if is_grid else name, part or "")
        order = StudyOrder(logs, folder, REPLAYS if replays is None else replays, seed, executor, prices, search_s)
        report = chosen(order, progress)
    write_report(report, order.out)
    write_study_page(report, order.out / "study.html")
    print_report(report)
    written = ("study.html", "study.md", "tables as CSV", *(["grid.parquet"] if is_grid else []), *report.figures)
    typer.echo(f"written to {order.out}: {', '.join(written)}")


def _require_studies() -> None:
    if find_spec("offpeak_studies") is None:
        install = f"python3 -m pip --python {shlex.quote(sys.executable)} install ./studies"
        raise BadInput("the studies are not installed", hint=f"in a clone of offpeak: {install}")


def _grid_study(path: Path, part: str | None) -> "Study":
    from offpeak.ui.estimate.accounting_source import log_on_cluster
    from offpeak_studies.grid import SweepGrid, read_grid, sweep

    if part is not None:
        raise BadInput(f"{path}: a grid has no parts", hint="leave --part out")
    axes, settings = read_grid(path)
    accounting = log_on_cluster(axes.log, settings, lenient=False)
    return partial(sweep, SweepGrid(path.stem, axes, settings, accounting.trace, accounting.cluster))


def generate(
    out: Annotated[str, typer.Argument(help="Log to write, gzipped if it ends in .gz; - is standard output.")],
    jobs: Annotated[int, typer.Option(help="Number of jobs.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the machine.")],
    load: Annotated[float, typer.Option(help="Share of the machine that the jobs request.")] = 0.7,
    model: Annotated[str, typer.Option(help="Kind of jobs: batch, interactive, typeless or mixed.")] = "batch",
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same log.")] = 1,
    start: Annotated[str, typer.Option(help="First date of the log, from midnight.")] = "2024-01-01",
    time_zone: Annotated[str, typer.Option(help="Time zone of the date.")] = "Europe/Berlin",
) -> None:
    """Write a synthetic job log from a workload model, as SWF."""
    _require_studies()
    from offpeak.files import check_writable
    from offpeak.sim_backend.traces.swf.write import write_swf
    from offpeak_studies.workloads.generate import LogRequest, generate_jobs, notes_of

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
    """Return the first second of the date in the zone [Unix s]."""
    from zoneinfo import ZoneInfo

    from offpeak.model.zones import parse_zone

    zone = parse_zone(time_zone)
    if time_zone != "UTC" and not isinstance(zone, ZoneInfo):
        raise BadInput(f"the log's header cannot hold {time_zone!r}", hint="name a zone, such as Europe/Berlin")
    try:
        day = date.fromisoformat(start)
    except ValueError:
        raise BadInput(f"cannot read the date {start!r}", hint="write it like 2024-01-01") from None
    if day.year < 1971:
        raise BadInput(f"no log begins in {day.year}", hint="logs count from 1970: give a later year")
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def _summary(out: str, request: "LogRequest", made: "Jobs") -> str:
    from offpeak.display import duration_text
    from offpeak.model.constants import DAY_S
    from offpeak.text import counted

    span_s = max(int(made.submit_s[-1] - made.submit_s[0]), 1)
    load = float((made.size * made.runtime_s.astype(float)).sum()) / (request.nodes * span_s)
    name = "standard output" if out == "-" else out
    what = f"{counted(len(made), 'job')} on {counted(request.nodes, 'node')}, {span_s / DAY_S:,.1f} days"
    return f"{name}: {what}, load {load:.2f}, mean run time {duration_text(made.runtime_s.mean())}"
