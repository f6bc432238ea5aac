"""Figures as JSON: numbers without loss, each array once, nothing that could end a script element."""

import base64
import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ui.report.figure import Figure, Key, axis, line, packed


def figure(**parts: Any) -> dict[str, Any]:
    made = Figure("f", "a figure", "a line", "a caption", (), parts.get("data", []), parts.get("layout", {}))
    document: dict[str, Any] = json.loads(made.json())
    return document


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_packed_numbers_are_their_bytes(values: list[int]) -> None:
    array = packed(np.array(values, np.int64), "i4")
    assert np.frombuffer(base64.b64decode(array["bdata"]), "<i4").tolist() == values


def test_each_array_stands_in_it_once() -> None:
    x, y = packed(np.arange(5.0), "f8"), packed(np.arange(5.0))
    document = figure(data=[{"x": x, "y": y}, {"x": dict(x), "y": dict(x)}])
    assert document["arrays"] == [x, y]
    assert document["data"] == [{"x": {"array": 0}, "y": {"array": 1}}, {"x": {"array": 0}, "y": {"array": 0}}]


def test_no_text_can_end_the_script_that_holds_it() -> None:
    hostile = "</script><!-- <script>"
    made = Figure("f", "", "", "", (), [{"name": hostile}], {})
    assert "<" not in made.json()
    assert json.loads(made.json())["data"] == [{"name": hostile}]


def test_own_layout_wins_over_the_common_one() -> None:
    layout = figure(layout={"hovermode": False, "xaxis": axis("wait", gridcolor="red")})["layout"]
    assert (layout["hovermode"], layout["xaxis"]["gridcolor"], layout["showlegend"]) == (False, "red", False)
    assert layout["xaxis"]["title"]["text"] == "wait"
    assert "title" not in axis()


def test_dashes_are_the_same_in_the_legend_and_in_the_figure() -> None:
    assert line(Key("a", "red"))["dash"] == "solid"
    assert line(Key("a", "red", "8 3 2 3"))["dash"] == "8px,3px,2px,3px"
