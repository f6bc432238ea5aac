"""`offpeak plan`: a start time for each pending job, the cost, and the reasons."""

from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.text import did_you_mean
from offpeak.ui.options import JSON, CommandSettings, settings_options

DAYS = ("today", "tomorrow")


@settings_options(
    *("agent.scheduler", "agent.mode", "scheduling.window", "prices.file", "prices.tariff", "plan.devices"),
    *("plan.facility", "plan.outside_c", "plan.revenue_per_core_h", "plan.revenues", "plan.events"),
    *("plan.openadr",),
)
def plan(
    chosen: CommandSettings,
    day: Annotated[
        str | None,
        typer.Option(help="Starts of today or tomorrow only. [default: all that is planned]", show_default=False),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report with figures: one HTML file.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry it out once: the order of the queue, and begin times.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Plan the start of each pending job by price; --apply does it. Cooling and power caps count, too."""
    if day is not None and day not in DAYS:
        raise BadInput(f"--day {day}: is neither today nor tomorrow", hint=did_you_mean(day, DAYS))
    if "agent.mode" in chosen.given and not apply:
        raise BadInput("--mode has no effect: a plan that is only shown changes no job", hint="add --apply")
    from offpeak.ui.plan.plan import PlanRequest, answer

    answer(chosen.read(), PlanRequest(day, report, apply, as_json, is_as_set=not chosen.given))
