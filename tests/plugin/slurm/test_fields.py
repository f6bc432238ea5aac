"""Values that Slurm's answers have in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.plugin.slurm.commands import count, limit_s, memory_mib, parts, unix_s

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("1795215172", 1_795_215_172),
        ("2026-11-20T22:52:52", 1_795_215_172),
        *[(text, None) for text in ("0", "N/A", "Unknown", "None", "", "(null)", "-5", "²")],
    ],
)
def test_field_with_a_time_is_parsed(text: str, at_s: int | None) -> None:
    assert unix_s(text) == at_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30:00", 1800),
        ("2:00:00", 7200),
        ("1-00:00:01", 86_401),
        ("0:05", 5),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
    ],
)
def test_field_with_a_limit_is_parsed(text: str, seconds: int | None) -> None:
    assert limit_s(text) == seconds


@given(st.integers(0, 10**7))
def test_any_limit_is_read_back(seconds: int) -> None:
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    assert limit_s(f"{days}-{h:02}:{m:02}:{s:02}") == seconds


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("2-4", 2), ("2K", 2048), ("", 0), ("N/A", 0), ("20 sec", 20)]
)
def test_field_with_a_count_is_parsed(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    ("text", "mib"), [("1500M", 1500), ("4G", 4096), ("2T", 2**21), ("2048K", 2), ("0", 0), ("7", 7)]
)
def test_memories(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


def test_field_with_a_list_is_parsed() -> None:
    assert parts("a,b,,c") == ("a", "b", "c")
    assert parts("(null)") == parts("") == ()
