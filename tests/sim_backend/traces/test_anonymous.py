"""Names are replaced by numbers, the same name by the same number."""

from dataclasses import replace

import numpy as np
import pytest
from logged_jobs import logged, trace_of_jobs

from offpeak.model.jobs import LogNames
from offpeak.sim_backend.traces.filters import anonymised

pytestmark = pytest.mark.quick


def test_users_are_numbered_in_the_order_of_their_first_job() -> None:
    jobs = replace(logged([(n, 0, 1, 1) for n in range(5)]), user=np.array([2, 0, 2, -1, 0]))
    names = LogNames(user=("ada", "grace", "linus"), group=("physics",), application=("secret_code",), job={3: "1_2"})
    known = anonymised(replace(trace_of_jobs(replace(jobs, group=np.zeros(5, np.int64))), names=names)).names
    assert known.user == ("user2", "user3", "user1")
    assert known.group == ("group1",)
    assert known.application == ("application1",)
    assert known.job == {3: "1_2"}
    assert known.user_text(2) == "user1"
    assert known.user_text(-1) == "-1"


def test_a_log_of_numbers_stays_as_it_is() -> None:
    trace = trace_of_jobs(logged([(0, 0, 1, 1)]))
    assert anonymised(trace).names == LogNames()
