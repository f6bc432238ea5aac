"""Every job of the busiest week as a block of nodes by time, with the power and the price of that week under it."""

import numpy as np

from offpeak.model.arrays import Int64
from sim_backend.figures import BusiestWindow
from sim_backend.nodes.power_curve import within
from ui.report.figure import Figure, Json, axis, time_axis
from ui.report.job_blocks import blocks_json, class_keys, shown_jobs
from ui.report.power_figure import HIDDEN_AXIS, price_trace, shading
from ui.report.subject import Policy, Subject
from ui.report.time_steps import power_keys, power_traces, steps_of


def jobs_figure(subject: Subject, window: BusiestWindow) -> Figure:
    """Return the figure of that window."""
    shown = [shown_jobs(subject, policy, window) for policy in subject.policies]
    price, _ = price_trace(subject, window)
    return Figure(
        name="jobs",
        heading="The busiest days, job by job",
        summary=f"Each job as a block, as high as its {subject.unit}s and as wide as its run; power and price below.",
        caption=_caption(subject, window, shown[0]),
        keys=(*class_keys(subject).values(), *power_keys(subject)),
        data=[
            *(trace for policy in subject.policies for trace in _class_traces(subject, policy)),
            *(trace for policy in subject.policies for trace in _power_traces(subject, policy, window)),
            price,
            *shading(subject, window),
        ],
        layout={
            "height": 640,
            "hovermode": False,
            "xaxis": time_axis(range=subject.calendar.axis_range(window.from_s, window.until_s), anchor="y2"),
            "yaxis5": axis(f"{subject.unit}s", domain=[0.44, 1], range=[0, subject.comparison.case.machine.size]),
            "yaxis": axis(f"power [{subject.power_unit}]", domain=[0.21, 0.4], rangemode="tozero"),
            "yaxis2": axis(subject.comparison.case.prices.laid.series.unit, domain=[0, 0.17]),
            "yaxis3": HIDDEN_AXIS | {"overlaying": "y"},
            "yaxis4": HIDDEN_AXIS | {"overlaying": "y2"},
        },
        choices=tuple(policy.name for policy in subject.policies),
        blocks=blocks_json(subject, window, shown),
    )


def _class_traces(subject: Subject, policy: Policy) -> list[Json]:
    """Return two traces for each power class, blocks and thin ones; the page's script gives them their outlines."""
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "fill": "toself",
            "fillcolor": key.colour,
            "line": {"width": 0.6, "color": key.colour if is_thin else "var(--page)"},
            "yaxis": "y5",
            "meta": {"choice": policy.number, "power_class": number, "is_thin": is_thin},
        }
        for number, key in class_keys(subject).items()
        for is_thin in (False, True)
    ]


def _power_traces(subject: Subject, policy: Policy, window: BusiestWindow) -> list[Json]:
    curve = within(policy.curve, window.from_s, window.until_s)
    return power_traces(subject, policy, curve, steps_of(curve.edges_s, curve.total_w))


def _caption(subject: Subject, window: BusiestWindow, shown: Int64) -> str:
    first, calendar = subject.policies[0], subject.calendar
    inside = int(np.count_nonzero(window.holds(first.run.schedule)))
    which = f"{inside:,}" if len(shown) == inside else f"the {len(shown):,} largest of {inside:,}"
    return (
        f"{calendar.minute_text(window.from_s)} to {calendar.minute_text(window.until_s)}: {which} jobs of "
        f"{len(subject.comparison.case.jobs):,} under {first.name}, where this is the busiest stretch. "
        "Times and widths are exact; the place is only drawn: each job on the lowest free block, in pieces "
        "where none is wide enough. Point at a job to see which it is."
    )
