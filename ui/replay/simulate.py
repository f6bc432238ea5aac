"""What `offpeak simulate` does: reads, replays, and writes what is asked for.

A schedule is one CSV file a policy, `job_id,start_s,end_s` in trace seconds.
"""

import gzip
import re
import shlex
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import typer
from pyarrow import csv

from offpeak.errors import BadInput
from offpeak.executor import THREADS, executor_on
from offpeak.files import check_writable, replacing
from offpeak.model.jobs import Trace
from offpeak.model.site_devices_file import read_devices
from offpeak.power.capacity.levers import PEAK_SHAVING, add_sleeping_nodes, all_policies, why_no_shaving
from offpeak.power.capacity.registry import check_policy_name, expand_front
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import PreparedCase, prepare
from offpeak.sim_backend.comparison.breakdown import breakdown
from offpeak.sim_backend.comparison.compare import Comparison, compare
from offpeak.sim_backend.comparison.devices import with_device_bills
from offpeak.sim_backend.comparison.outcome import PolicyRun
from offpeak.sim_backend.comparison.replications import ReplicationSpread, replay_often
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.ui.estimate.accounting_source import Accounting, log_on_cluster
from offpeak.ui.python_tables import to_pandas
from offpeak.ui.replay.comparison import (
    comparison_json,
    headline,
    one_user_remark,
    print_comparison,
    remarks,
    unlike_remark,
)
from offpeak.ui.replay.unused import refuse_unused
from offpeak.ui.report.tables import ReportOrigin
from offpeak.ui.report.write import write_report
from offpeak.ui.terminal import repeat_progress, replay_progress, say_written

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SimulateRequest:
    """What is asked for besides the settings, and which of these are given as options."""

    start: str | None
    lenient: bool
    replays: int | None
    kinds: tuple[str, ...]
    schedule: Path | None
    report: Path | None
    as_json: bool
    settings_file: Path | None
    given: frozenset[str] = frozenset()
    on: str | None = None


