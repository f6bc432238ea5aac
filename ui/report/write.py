"""Write the report of a comparison as a single HTML file."""

from pathlib import Path

from offpeak.files import replacing
from offpeak.model.jobs import Trace
from sim_backend.case.replay_case import PreparedCase
from sim_backend.comparison.compare import Comparison
from sim_backend.comparison.figures import busiest_window
from sim_backend.comparison.replications import ReplicationSpread
from ui.report.figure import Figure
from ui.report.nodes_figure import jobs_figure, most_jobs, nodes_figure
from ui.report.page import beside, figure_section, folded, page
from ui.report.power_figure import power_figure
from ui.report.subject import ReportSubject, subject_of
from ui.report.tables import (
    ReportOrigin,
    foundations_section,
    glossary_section,
    postponed_section,
    savings_section,
    summary_section,
)
from ui.report.trade_figure import cost_figure, hours_figure, trade_figure
from ui.report.wait_figures import cycles_figure, delays_figure, wait_figure, weeks_figure


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


def report_html(subject: ReportSubject, origin: ReportOrigin | None = None) -> str:
    """Return the page."""
    schedules = [policy.run.schedule for policy in subject.policies]
    busiest = busiest_window(subject.policies[0].curve, schedules, most_jobs=most_jobs(subject))
    power, hours, wait, costs = (
        power_figure(subject, busiest),
        hours_figure(subject),
        wait_figure(subject),
        list[Figure](),
    )
    first = [power, hours, wait]
    if subject.can_sleep:
        first = [power, nodes_figure(subject, busiest), hours, trade_figure(subject)]
        costs = [wait, weeks_figure(subject), delays_figure(subject), cycles_figure(subject)]
    return page(
        subject,
        [summary_section(subject), figure_section(cost_figure(subject)), glossary_section(subject)],
        [
            beside(*map(figure_section, first)),
            *([folded("What sleeping costs the jobs and the nodes", *map(figure_section, costs))] if costs else []),
            folded("All figures of the replayed time", savings_section(subject)),
            folded("Which jobs start later", postponed_section(subject)),
            folded("The busiest days, job by job", figure_section(jobs_figure(subject, busiest))),
            folded("Assumptions, words, and how to make this again", foundations_section(subject, origin)),
        ],
    )
