"""The generated mixed queue: nearly all jobs of its windows take part in the ordering."""

from itertools import combinations

import pytest

from benchmarks.mixed_queue import mixed_queue, share_ordered

WINDOW = 20


@pytest.mark.parametrize("seed", [1, 2])
def test_nearly_all_jobs_of_mixed_windows_take_part(seed: int) -> None:
    facts = mixed_queue(600, 150, seed=seed)
    before, after = (share_ordered(facts, WINDOW, equal_requests_only=only) for only in (True, False))
    assert after >= 0.9 > before


def test_a_queue_is_as_mixed_as_that_of_a_gpu_cluster() -> None:
    jobs = mixed_queue(1000, 200).jobs
    neighbours = [pair for at in range(0, 1000, WINDOW) for pair in combinations(jobs[at : at + WINDOW], 2)]
    assert 0.2 < sum(one.request == other.request for one, other in neighbours) / len(neighbours) < 0.45
    assert 0.1 < sum(job.is_array for job in jobs) / 1000 < 0.15
