"""How many nodes run jobs, idle, sleep or are on their way between the two, over time, one policy at a time."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_states import DEPTHS
from offpeak.model.step_series import integral_between
from sim_backend.comparison.figures import (
    CHANGING,
    FIRST_DEPTH,
    HUNG,
    IDLE,
    RUNNING,
    BusiestWindow,
    NodeBands,
    extreme_pieces,
    node_bands,
)
from ui.report.figure import Figure, Json, Key, axis, line, packed, time_axis
from ui.report.power_figure import (
    IDLE_KEY,
    RUNNING_KEY,
    first_shown,
    most_steps,
    share_of_stretches,
    stretches_of,
    stretches_text,
)
from ui.report.subject import ReportPolicy, ReportSubject

BAND_KEYS = {
    RUNNING: RUNNING_KEY,
    IDLE: Key("idle", IDLE_KEY.colour, is_area=True),
    CHANGING: Key("falling asleep or waking", "var(--changing)", is_area=True),
    HUNG: Key("failed", "var(--failed)", is_area=True),
} | {
    FIRST_DEPTH + depth: Key(f"asleep: {name}", f"var(--asleep-{depth})", is_area=True)
    for depth, name in enumerate(DEPTHS)
}
"""The bands from the lowest to the highest."""

AWAKE_KEY = Key("fewest and most that do not sleep", "var(--text)")
BAND_STRETCHES = 12_000
MOST_BAND_STRETCHES = 1_400
"""Areas and lines of more than a screen has columns would only cover each other."""


@dataclass(frozen=True)
class _Drawn:
    """What is drawn of a policy: the mean of allocation units in each of `bands`, from one of `at_s` to the next.

    `awake` are the fewest and the most units there that do not sleep. `stretches_s` is empty where all is exact.
    """

    at_s: Int64
    bands: tuple[int, ...]
    mean: Float64
    awake: Float64
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
        summary="How many nodes run jobs, idle, sleep and are on their way, under one policy at a time.",
        caption=_caption(subject, stretches_s),
        keys=(*keys, AWAKE_KEY) if stretches_s else keys,
        data=[
            trace
            for policy, each in zip(subject.policies, drawn, strict=True)
            for trace in _traces(subject, policy, each)
        ],
        layout={
            "height": 400,
            "xaxis": time_axis(range=views["four busy weeks"]["xaxis.range"]),
            "yaxis": axis(f"{subject.unit}s", range=[0, subject.comparison.case.machine.size]),
        },
        choices=tuple(policy.name for policy in subject.policies),
        views=views if first != whole else None,
    )


def _drawn(subject: ReportSubject, policy: ReportPolicy, detail: BusiestWindow) -> _Drawn:
    assert policy.counts is not None
    bands = node_bands(policy.curve, policy.counts, units_per_node=subject.nodes.units_per_node)
    seen = tuple(np.flatnonzero(bands.units.any(axis=1)).tolist())
    most = min(share_of_stretches(subject, BAND_STRETCHES), MOST_BAND_STRETCHES)
    if bands.units.shape[1] <= most_steps(most):
        return _Drawn(bands.edges_s, seen, bands.units[list(seen)].astype(np.float64), np.empty((2, 0)), ())
    bins_s, stretches_s = stretches_of(bands.edges_s, detail, most_stretches=most)
    return _Drawn(bins_s, seen, _means(bands, seen, bins_s), _awake(bands, bins_s), stretches_s)


def _means(bands: NodeBands, seen: tuple[int, ...], bins_s: Int64) -> Float64:
    sums = [integral_between(bands.edges_s, bands.units[band].astype(np.float64), bins_s) for band in seen]
    return np.stack(sums) / np.diff(bins_s)


def _awake(bands: NodeBands, bins_s: Int64) -> Float64:
    """Return the fewest and the most units that do not sleep in each stretch: float64[2, stretches]."""
    awake = bands.units[:FIRST_DEPTH].sum(axis=0).astype(np.float64)
    return np.sort(awake[extreme_pieces(bands.edges_s, awake, bins_s)], axis=1).T


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
            "y": _held(mean),
            "stackgroup": f"policy {policy.number}",
            "fillcolor": BAND_KEYS[band].colour,
            "line": {"shape": "hv", "width": 0},
        }
        for band, mean in zip(drawn.bands, drawn.mean, strict=True)
    ]
    ends: list[Json] = [
        {
            "name": f"{which} not asleep",
            "y": _held(awake),
            "line": line(AWAKE_KEY) | {"shape": "hv", "width": 0.8},
            "opacity": 0.5,
        }
        for which, awake in zip(("fewest", "most"), drawn.awake, strict=True)
        if drawn.stretches_s
    ]
    return [common | own for own in (*areas, *ends)]


def _held(value: Float64) -> Json:
    """Return the values with the last held to the end."""
    return packed(np.append(value, value[-1:]))


def _caption(subject: ReportSubject, stretches_s: tuple[int, ...]) -> str:
    per_node = subject.nodes.units_per_node
    drawn = f"Areas are means of each {stretches_text(stretches_s)}" if stretches_s else "The areas are exact"
    counted = "" if per_node == 1 else f" Processors are counted: a node that sleeps counts as {per_node}."
    return (
        f"{drawn}.{counted} A node that is falling asleep or waking can run nothing, but draws power. "
        f"The clock is {subject.calendar.clock_text} throughout."
    )