@dataclass(frozen=True, eq=False)
class LogReplay:
    """A log replayed under several policies, the first being the baseline; `spreads` are the ranges of many replays.

    `to_arrow` and `to_pandas` return the schedules.
    """

    trace: Trace
    prepared: PreparedCase
    comparison: Comparison
    spreads: tuple[ReplicationSpread, ...]

    def __repr__(self) -> str:
        policies = ", ".join(run.policy for run in self.comparison.runs)
        head = f"{headline(self.trace, self.prepared, self.comparison)}, under {policies}"
        return "\n- ".join([head, *self.notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the command says below its table: jobs that were left out, and how near the replay is to the log."""
        unlike, one_user = unlike_remark(self.comparison), one_user_remark(self.trace)
        return (*unlike, *one_user, *remarks(self.trace, self.prepared, self.comparison))

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each policy and job: its submission, start and end in seconds of the log."""
        return pa.concat_tables(_schedule_table(self.comparison, run) for run in self.comparison.runs)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table of `to_arrow` as a DataFrame."""
        return to_pandas(self.to_arrow())


def answer(source: str, settings: Settings, request: SimulateRequest) -> None:
    """Replay the log under the policies of the settings, write schedules and report, and print table or JSON."""
    if request.on is not None and request.replays is None:
        raise BadInput("--on changes nothing: one replay runs on this machine", hint="add --replays 20")
    parse_policies(settings)
    if request.schedule is not None:
        policies = len(settings.scheduling.policies) * len(expand_front(settings.capacity.policies))
        check_schedule_path(request.schedule, policies)
    if request.report is not None:
        check_writable(request.report, example="report.html")
    if settings.plan.devices:
        read_devices(settings.plan.devices)
    accounting = log_on_cluster(source, settings, lenient=request.lenient)
    refuse_unused(request.given, settings, accounting, is_repeated=request.replays is not None)
    replayed = replay_log(accounting, settings, start=request.start, replays=request.replays, on=request.on)
    trace, prepared, comparison, spreads = replayed.trace, replayed.prepared, replayed.comparison, replayed.spreads
    written: list[Path] = []
    if request.schedule is not None:
        written += write_schedules(comparison, request.schedule)
    if request.report is not None:
        command = shlex.join(["offpeak", *sys.argv[1:]])
        origin = ReportOrigin(command, str(request.settings_file or ""), settings.power.seed)
        write_report(request.report, trace, prepared, comparison, spreads, origin=origin)
        written.append(request.report)
    groups = {
        kind: tuple(breakdown(comparison, run, kind, trace.names) for run in comparison.runs) for kind in request.kinds
    }
    if request.as_json:
        typer.echo(comparison_json(trace, prepared, comparison, spreads, groups))
    else:
        print_comparison(trace, prepared, comparison, spreads, groups)
    say_written(*written, as_json=request.as_json)


def parse_policies(settings: Settings) -> tuple[Policy, ...]:
    """Return the scheduling policies of the settings; raise BadInput for an unknown one, of capacity too."""
    policies = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    for name in expand_front(settings.capacity.policies):
        check_policy_name(name)
    return policies


def prepare_log(accounting: Accounting, settings: Settings, *, start: str | None) -> PreparedCase:
    """Return the case of the log: its prices and its machine, with nodes if peaks are to be shaved."""
    prepared = prepare(accounting.trace, settings, start=start, cluster=accounting.cluster)
    if settings.plan.peak_target_w is None:
        return prepared
    if why := why_no_shaving(prepared.case):
        return replace(prepared, notes=(*prepared.notes, f"{PEAK_SHAVING}: {why}"))
    return replace(prepared, case=add_sleeping_nodes(prepared.case, prepared.units_per_node)[0])


def replay_log(
    accounting: Accounting, settings: Settings, *, start: str | None, replays: int | None = None, on: str | None = None
) -> LogReplay:
    """Replay the log under the policies of the settings, and `replays` times more for the ranges."""
    policies_at = partial(all_policies, parse_policies(settings), settings=settings)
    prepared = prepare_log(accounting, settings, start=start)
    with replay_progress(len(prepared.case.jobs)) as progress:
        comparison = compare(prepared.case, policies_at(prepared.case), progress)
    if settings.plan.devices:
        comparison = with_device_bills(comparison, read_devices(settings.plan.devices))
    spreads: tuple[ReplicationSpread, ...] = ()
    if replays is not None:
        with executor_on(on, THREADS) as executor, repeat_progress(replays) as shown:
            spreads = replay_often(
                prepared.case,
                policies_at(prepared.case),
                replays=replays,
                seed=settings.power.seed,
                policies_at=policies_at,
                progress=shown,
                executor=executor,
            )
    return LogReplay(accounting.trace, prepared, comparison, spreads)


def schedule_paths(path: Path, policies: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the file of each policy: `path` itself for a single one, else OUT.csv becomes OUT.greedy.csv and so on."""
    if len(policies) == 1:
        return (path,)
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    ending = path.name.removeprefix(plain.stem)
    names = (re.sub(r"[^\w.+-]+", "-", policy).strip("-") for policy in policies)
    return tuple(path.with_name(f"{plain.stem}.{name}{ending}") for name in names)


def check_schedule_path(path: Path, policies: int) -> None:
    """Raise BadInput if schedules cannot be written there: better known before a long replay than after it."""
    if policies > 1 and path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path}: takes one schedule, not {policies}", hint="choose one with --policy")
    check_writable(path, example="schedule.csv")


def write_schedules(comparison: Comparison, path: Path) -> tuple[Path, ...]:
    """Write all schedules, gzipped for names in .gz; return their files. Raises CannotWrite, leaving no half file."""
    paths = schedule_paths(path, tuple(run.policy for run in comparison.runs))
    for run, target in zip(comparison.runs, paths, strict=True):
        table = _schedule_table(comparison, run).select(["job_id", "start_s", "end_s"])
        buffer = pa.BufferOutputStream()
        # Arrow would put the header's names in quotes.
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=False, quoting_style="none"))
        header = ",".join(table.column_names).encode() + b"\n"
        content = header + bytes(buffer.getvalue())
        with replacing(target) as file:
            # No time stamp inside: the same schedule makes the same file.
            file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return paths


def _schedule_table(comparison: Comparison, run: PolicyRun) -> pa.Table:
    jobs = comparison.case.jobs
    return pa.table(
        {
            "policy": pa.array([run.policy]).take(pa.array(np.zeros(len(jobs), np.int64))),
            "job_id": jobs.job_id,
            "submit_s": jobs.submit_s,
            "start_s": run.schedule.start_s,
            "end_s": run.schedule.end_s,
            "size": jobs.size,
        }
    )
