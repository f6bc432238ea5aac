"""The comparison with published schedules of a power-aware scheduler, on a clone of three jobs."""

import json

import pytest

from benchmarks.power_aware_peer import compared, published, replayed, workload
from offpeak.errors import BadInput

STATES = (
    "mean_waiting_time,total_energy_consumption,total_active_idle,total_active_compute,total_switching_off,"
    "total_switching_on,total_sleeping"
)


@pytest.fixture
def checkout(tmp_path):
    """A clone with two nodes, three jobs and one published point."""
    jobs = [(0, 1, 100), (50, 1, 3000), (200, 2, 10)]
    rows = [{"subtime": at_s, "res": nodes, "runtime": run_s, "reqtime": run_s} for at_s, nodes, run_s in jobs]
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "nasa-20-back.json").write_text(json.dumps({"nb_res": 2, "jobs": rows}))
    folder = tmp_path / "results_save" / "nasa_20_back_timeout_300_easy_psas"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(f"{STATES}\n3000.0,{190 * 6000 + 9 * 100},3000,3000,60,0,40\n")
    return tmp_path


def test_published_points_are_compared_with_the_least_energy_at_no_longer_a_wait(checkout):
    jobs, nodes = workload(checkout)
    # The second job waits for the first one's node. The other node falls asleep at once; it is up again at 4,500 s.
    ours = replayed("planned:0s", jobs, nodes)
    assert ours.wait_s == (100 - 50 + 4500 - 200) / 3
    assert ours.energy_j == 190 * 2 * 4510 - (190 - 9) * 1800
    (row,) = compared(published(checkout), [ours])
    assert row == ("5 min", "3,000", "0.001", "planned:0s", "1,450", "0.001", "-21.7")


def test_an_energy_that_is_not_that_of_the_states_is_refused(checkout):
    (path,) = checkout.rglob("metrics.csv")
    path.write_text(path.read_text().replace("3000,3000", "3000,2999"))
    with pytest.raises(BadInput, match="not that of the time in each state"):
        published(checkout)
