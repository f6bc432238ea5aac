"""The plan as a page: one HTML file that loads nothing, with the figure, the table and what was said."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from html import escape
from pathlib import Path

from offpeak.files import replacing
from plugin.day_plan.day_plan import DayPlan, PlannedJob
from ui.agent.text import LocalClock
from ui.plan.figure import plan_figure
from ui.plan.text import HEADERS, jobs_of, sums
from ui.report.html_text import Cell, bullets, definitions, section, table
from ui.report.page import figure_section, html_page
from ui.watts_text import power_text

TEXTS = 3
"""The first columns of the table are text."""


def write_page(path: Path, plan: DayPlan, zone: tzinfo, troubles: Sequence[str]) -> None:
    """Write the page; CannotWrite where that fails, with no file half-written."""
    content = plan_page(plan, zone, troubles).encode()
    with replacing(path) as file:
        file.write(content)


def plan_page(plan: DayPlan, zone: tzinfo, troubles: Sequence[str] = ()) -> str:
    """Return the page; `troubles` are what was wrong with what the plan is made from."""
    clock = LocalClock(float(plan.at_s), zone)
    sections = [figure_section(plan_figure(plan, zone)), _jobs(plan, clock)]
    said = (*plan.remarks, *plan.violations, *troubles)
    if said:
        sections.append(section("What else is to be known", bullets(said)))
    return html_page("The plan of the queue", _head(plan, clock), sections)


def _head(plan: DayPlan, clock: LocalClock) -> str:
    made = datetime.fromtimestamp(plan.at_s, clock.zone)
    facts = definitions(sums(plan, clock))
    return f"<header>\n<h1>The queue, planned {escape(f'{made:%Y-%m-%d %H:%M}')}</h1>\n{facts}\n</header>"


def _jobs(plan: DayPlan, clock: LocalClock) -> str:
    rows = [_row(job, clock) for job in jobs_of(plan, clock.zone, None)]
    return section("Each job", table("starts as planned now", HEADERS, rows, texts=TEXTS))


def _row(job: PlannedJob, clock: LocalClock) -> list[Cell]:
    ends_s = None if job.start_s is None else job.start_s + job.run_s
    times = [clock.text(at_s) if at_s else "" for at_s in (job.start_s, ends_s, job.latest_start_s)]
    power = power_text(job.power_w)
    words = (job.job_id, job.user, ",".join(job.partitions), str(job.nodes), power, *times, job.why)
    return [Cell(word) for word in words]
