"""Every job of the busiest week as a block of nodes by time, with the power and the price of that week under it.

The blocks show which jobs run, on which units, and their details.
"""

import numpy as np

from offpeak.display import watts_text
from offpeak.model.arrays import Int64
from offpeak.model.job_power import POWER_CLASSES, power_class
from offpeak.text import counted
from sim_backend.comparison.figures import BusiestWindow, placed
from sim_backend.nodes.power_curve import within
from ui.report.figure import Figure, Json, Key, axis, packed, time_axis
from ui.report.power_figure import HIDDEN_AXIS, power_keys, power_traces, price_trace, shading, steps_of
from ui.report.subject import ReportPolicy, ReportSubject

MOST_JOBS = 3_000
"""More rectangles than these and their pieces make a browser slow."""

ALL_JOBS = 12_000
"""More than these of all policies together make a large file."""

VISIBLE_ROWS = 150
"""The number of rows of the machine: an outline in the page's colour would hide a lower block."""


def most_jobs(subject: ReportSubject) -> int:
    """Return how many jobs are drawn of a policy. Where nodes sleep, policies are many."""
    return min(MOST_JOBS, ALL_JOBS // len(subject.policies)) if subject.can_sleep else MOST_JOBS


def shown_jobs(subject: ReportSubject, policy: ReportPolicy, window: BusiestWindow) -> Int64:
    """Return the jobs that run in the window, the largest there if they are too many."""
    schedule = policy.run.schedule
    inside = np.flatnonzero(window.holds(schedule))
    runs_s = np.minimum(schedule.end_s, window.until_s) - np.maximum(schedule.start_s, window.from_s)
    node_s = subject.comparison.case.jobs.size * runs_s
    largest: Int64 = np.sort(inside[np.argsort(-node_s[inside], kind="stable")[: most_jobs(subject)]])
    return largest


def blocks_json(subject: ReportSubject, window: BusiestWindow, shown: list[Int64]) -> Json:
    """Return what the page's script draws: texts, power classes, and rectangles of each policy's `shown` jobs."""
    jobs = np.unique(np.concatenate(shown))
    return {
        "from_ms": subject.calendar.axis_range(window.from_s, window.until_s)[0],
        "thin_below": subject.comparison.case.machine.size / VISIBLE_ROWS,
        "text": [_job_text(subject, job) for job in jobs.tolist()],
        "power_class": packed(power_class(subject.comparison.case.node_power_w)[jobs], "i1"),
        "policies": [
            _rectangles(subject, policy, window, of_policy, np.searchsorted(jobs, of_policy))
            for policy, of_policy in zip(subject.policies, shown, strict=True)
        ],
    }


def _rectangles(
    subject: ReportSubject, policy: ReportPolicy, window: BusiestWindow, shown: Int64, number: Int64
) -> Json:
    """Return rectangles: seconds from the window's begin, units, and the number of the job among the texts."""
    case, schedule = subject.comparison.case, policy.run.schedule
    start_s, end_s = schedule.start_s[shown], schedule.end_s[shown]
    blocks = placed(case.jobs.size[shown], start_s, end_s, machine_size=case.machine.size)
    columns = {
        "job": number[blocks.job],
        "start_s": np.maximum(start_s[blocks.job], window.from_s) - window.from_s,
        "end_s": np.minimum(end_s[blocks.job], window.until_s) - window.from_s,
        "low": blocks.low,
        "high": blocks.high,
    }
    return {name: packed(column, "i4") for name, column in columns.items()}


def class_keys(subject: ReportSubject) -> dict[int, Key]:
    """Return the legend's entry of each power class that jobs of the log belong to."""
    power_w = subject.comparison.case.node_power_w
    classes = power_class(power_w)
    keys = {}
    for number in np.unique(classes).tolist():
        low, high = (f"{watts:.0f}" for watts in (power_w[classes == number].min(), power_w[classes == number].max()))
        draw = f"{low} W" if low == high else f"{POWER_CLASSES[number]}: {low} to {high} W"
        keys[number] = Key(f"{draw} per {subject.unit}", f"var(--class-{number})", is_area=True)
    return keys


def _job_text(subject: ReportSubject, job: int) -> str:
    case, names = subject.comparison.case, subject.trace.names
    jobs = case.jobs
    who = f"job {names.job_text(int(jobs.job_id[job]))}, user {names.user_text(int(jobs.user[job]))}"
    return f"{who}, {counted(int(jobs.size[job]), subject.unit)}, {watts_text(case.node_power_w[job])} each"


def jobs_figure(subject: ReportSubject, window: BusiestWindow) -> Figure:
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


def _class_traces(subject: ReportSubject, policy: ReportPolicy) -> list[Json]:
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


def _power_traces(subject: ReportSubject, policy: ReportPolicy, window: BusiestWindow) -> list[Json]:
    curve = within(policy.curve, window.from_s, window.until_s)
    return power_traces(subject, policy, curve, steps_of(curve.edges_s, curve.total_w))


def _caption(subject: ReportSubject, window: BusiestWindow, shown: Int64) -> str:
    first, calendar = subject.policies[0], subject.calendar
    inside = int(np.count_nonzero(window.holds(first.run.schedule)))
    which = f"{inside:,}" if len(shown) == inside else f"the {len(shown):,} largest of {inside:,}"
    return (
        f"{calendar.minute_text(window.from_s)} to {calendar.minute_text(window.until_s)}: {which} jobs of "
        f"{len(subject.comparison.case.jobs):,} under {first.name}, where this is the busiest stretch. "
        "Times and widths are exact; the place is only drawn: each job on the lowest free block, in pieces "
        "where none is wide enough. Point at a job to see which it is."
    )
