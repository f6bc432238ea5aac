"""What `offpeak simulate` does: reads, replays, and writes what is asked for."""

import shlex
import sys
from pathlib import Path

import typer

from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.table import Settings
from power.capacity.registry import check_policy_name, expand_front, make_capacity_policy
from sim_backend.case.replay_case import PreparedCase, fleet_of, prepare
from sim_backend.comparison.breakdown import breakdown
from sim_backend.comparison.compare import compare
from sim_backend.comparison.replications import ReplicationSpread, replay_often
from sim_backend.comparison.schedule_csv import check_schedule_path, write_schedules
from sim_backend.replay.policy import Policy, parse_policy
from ui.estimate.accounting_source import log_of
from ui.progress import repeat_progress, replay_progress, say_written
from ui.replay.comparison import comparison_json, print_comparison
from ui.report.tables import ReportOrigin
from ui.report.write import check_report_path, write_report
from ui.requests import SimulateRequest


def answer(source: str, settings: Settings, request: SimulateRequest) -> None:
    """Replay the log under the policies of the settings, write schedules and report, and print table or JSON."""
    disciplines = tuple(parse_policy(name, settings.scheduling) for name in settings.scheduling.policies)
    for name in expand_front(settings.capacity.policies):
        check_policy_name(name)
    _check_paths(settings, request)
    trace = log_of(source, settings.log, lenient=request.lenient)
    prepared = prepare(trace, settings, start=request.start)
    policies = _policies(disciplines, prepared, settings.capacity)
    with replay_progress(len(prepared.case.jobs)) as progress:
        comparison = compare(prepared.case, policies, progress)
    spreads = _spreads(prepared, policies, request.replays, settings.power.seed)
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


def _policies(
    disciplines: tuple[Policy, ...], prepared: PreparedCase, settings: CapacitySettings
) -> tuple[Policy, ...]:
    """Return each scheduling policy with each capacity policy."""
    if prepared.case.nodes is None:
        return disciplines
    fleet = fleet_of(prepared.case)
    capacities = [make_capacity_policy(name, fleet, settings) for name in expand_front(settings.policies)]
    return tuple(policy.on(capacity) for capacity in capacities for policy in disciplines)


def _check_paths(settings: Settings, request: SimulateRequest) -> None:
    """Raise BadInput for a file that cannot be written: better known before a long replay than after it."""
    if request.schedule is not None:
        check_schedule_path(
            request.schedule, len(settings.scheduling.policies) * len(expand_front(settings.capacity.policies))
        )
    if request.report is not None:
        check_report_path(request.report)


def _spreads(
    prepared: PreparedCase, policies: tuple[Policy, ...], replays: int | None, seed: int
) -> tuple[ReplicationSpread, ...]:
    if replays is None:
        return ()
    with repeat_progress(replays) as progress:
        return replay_often(prepared.case, policies, replays=replays, seed=seed, progress=progress)
