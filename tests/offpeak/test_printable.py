"""Text from devices cannot move an operator's cursor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.text import printable

pytestmark = pytest.mark.quick


def test_lines_become_one_and_control_characters_are_seen() -> None:
    assert printable(" out of\r\n  order\x1b[2J \x9b1m") == "out of order?[2J ?1m"


@given(st.text(max_size=1000))
def test_nothing_else_gets_through(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) <= 200
