"""The table of other days of Curie: its upper bound, and the short period that is planned again."""

import numpy as np
import pytest
from study_tables import stored

from benchmarks.cooling_days import HEAD, RULES_HEAD, measure_period, most_core_h, rule_row
from benchmarks.logs import trace_file
from offpeak.model.constants import DAY_S, HOUR_S
from sim_backend.workloads.generate import lublin_jobs
from studies.profit_cooling.run import NODE_CORES, curie_jobs, work_of


def test_jobs_use_no_more_than_they_bring_nor_than_the_machine_has() -> None:
    jobs = lublin_jobs(200, machine_size=256, seed=1, load=1.5)
    work = work_of(jobs.take(jobs.submit_s < jobs.submit_s[0] + DAY_S), 1)
    brought = float((work.units * work.cores * work.duration_s).sum()) / HOUR_S
    assert most_core_h(work, 100_000, 8) == pytest.approx(brought)
    one_day = int(work.release_s.max()) // DAY_S + 1
    assert most_core_h(work, one_day, 1) < one_day * 24 * NODE_CORES
    assert 0 < most_core_h(work, one_day, 1) < most_core_h(work, one_day, 8)


def test_the_recorded_periods_are_those_of_the_log() -> None:
    if not trace_file("CEA-curie").exists():
        pytest.skip("no logs")
    header, *rows = stored("profit-cooling/days")
    assert tuple(header) == HEAD
    assert len(rows) >= 6
    for row in rows:
        first_day = int(row[0].split()[0])
        jobs = curie_jobs(trace_file("CEA-curie"), first_day=first_day)
        core_h = float((jobs.size * jobs.runtime_s).sum()) / HOUR_S
        assert row[1:3] == [f"{len(jobs):,}", f"{core_h / (9600 * 23 * 24):.2f}"]
        assert 0 < float(row[4]) < float(row[5])
        assert float(row[7]) < float(row[8])


@pytest.mark.thorough
def test_a_rule_comes_out_again() -> None:
    if not trace_file("CEA-curie").exists():
        pytest.skip("no logs")
    header, *rows = stored("profit-cooling/rules")
    assert tuple(header) == RULES_HEAD
    assert list(rule_row(trace_file("CEA-curie"), "strict WT")) in rows


@pytest.mark.thorough
def test_a_short_period_is_planned_with_a_gain_within_the_bound() -> None:
    if not trace_file("CEA-curie").exists():
        pytest.skip("no logs")
    row = dict(zip(HEAD, measure_period(trace_file("CEA-curie"), 46, days=2, nodes=60), strict=True))
    assert row["days"] == "46 to 47"
    assert 0 <= float(row["gain over it, %"]) <= float(row["at most, %"])
    assert np.isfinite(float(row["median gap, %"]))
