"""Figures for plotly, written as JSON without plotly's own classes, whose import takes seconds.

A colour "var(--name)" is looked up in the page's style sheet when the figure is drawn, so it follows the page.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a line with its dashes [px] ("" for a solid one), or an area."""

    name: str
    colour: str
    dash: str = ""
    is_area: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure: a name without spaces, a heading, an alternative text, and a caption.

    `keys` are its legend, `data` and `layout` are plotly's. A trace with `meta` is drawn while the choice of that
    number is made; `choices` are the names to choose from, of what `choice_of` says, and `choice_layouts` what each
    changes of the layout; number `shown` is drawn first. `views` are changes of the layout by name, for buttons.
    `blocks` are those of job_blocks.
    """

    name: str
    heading: str
    summary: str
    caption: str
    keys: tuple[Key, ...]
    data: list[Json]
    layout: Json
    choices: tuple[str, ...] = ()
    shown: int = 0
    choice_of: str = "policy"
    choice_layouts: tuple[Json, ...] = ()
    views: Mapping[str, Json] | None = None
    blocks: Json | None = None

    def json(self) -> str:
        """Return the data for the page's script, escaped for a script element."""
        arrays: list[Json] = []
        parts = {"data": self.data, "layout": layout(self.layout), "blocks": self.blocks}
        drawn = _sharing(parts | {"choice_layouts": list(self.choice_layouts)}, arrays, {})
        return json.dumps(drawn | {"arrays": arrays}, separators=(",", ":")).replace("<", "\\u003c")


def _sharing(value: Any, arrays: list[Json], known: dict[str, int]) -> Any:
    """Return the value with {"array": i} for each packed array, which is once in `arrays`."""
    if isinstance(value, list):
        return [_sharing(each, arrays, known) for each in value]
    if not isinstance(value, dict):
        return value
    if "bdata" not in value:
        return {key: _sharing(each, arrays, known) for key, each in value.items()}
    key = value["dtype"] + value["bdata"]
    if key not in known:
        known[key] = len(arrays)
        arrays.append(value)
    return {"array": known[key]}


def packed(values: NDArray[Any], dtype: str = "f4") -> Json:
    """Return an array as plotly reads it without parsing: its bytes in base 64, "f4" float32, "i4" int32."""
    little_endian = np.ascontiguousarray(values, dtype=np.dtype(f"<{dtype}"))
    return {"dtype": dtype, "bdata": base64.b64encode(little_endian.tobytes()).decode()}


def name_text(name: str) -> str:
    """Return a name for plotly, which takes text for a kind of HTML."""
    return escape(name, quote=False)


def scatter(x: Json | list[float], y: Json | list[float], *, name: str = "", hover: str = "", **look: Any) -> Json:
    """Return the line through these points; without the text `hover` it does not answer the pointer."""
    answer = {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
    named = {"name": name_text(name)} if name else {}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y} | named | answer | look


def axis(title: str = "", **more: Any) -> Json:
    """Return an axis with the page's colours."""
    look = {
        "gridcolor": "var(--grid)",
        "linecolor": "var(--axis)",
        "tickcolor": "var(--axis)",
        "zeroline": False,
        "automargin": True,
    }
    return look | ({"title": {"text": title, "standoff": 8}} if title else {}) | more


def time_axis(**more: Any) -> Json:
    """Return an axis of dates, which are written as in text and tables."""
    formats: list[Json] = [
        {"dtickrange": [None, 86_400_000 - 1], "value": "%H:%M\n%Y-%m-%d"},
        {"dtickrange": [86_400_000, "M1"], "value": "%-d %b\n%Y"},
        {"dtickrange": ["M1", None], "value": "%Y-%m"},
    ]
    look: Json = {"tickformatstops": formats, "hoverformat": "%Y-%m-%d %H:%M", "tickangle": 0}
    return axis(type="date", showline=True, ticks="outside", **look | more)


def layout(own: Json) -> Json:
    """Return a layout with what all figures have in common."""
    common = {
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "var(--text)"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 24, "t": 30, "b": 36},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "var(--muted)", "activecolor": "var(--text)"},
        # The legend is part of the page: plotly's does not fit on a phone.
        "showlegend": False,
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--axis)", "font": {"color": "var(--text)"}},
        "hovermode": "x unified",
        "hoversubplots": "axis",
        # What the reader has zoomed or hidden stays when the page changes its colours or the policy.
        "uirevision": "kept",
    }
    return common | own


def line(key: Key) -> Json:
    """Return the line style of a legend's entry."""
    return {"color": key.colour, "width": 2, "dash": key.dash.replace(" ", "px,") + "px" if key.dash else "solid"}
