"""Jobs as they are known at submission."""

import numpy as np
import pytest
from hypothesis import given
from random_jobs import populations

from offpeak.predictors.job_history import jobs_at_submission

pytestmark = pytest.mark.quick

REPORTED_BY_TIME = ("runtime_s", "logged_start_s", "node_power_w")


@given(populations)
def test_only_what_time_tells_is_masked(jobs):
    known = jobs_at_submission(jobs)
    assert (known.runtime_s == -1).all()
    assert (known.logged_start_s == -1).all()
    assert np.isnan(known.node_power_w).all()
    for name in ("job_id", "submit_s", "estimate_s", "size", "user", "group", "queue", "application"):
        assert (getattr(known, name) == getattr(jobs, name)).all()
    assert not any(np.shares_memory(getattr(known, name), getattr(jobs, name)) for name in REPORTED_BY_TIME)
