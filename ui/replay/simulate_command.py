"""`offpeak simulate`: replay a site's own log under several policies and say what each would have cost."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.settings.file import settings_path
from offpeak.text import did_you_mean
from ui.options import CONFIG, FEWEST_REPLAYS, chosen_settings, settings_options

KINDS = ("class", "user", "day")


@settings_options(
    "prices.file",
    "prices.layout",
    "prices.tariff",
    "prices.peak_rule",
    "prices.fill_gaps",
    "carbon.source",
    "plan.facility",
    "plan.outside_c",
    "scheduling.policies",
    "scheduling.window",
    "scheduling.period",
    "scheduling.max_postponement",
    "scheduling.estimates",
    "scheduling.kill_at_estimate",
    "scheduling.passes",
    "capacity.policies",
    "capacity.sla",
    "power.node_class",
    "capacity.depths",
    "capacity.keep_hot",
    "capacity.wake_ahead",
    "capacity.min_awake",
    "capacity.min_asleep",
    "capacity.cycles_per_day",
    "capacity.order",
    "capacity.sleeps_per_min",
    "capacity.wakes_per_min",
    "capacity.sleep_ramp",
    "capacity.wake_ramp",
    "capacity.cycle_cost",
    "machine.nodes",
    "machine.processors_per_node",
    "power.job",
    "power.idle",
    "power.seed",
    "log.time_zone",
    "log.anonymise",
)
def simulate(
    *,
    trace: Annotated[
        str,
        typer.Argument(
            help="Job log: SWF, GWF, `sacct -P` output, jobcomp log, PBS accounting file or folder; plain or .gz;"
            " - reads stdin."
        ),
    ],
    options: dict[str, object],
    replays: Annotated[
        int | None,
        typer.Option(min=FEWEST_REPLAYS, help="Replay each policy so often with shifted submit times: is it chance?"),
    ] = None,
    start: Annotated[str | None, typer.Option(help="Date of the prices on which the log is laid: 2023-01-09.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    by: Annotated[str | None, typer.Option(help="Break each policy's cost down: class, user, day, or several.")] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Write job_id,start_s,end_s in trace seconds, one file a policy.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report with figures: one HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Replay a job log under several policies and say what each would have cost."""
    settings_file = settings_path(config, os.environ)
    settings = chosen_settings(settings_file, options=options)
    # What answers loads numba and pyarrow, which `offpeak --version` must not wait for.
    from ui.replay.simulate_answer import answer

    answer(trace, settings, Request(start, lenient, replays, _kinds(by), schedule, report, as_json, settings_file))


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    start: str | None
    lenient: bool
    replays: int | None
    kinds: tuple[str, ...]
    schedule: Path | None
    report: Path | None
    as_json: bool
    settings_file: Path | None


def _kinds(by: str | None) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in by.split(",")) if by else ()
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"--by: unknown group {kind!r}", hint=did_you_mean(kind, KINDS))
    return kinds
