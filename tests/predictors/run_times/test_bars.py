"""On a real log, at a real machine's pace: trees are better than the user, and their interval holds what it says."""

from datetime import UTC

import numpy as np
import pytest

from offpeak.predictors.run_times import UserEstimate, boosted_run_time
from offpeak.predictors.scores import compute_score, run_time_exam, take_exam
from offpeak.sim_backend.traces.read import read_log

JOBS = 4000


def test_kth_sp2(shared):
    log = shared / "data" / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"
    jobs = read_log(str(log), lenient=False, zone=UTC).jobs.take(np.arange(JOBS))
    exam = run_time_exam(jobs, jobs.logged_start_s)
    actual = np.where(np.arange(JOBS) < 1000, np.nan, exam.actual)
    score = compute_score(actual, take_exam(boosted_run_time(), exam), naive=take_exam(UserEstimate(), exam))
    assert score.relative_mae < 0.9
    assert score.coverage == pytest.approx(0.8, abs=0.05)
