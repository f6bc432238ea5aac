"""A difference between runs with an agent and without is told from chance."""

import pytest

from benchmarks.backfill import Run, compare


@pytest.mark.parametrize(
    ("differences_s", "shown"),
    [((5.0, -5.0, 3.0, -3.0), "+0.0 (-5.0 to +5.0) in 4 pairs, p = 1.00"), ((4.0,) * 10, "in 10 pairs, p = 0.00")],
)
def test_chance_is_all_changes_of_signs(differences_s: tuple[float, ...], shown: str) -> None:
    runs = [Run(seed, with_agent=False, makespan_s=100.0, mean_wait_s=20.0) for seed in range(len(differences_s))]
    runs += [
        Run(seed, with_agent=True, makespan_s=100.0 + more_s, mean_wait_s=20.0)
        for seed, more_s in enumerate(differences_s)
    ]
    makespan, wait = compare(runs).splitlines()
    assert makespan.startswith("makespan_s: with ")
    assert shown in makespan
    assert wait.endswith("p = 1.00")
