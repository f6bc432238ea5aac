"""The fast path and the slow path take the same lines for good, whatever blanks, comments and piece boundaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.files import LongText
from offpeak.sim_backend.traces.swf import lines as swf_lines
from offpeak.sim_backend.traces.swf.lines import SUBMIT, malformed_lines, parse_columns, split_lines, without_lines

pytestmark = pytest.mark.quick

WANTED = (1, SUBMIT, 4)

numbers = st.one_of(
    st.integers(-1, 2**53).map(str),
    st.floats(0, 1e12, allow_nan=False).map(repr),
    st.sampled_from(
        ["5.", ".5", "1e3", "1e+03", "2E2", "007", "-1", "-0.5", "+5", "1e", "e5", "-", ".", "1-2", "1.2.3"]
    ),
    st.text("0123456789.-+eE", min_size=1, max_size=4),
)
good_line = st.lists(st.integers(0, 10**6).map(str), min_size=18, max_size=18)
blanks = st.sampled_from([" ", "  ", "\t", "      ", " \t "])


@st.composite
def laid_out(draw: st.DrawFn, fields: list[str]) -> str:
    separators = [draw(blanks) for _ in fields[1:]] + [""]
    body = "".join(field + separator for field, separator in zip(fields, separators, strict=True))
    return draw(st.sampled_from(["", " ", "    "])) + body + draw(st.sampled_from(["", " ", "\r", "  \r"]))


@st.composite
def logs(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    rows = draw(st.lists(good_line, min_size=1, max_size=8))
    lines = []
    for row in rows:
        lines += draw(st.lists(st.sampled_from(["", "   ", "; remark", "  ; 1 2 3", ";"]), max_size=2))
        lines.append(draw(laid_out(row)))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "\n ; end"])), rows


@given(logs(), st.sampled_from([1, 7, 64, 1 << 18]))
def test_the_layout_does_not_matter(log: tuple[str, list[list[str]]], piece_bytes: int) -> None:
    text, rows = log
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swf_lines, "PIECE_BYTES", piece_bytes)
        lines = split_lines(text.encode())
    columns = parse_columns(lines, WANTED)
    assert columns is not None
    for field in WANTED:
        np.testing.assert_array_equal(columns[field], [float(row[field - 1]) for row in rows])
    assert lines.columns == 18
    assert len(lines.comments) == sum(line.lstrip().startswith(";") for line in text.split("\n"))
    assert list(malformed_lines(LongText(text.encode()), WANTED)) == []


@given(st.lists(st.tuples(good_line, st.sampled_from(WANTED), numbers), min_size=1, max_size=4))
def test_the_slow_path_finds_a_fault_exactly_where_the_fast_path_fails(rows: list[tuple[list[str], int, str]]) -> None:
    text = b""
    for fields, changed, number in rows:
        fields[changed - 1] = number
        text += " ".join(fields).encode() + b"\n"
    wrong = dict(malformed_lines(LongText(text), WANTED))
    assert (parse_columns(split_lines(text), WANTED) is None) == bool(wrong)
    if len(wrong) < len(rows):
        assert (
            parse_columns(split_lines(b"".join(without_lines(LongText(text), frozenset(wrong)).lines())), WANTED)
            is not None
        )


@given(st.integers(1, 17) | st.integers(20, 30), st.integers(0, 5))
def test_a_line_with_another_number_of_fields_is_found_by_its_number(count: int, before: int) -> None:
    lines = ["1 " * 18] * before + ["1 " * count] + ["1 " * 18] * 7
    text = "\n".join(lines).encode()
    assert parse_columns(split_lines(text), WANTED) is None
    assert dict(malformed_lines(LongText(text), WANTED)) == {before + 1: f"{count} fields where 18 are expected"}


@given(st.integers(1, 17), st.integers(0, 5))
def test_a_line_without_all_fields_of_the_format_is_found_beside_longer_ones(count: int, before: int) -> None:
    lines = ["1 " * 19 + "text"] * before + ["1 " * count] + ["1 " * 19 + "text"] * 7
    text = "\n".join(lines).encode()
    assert parse_columns(split_lines(text), WANTED) is None
    assert dict(malformed_lines(LongText(text), WANTED)) == {before + 1: f"{count} fields where 20 are expected"}
