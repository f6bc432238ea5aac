"""Numbers for job ids: each used once, and the scheduler's own names beside them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.pbs.log import JobIds

pytestmark = pytest.mark.quick

IDS = st.from_regex(rb"(0|[1-9][0-9]{0,2})(\[[0-9]{1,2}\])?(\.(head|other))?|license|\xff", fullmatch=True)


def numbered(jobs: list[bytes]) -> tuple[list[int], dict[int, str]]:
    ids = JobIds()
    number, rest = np.array([ids.split(job) for job in jobs], np.int64).reshape(-1, 2).T
    numbers, names = ids.numbered(ids.keys(number.copy(), rest))
    return numbers.tolist(), names


def test_numbers_stay_and_array_members_get_others() -> None:
    assert numbered([b"31.head", b"32[1].head", b"0.head", b"32[2].head"]) == (
        [31, 32, 0, 33],
        {32: "32[1]", 33: "32[2]"},
    )


def test_later_runs_keep_their_name() -> None:
    assert numbered([b"31.head", b"31.head", b"40.head"]) == ([31, 41, 40], {41: "31"})


def test_servers_are_kept_apart() -> None:
    jobs = [b"4.head.domain", b"5.head.domain", b"4.old", b"7.old"]
    assert numbered(jobs) == ([4, 5, 8, 7], {8: "4.old", 7: "7.old"})


def test_ids_that_are_no_numbers() -> None:
    jobs = [b"9" * 30 + b".head", b"12", b"x\xff"]
    assert numbered(jobs) == ([13, 12, 14], {13: "9" * 30 + ".head", 14: "x�"})
    assert numbered([]) == ([], {})


def test_long_numbers_and_leading_zeros() -> None:
    jobs = [b"123456789012345.head", b"0007.head", b"7.head", b"1234567890.other", b"7[3].head"]
    numbers, names = numbered(jobs)
    assert numbers == [123456789012345, 7, 123456789012346, 1234567890, 123456789012347]
    assert names == {123456789012346: "7", 1234567890: "1234567890.other", 123456789012347: "7[3]"}


@given(jobs=st.lists(IDS, max_size=30))
def test_no_number_is_used_twice_and_no_id_is_lost(jobs: list[bytes]) -> None:
    numbers, names = numbered(jobs)
    assert len(set(numbers)) == len(numbers) == len(jobs)
    assert set(names) <= set(numbers)
    for job, number in zip(jobs, numbers, strict=True):
        assert job.decode(errors="replace").startswith(names.get(number, str(number)))
