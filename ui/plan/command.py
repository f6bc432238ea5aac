"""`offpeak plan`: a start time for each pending job, the cost, and the reasons."""

import os
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.settings.file import settings_path
from offpeak.text import did_you_mean
from ui.options import CONFIG, chosen_settings, option
from ui.requests import PlanRequest

DAYS = ("today", "tomorrow")


def plan(
    day: Annotated[
        str | None,
        typer.Option(help="Starts of today or tomorrow only. [default: all that is planned]", show_default=False),
    ] = None,
    scheduler: Annotated[str | None, option("agent.scheduler")] = None,
    mode: Annotated[str | None, option("agent.mode")] = None,
    window: Annotated[int | None, option("scheduling.window")] = None,
    file: Annotated[str | None, option("prices.file")] = None,
    tariff: Annotated[str | None, option("prices.tariff")] = None,
    facility: Annotated[str | None, option("plan.facility")] = None,
    outside: Annotated[float | None, option("plan.outside_c")] = None,
    revenue: Annotated[float | None, option("plan.revenue_per_core_h")] = None,
    revenues: Annotated[str | None, option("plan.revenues")] = None,
    events: Annotated[str | None, option("plan.events")] = None,
    openadr: Annotated[str | None, option("plan.openadr")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report with figures: one HTML file.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry it out once: the order of the queue, and begin times.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Plan the start of each pending job by price, cooling and power caps; --apply carries the plan out."""
    if day is not None and day not in DAYS:
        raise BadInput(f"--day {day}: is neither today nor tomorrow", hint=did_you_mean(day, DAYS))
    options = {
        "agent.scheduler": scheduler,
        "agent.mode": mode,
        "scheduling.window": window,
        "prices.file": file,
        "prices.tariff": tariff,
        "plan.facility": facility,
        "plan.outside_c": outside,
        "plan.revenue_per_core_h": revenue,
        "plan.revenues": revenues,
        "plan.events": events,
        "plan.openadr": openadr,
    }
    settings = chosen_settings(settings_path(config, os.environ), options=options)
    is_as_set = all(value is None for value in options.values())
    # The planner loads numba, which `offpeak --version` must not wait for.
    from ui.plan.answer import answer

    answer(settings, PlanRequest(day, report, apply, as_json, is_as_set))
