"""Charts of a printed page, drawn by HTML and CSS alone: columns over time, and bars with their ranges.

They need no script, are as wide as the screen, and print in colour. A screen reader gets the caption and the values of
each column or bar.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from offpeak.ui.report.figure import Key
from offpeak.ui.report.page import legend, section

TICKS = 4
MOST_NAMES = 8
"""More names of columns would overlap on a phone."""


@dataclass(frozen=True)
class ChartColumn:
    """A day, a week or a month: its name, its value, and the value that is drawn as a line across it (None: none)."""

    name: str
    value: float
    line: float | None
    text: str


@dataclass(frozen=True)
class ChartBar:
    """A bar: its name in words, its value with the text for it, the ends of its range, and what is noted below it."""

    name: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    note: str = ""
    is_strong: bool = False


def columns_section(heading: str, columns: Sequence[ChartColumn], keys: tuple[Key, ...], caption: str) -> str:
    """Return a chart of columns: `keys` are those of the values and of the lines."""
    ends = np.array([[each.value, each.value if each.line is None else each.line] for each in columns])
    step = tick_step(float(max(ends.max(), 0.0) - min(ends.min(), 0.0)))
    low, high = float(np.floor(min(ends.min(), 0.0) / step) * step), float(np.ceil(max(ends.max(), 0.0) / step) * step)
    span = (high - low) or 1.0
    ticks = "".join(
        f'<i class="tick" style="bottom:{100 * (value - low) / span:.2f}%"><b>{value:,.10g}</b></i>'
        for value in np.arange(low, high + step / 2, step).tolist()
    )
    every = max(1, -(-len(columns) // MOST_NAMES))
    drawn = "".join(_column(each, low, span, "" if at % every else each.name) for at, each in enumerate(columns))
    return section(
        heading,
        f'<figure class="bars">{legend(keys)}<div class="columns" role="list" aria-label="{escape(caption)}">{ticks}'
        f"{drawn}</div><figcaption>{escape(caption)}</figcaption></figure>",
    )


def _column(column: ChartColumn, low: float, span: float, name: str) -> str:
    bottom, height = 100 * (min(column.value, 0.0) - low) / span, 100 * abs(column.value) / span
    line = "" if column.line is None else f'<i class="line" style="bottom:{100 * (column.line - low) / span:.2f}%"></i>'
    bar = f'<i class="bar" style="bottom:{bottom:.2f}%;height:{height:.2f}%"></i>'
    text = escape(column.text, quote=True)
    return f'<div role="listitem" title="{text}" aria-label="{text}">{bar}{line}<span>{escape(name)}</span></div>'


def bars_section(heading: str, bars: Sequence[ChartBar], caption: str) -> str:
    """Return a chart of bars, the first one on top, with a whisker for each range."""
    ends = [end for bar in bars for end in (0.0, bar.value, bar.low, bar.high) if end is not None]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0
    drawn = "".join(_bar(bar, low, span) for bar in bars)
    return section(
        heading,
        f'<figure class="bars"><ul class="rows">{drawn}</ul><figcaption>{escape(caption)}</figcaption></figure>',
    )


def _bar(bar: ChartBar, low: float, span: float) -> str:
    def at(value: float) -> float:
        return 100 * (value - low) / span

    left, width = at(min(bar.value, 0.0)), 100 * abs(bar.value) / span
    strong = " strong" if bar.is_strong else ""
    parts = [f'<i class="bar{strong}" style="left:{left:.2f}%;width:{width:.2f}%"></i>']
    if bar.low is not None and bar.high is not None:
        whisker = f"left:{at(bar.low):.2f}%;width:{100 * (bar.high - bar.low) / span:.2f}%"
        parts.append(f'<i class="range" style="{whisker}"></i>')
    note = f"<small>{escape(bar.note)}</small>" if bar.note else ""
    name = f"<b>{escape(bar.name)}</b>" if bar.is_strong else escape(bar.name)
    return (
        f'<li><span>{name}{note}</span><span class="track">{"".join(parts)}</span><span>{escape(bar.text)}</span></li>'
    )


def tick_step(span: float) -> float:
    """Return a round step, 1, 2 or 5 times a power of ten, that divides the span into a few parts."""
    raw_step = max(span, 1e-6) / TICKS
    power = 10.0 ** np.floor(np.log10(raw_step))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw_step))
