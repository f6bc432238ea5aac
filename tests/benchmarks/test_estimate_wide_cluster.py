"""`offpeak estimate` on a cluster of 20,000 nodes whose jobs nearly all have requests of their own."""

import pytest

from benchmarks.command import run_cold
from benchmarks.wide_cluster import write_wide_log

MOST_MIB = 400
"""`make bench` holds fifteen times as many jobs to 1 GiB."""


@pytest.mark.thorough
def test_memory_where_each_job_has_a_request_of_its_own(tmp_path):
    log, cluster = write_wide_log(tmp_path, 20_000, is_each_distinct=True)
    arguments = ["estimate", str(log), "--cluster", str(cluster), "--time-zone", "UTC"]
    # Kernels that are not compiled yet need more memory than the log.
    run_cold(*arguments, "--days", "1")
    _, peak_mib = run_cold(*arguments)
    assert peak_mib < MOST_MIB
