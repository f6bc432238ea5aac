"""Counts, durations, limits and energies as Slurm writes them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.slurm.values import (
    BAD,
    UNKNOWN,
    by_distinct,
    count,
    count_in,
    duration_s,
    energy_j,
    limit_of_duration_s,
    limit_of_minutes_s,
    whole_number,
    whole_numbers,
)

pytestmark = pytest.mark.quick


@given(st.integers(0, 400), st.integers(0, 86_399))
def test_durations(days: int, seconds: int) -> None:
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = (f"{days}-" if days else "") + f"{hours:02}:{minutes:02}:{rest:02}"
    assert duration_s(text.encode()) == limit_of_duration_s(text.encode()) == days * 86_400 + seconds


@pytest.mark.parametrize(("text", "expected"), [(b"01:30", 90), (b"00:00.002", 0), (b"", UNKNOWN), (b"1h", BAD)])
def test_other_durations(text: bytes, expected: int) -> None:
    assert duration_s(text) == expected


def test_numbers_that_no_cluster_has_make_no_sense() -> None:
    absurd = [b"9999999999999T", b"99999999999999999999"]
    assert by_distinct(pa.array([b"4", *absurd]).dictionary_encode(), count).tolist() == [4, BAD, BAD]
    assert by_distinct(pa.array([b"9" * 20]).dictionary_encode(), limit_of_minutes_s).tolist() == [BAD]
    assert whole_numbers(pa.array(["4", "", str(2**63 - 1)])).tolist() == [4, UNKNOWN, BAD]
    assert whole_numbers(pa.array(["4", str(2**63 - 1)])).tolist() == [4, BAD]


@pytest.mark.parametrize("text", [b"", b"UNLIMITED", b"Partition_Limit"])
def test_no_limit_is_zero(text: bytes) -> None:
    assert limit_of_minutes_s(text) == limit_of_duration_s(text) == 0


def test_limits_in_minutes() -> None:
    assert [limit_of_minutes_s(text) for text in (b"90", b"-1", b"1.5")] == [5400, BAD, BAD]


@pytest.mark.parametrize(("text", "expected"), [(b"4", 4), (b"2K", 2048), (b"1.50K", 1536), (b"", 0), (b"-4", BAD)])
def test_count_is_parsed(text: bytes, expected: int) -> None:
    assert count(text) == expected


def test_counts_in_lists() -> None:
    assert count_in("node")(b"billing=16,cpu=16,gres/gpu=4,mem=4000M,node=2") == 2
    assert count_in("cpu")(b"cpu=16") == 16
    assert count_in("cpu")(b"") == count_in("cpu")(b"gres/cpu=4") == 0


@given(st.lists(st.one_of(st.integers(0, 10**12).map(str), st.sampled_from(["", "x", "1.5", "12_4", "9" * 30]))))
def test_columns_of_numbers_read_each_as_alone(texts: list[str]) -> None:
    found = whole_numbers(pa.array(texts, pa.string()))
    assert found.tolist() == [whole_number(text.encode()) for text in texts]
    column = pa.array([text.encode() for text in texts], pa.binary()).dictionary_encode()
    assert by_distinct(column, whole_number).tolist() == found.tolist()


@given(st.lists(st.sampled_from(["", "0", "12", "1e3", "18446744073709551614", "n/a"])))
def test_energies(texts: list[str]) -> None:
    known = {"0": 0.0, "12": 12.0, "18446744073709551614": 18446744073709551614.0}
    expected = np.array([known.get(text, np.nan) for text in texts])
    found = energy_j(pa.array(texts, pa.string()))
    sure = np.array([text != "1e3" for text in texts], bool)
    np.testing.assert_array_equal(found[sure], expected[sure])


def test_energies_for_people() -> None:
    column = pa.array([b"1.2K", b"3M", b"", b"5"], pa.binary()).dictionary_encode()
    np.testing.assert_allclose(energy_j(column), [1200.0, 3e6, np.nan, 5.0])
