"""Write the report of a comparison as a single HTML file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from offpeak.files import replacing
from offpeak.model.jobs import Trace
from offpeak.sim_backend.case.replay_case import PreparedCase
from offpeak.sim_backend.comparison.compare import Comparison
from offpeak.sim_backend.comparison.figures import BusiestWindow, busiest_window
from offpeak.sim_backend.comparison.replications import ReplicationSpread
from offpeak.ui.report.figure import Figure
from offpeak.ui.report.nodes_figure import jobs_figure, most_jobs, nodes_figure
from offpeak.ui.report.page import beside, figure_section, folded, page
from offpeak.ui.report.power_figure import power_figure
from offpeak.ui.report.subject import ReportSubject, subject_of, with_demand_charges
from offpeak.ui.report.tables import (
    ReportOrigin,
    foundations_section,
    glossary_section,
    postponed_section,
    savings_section,
    summary_section,
)
from offpeak.ui.report.trade_figure import cost_figure, hours_figure, trade_figure
from offpeak.ui.report.wait_figures import cycles_figure, delays_figure, wait_figure, weeks_figure


def write_report(
    path: Path,
    trace: Trace,
    prepared: PreparedCase,
    comparison: Comparison,
    spreads: tuple[ReplicationSpread, ...] = (),
    *,
    origin: ReportOrigin | None = None,
) -> None:
    """Write the report; raise CannotWrite on failure, without a partial file.

    `spreads` are those of the policies in order, or empty; `origin` is the command that produces the report.
    """
    content = report_html(subject_of(trace, prepared, comparison, spreads), origin).encode()
    with replacing(path) as file:
        file.write(content)


def figures_of(subject: ReportSubject) -> dict[str, Callable[[], Figure]]:
    """Return by its name what makes each figure of the report, except that of single jobs."""
    makers: dict[str, Callable[[ReportSubject], Figure]] = {
        "cost": cost_figure,
        "power": lambda drawn: power_figure(drawn, _busiest(drawn)),
        "hours": hours_figure,
        "wait": wait_figure,
    }
    if subject.can_sleep:
        makers |= {
            "nodes": lambda drawn: nodes_figure(drawn, _busiest(drawn)),
            "trade": trade_figure,
            "weeks": weeks_figure,
            "delays": delays_figure,
            "cycles": cycles_figure,
        }
    return {name: partial(make, subject) for name, make in makers.items()}


def _busiest(subject: ReportSubject) -> BusiestWindow:
    schedules = [policy.run.schedule for policy in subject.policies]
    return busiest_window(subject.policies[0].curve, schedules, most_jobs=most_jobs(subject))


def report_html(subject: ReportSubject, origin: ReportOrigin | None = None) -> str:
    """Return the page."""
    figures, sleeps, billed = figures_of(subject), subject.can_sleep, with_demand_charges(subject)
    first = ("power", "nodes", "hours", "trade") if sleeps else ("power", "hours", "wait")
    costs = [figure_section(figures[name]()) for name in ("wait", "weeks", "delays", "cycles") if sleeps]
    return page(
        billed,
        [summary_section(billed), figure_section(figures["cost"]()), glossary_section(subject)],
        [
            beside(*(figure_section(figures[name]()) for name in first)),
            *([folded("What sleeping costs the jobs and the nodes", *costs)] if costs else []),
            folded("All figures of the replayed time", savings_section(subject)),
            folded("Which jobs start later", postponed_section(subject)),
            folded("The busiest days, job by job", figure_section(jobs_figure(subject, _busiest(subject)))),
            folded("Assumptions, definitions, and how to reproduce this report", foundations_section(subject, origin)),
        ],
    )
