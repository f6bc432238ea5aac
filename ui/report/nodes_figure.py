"""How many nodes run jobs, idle, sleep or are on their way between the two, over time, one policy at a time; and the
jobs of the busiest days as rectangles.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.display import watts_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.job_power import POWER_CLASSES, power_class
from offpeak.model.node_states import DEPTHS
from offpeak.model.step_series import integral_between
from offpeak.sim_backend.comparison.figures import (
    CHANGING,
    FIRST_DEPTH,
    HUNG,
    IDLE,
    RUNNING,
    BusiestWindow,
    node_bands,
    placed,
)
from offpeak.sim_backend.nodes.power_curve import within
from offpeak.text import counted
from offpeak.ui.report.figure import Figure, Json, Key, axis, packed, time_axis
from offpeak.ui.report.power_figure import (
    IDLE_KEY,
    RUNNING_KEY,
    SHADED_AXIS,
    first_shown,
    most_steps,
    over_shading,
    power_keys,
    power_traces,
    price_trace,
    shading,
    share_of_stretches,
    steps_of,
    stretches_of,
    stretches_text,
)
from offpeak.ui.report.subject import ReportPolicy, ReportSubject

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
    power: list[Json] = []
    for policy in subject.policies:
        curve = within(policy.curve, window.from_s, window.until_s)
        power += power_traces(subject, policy, curve, steps_of(curve.edges_s, curve.total_w))
    return Figure(
        name="jobs",
        heading="The busiest days, job by job",
        summary=f"Each job as a block, as high as its {subject.unit}s and as wide as its run; power and price below.",
        caption=_jobs_caption(subject, window, shown[0]),
        keys=(*class_keys(subject).values(), *power_keys(subject)),
        data=[
            *(trace for policy in subject.policies for trace in _class_traces(subject, policy)),
            *power,
            price,
            *shading(subject, window),
        ],
        layout={
            "height": 640,
            "hovermode": False,
            "xaxis": time_axis(range=subject.calendar.axis_range(window.from_s, window.until_s), anchor="y2"),
            "yaxis5": axis(f"{subject.unit}s", domain=[0.44, 1], range=[0, subject.comparison.case.machine.size]),
            "yaxis": over_shading(3, f"power [{subject.power_unit}]", rangemode="tozero"),
            "yaxis2": over_shading(4, subject.comparison.case.prices.aligned.series.unit),
            "yaxis3": SHADED_AXIS | {"domain": [0.21, 0.4]},
            "yaxis4": SHADED_AXIS | {"domain": [0, 0.17]},
        },
        choices=tuple(policy.name for policy in subject.policies),
        shown=subject.cheapest,
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
            "line": {"width": 0.6, "color": key.colour if is_thin else "var(--card)"},
            "yaxis": "y5",
            "meta": {"choice": policy.number, "power_class": number, "is_thin": is_thin},
        }
        for number, key in class_keys(subject).items()
        for is_thin in (False, True)
    ]


def _jobs_caption(subject: ReportSubject, window: BusiestWindow, shown: Int64) -> str:
    first, calendar = subject.policies[0], subject.calendar
    inside = int(np.count_nonzero(window.holds(first.run.schedule)))
    which = f"{inside:,}" if len(shown) == inside else f"the {len(shown):,} largest of {inside:,}"
    return (
        f"{calendar.minute_text(window.from_s)} to {calendar.minute_text(window.until_s)}: {which} jobs of "
        f"{len(subject.comparison.case.jobs):,} under {first.name}, where this is the busiest stretch. "
        "Times and widths are exact; the place is only drawn: each job on the lowest free block, in pieces "
        "where none is wide enough. Point at a job to see which it is."
    )


BAND_KEYS = {
    RUNNING: RUNNING_KEY,
    IDLE: Key("idle", IDLE_KEY.colour, is_area=True),
    CHANGING: Key("falling asleep or waking", "var(--booting)", is_area=True),
    HUNG: Key("failed", "var(--unknown)", is_area=True),
} | {FIRST_DEPTH + depth: Key(f"asleep: {name}", f"var(--{name})", is_area=True) for depth, name in enumerate(DEPTHS)}
"""The bands from the lowest to the highest."""

BAND_STRETCHES = 12_000
MOST_BAND_STRETCHES = 1_400
"""Areas and lines of more than a screen has columns would only cover each other."""


@dataclass(frozen=True)
class _Drawn:
    """What is drawn of a policy: the mean of allocation units in each of `bands`, from one of `at_s` to the next.

    `stretches_s` is empty where all is exact.
    """

    at_s: Int64
    bands: tuple[int, ...]
    mean: Float64
    stretches_s: tuple[int, ...]


def nodes_figure(subject: ReportSubject, busiest: BusiestWindow) -> Figure:
    """Return the figure; of a long log it shows the four weeks around the busiest at first."""
    whole = BusiestWindow(subject.comparison.begin_s, subject.comparison.until_s)
    first = first_shown(busiest, whole)
    drawn = [_drawn(subject, policy, first) for policy in subject.policies]
    seen = {band for each in drawn for band in each.bands}
    times = {"four busy weeks": first, "whole period": whole}
    views = {name: {"xaxis.range": subject.calendar.axis_range(w.from_s, w.until_s)} for name, w in times.items()}
    stretches_s = max((each.stretches_s for each in drawn), key=len)
    keys = tuple(key for band, key in BAND_KEYS.items() if band in seen)
    return Figure(
        name="nodes",
        heading="Nodes over time",
        summary="How many nodes run jobs, idle, sleep or change state, under one policy at a time.",
        caption=_caption(subject, stretches_s),
        keys=keys,
        data=[
            trace
            for policy, each in zip(subject.policies, drawn, strict=True)
            for trace in _traces(subject, policy, each)
        ],
        layout={
            "height": 270,
            "xaxis": time_axis(range=views["four busy weeks"]["xaxis.range"]),
            "yaxis": axis(f"{subject.unit}s", range=[0, subject.comparison.case.machine.size]),
        },
        choices=tuple(policy.name for policy in subject.policies),
        shown=subject.cheapest,
        views=views if first != whole else None,
    )


def _drawn(subject: ReportSubject, policy: ReportPolicy, detail: BusiestWindow) -> _Drawn:
    assert policy.counts is not None
    bands = node_bands(policy.curve, policy.counts, units_per_node=subject.nodes.units_per_node)
    seen = tuple(np.flatnonzero(bands.units.any(axis=1)).tolist())
    most = min(share_of_stretches(subject, BAND_STRETCHES), MOST_BAND_STRETCHES)
    if bands.units.shape[1] <= most_steps(most):
        return _Drawn(bands.edges_s, seen, bands.units[list(seen)].astype(np.float64), ())
    bins_s, stretches_s = stretches_of(bands.edges_s, detail, most_stretches=most)
    sums = [integral_between(bands.edges_s, bands.units[band].astype(np.float64), bins_s) for band in seen]
    return _Drawn(bins_s, seen, np.stack(sums) / np.diff(bins_s), stretches_s)


def _traces(subject: ReportSubject, policy: ReportPolicy, drawn: _Drawn) -> list[Json]:
    common: Json = {
        "type": "scatter",
        "mode": "lines",
        "x": packed(subject.calendar.axis_ms(drawn.at_s), "f8"),
        "hovertemplate": "%{y:,.1~f}",
        "meta": {"choice": policy.number},
    }
    areas: list[Json] = [
        {
            "name": BAND_KEYS[band].name,
            "y": packed(np.append(mean, mean[-1:])),
            "stackgroup": f"policy {policy.number}",
            "fillcolor": BAND_KEYS[band].colour,
            "line": {"shape": "hv", "width": 0},
        }
        for band, mean in zip(drawn.bands, drawn.mean, strict=True)
    ]
    return [common | own for own in areas]


def _caption(subject: ReportSubject, stretches_s: tuple[int, ...]) -> str:
    per_node = subject.nodes.units_per_node
    drawn = f"Areas are means of each {stretches_text(stretches_s)}" if stretches_s else "The areas are exact"
    counted = "" if per_node == 1 else f" Processors are counted: a node that sleeps counts as {per_node}."
    return (
        f"{drawn}.{counted} A node that is falling asleep or waking can run nothing, but draws power. "
        f"The clock is {subject.calendar.clock_text} throughout."
    )
