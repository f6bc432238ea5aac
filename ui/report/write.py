"""Write the report of a comparison as a single HTML file."""

from pathlib import Path

from offpeak.files import check_writable, replacing
from offpeak.model.jobs import Trace
from sim_backend.case.replay_case import PreparedCase
from sim_backend.comparison.compare import Comparison
from sim_backend.comparison.figures import busiest_window
from sim_backend.comparison.replications import ReplicationSpread
from ui.report.nodes_figure import jobs_figure, most_jobs, nodes_figure
from ui.report.page import figure_section, page
from ui.report.power_figure import power_figure
from ui.report.subject import ReportSubject, subject_of
from ui.report.tables import ReportOrigin, foundations_section, postponed_section, savings_section
from ui.report.trade_figure import cost_figure, hours_figure, trade_figure
from ui.report.wait_figures import cycles_figure, delays_figure, wait_figure, weeks_figure


def check_report_path(path: Path) -> None:
    """Raise BadInput if a report cannot be written there; called before a long replay."""
    check_writable(path, example="report.html")


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
    return page(
        subject,
        [
            savings_section(subject),
            *([figure_section(trade_figure(subject))] if subject.can_sleep else []),
            figure_section(power_figure(subject, busiest)),
            *([figure_section(nodes_figure(subject, busiest))] if subject.can_sleep else []),
            figure_section(hours_figure(subject)),
            figure_section(cost_figure(subject)),
            figure_section(wait_figure(subject)),
            *(_what_sleeping_costs(subject) if subject.can_sleep else ()),
            postponed_section(subject),
            figure_section(jobs_figure(subject, busiest)),
            foundations_section(subject, origin),
        ],
    )


def _what_sleeping_costs(subject: ReportSubject) -> tuple[str, ...]:
    """Return the figures of delays and wear by sleeping nodes."""
    figures = (weeks_figure(subject), delays_figure(subject), cycles_figure(subject))
    return tuple(figure_section(figure) for figure in figures)
