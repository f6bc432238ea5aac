"""Names of points beside a figure, one below the other, each with a line to its point: they stay apart in a crowd."""

import numpy as np

from offpeak.model.arrays import Float64
from ui.report.figure import Json, name_text, packed

CHARACTER_PX = 7.4
ROW_PX = 16
"""Room for a line of the figures' font; in print both are smaller."""


def label_heights(y: Float64, *, low: float, high: float, gap: float) -> Float64:
    """Return where labels of points at `y` lie: near them, within low..high, in their order and `gap` apart.

    Where they are too many for that, they share the room evenly.
    """
    gap = min(gap, (high - low) / max(len(y) - 1, 1))
    order = np.argsort(y, kind="stable")
    offset = gap * np.arange(len(y))
    # Without the gaps the labels may touch: pushed up by those below them, then held below the top.
    pushed = np.maximum.accumulate(np.maximum(y[order] - offset, low))
    heights = np.empty(len(y))
    heights[order] = np.minimum(pushed, high - offset[-1:]) + offset
    return heights


def label_margin_px(names: list[str]) -> int:
    """Return how wide the right margin has to be."""
    return 16 + round(CHARACTER_PX * max(map(len, names)))


def labels(names: list[str], heights: Float64) -> list[Json]:
    """Return the names as plotly's annotations at the right edge, at those heights of the vertical axis."""
    look = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "showarrow": False}
    return [look | {"y": y, "text": name_text(name)} for name, y in zip(names, heights.tolist(), strict=True)]


def leaders(x: Float64, y: Float64, right: float, heights: Float64) -> Json:
    """Return the lines from the points to their labels at the right edge."""
    gap = np.full(len(x), np.nan)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(np.stack([x, np.full(len(x), right), gap], axis=1).ravel()),
        "y": packed(np.stack([y, heights, gap], axis=1).ravel()),
        "line": {"color": "var(--rule)", "width": 1},
        "hoverinfo": "skip",
    }
