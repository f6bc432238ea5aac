"""Counts in sentences."""

import pytest

from offpeak.text import counted

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("count", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (12345, "12,345 jobs")])
def test_one_is_singular(count: int, text: str) -> None:
    assert counted(count, "job") == text
