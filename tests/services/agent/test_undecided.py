"""Which jobs the power loop waits for: what the queue loop may still put off is no reason to wake anybody."""

from datetime import UTC

import pytest
from scheduler_values import NOW_S, job_of, running

from offpeak.model.flexibility import FlexibilityRules
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.services.agent.observer import LONGEST_UNDECIDED_S, find_undecided_jobs, without_jobs

pytestmark = pytest.mark.quick


def test_new_jobs_whose_owners_consent_and_no_others() -> None:
    new = {"submit_s": NOW_S - LONGEST_UNDECIDED_S + 1, "comment": "offpeak:delay=12h"}
    jobs = (
        job_of("new", **new),
        job_of("decided", **new),
        job_of("old", **(new | {"submit_s": NOW_S - LONGEST_UNDECIDED_S})),
        job_of("at once", **(new | {"comment": "offpeak:delay=12h,now"})),
        job_of("no word", **(new | {"comment": "offpeak is fine"})),
        running("runs", **new),
    )
    view = SchedulerView(NOW_S, jobs, (), ())
    assert find_undecided_jobs(view, {"decided"}, FlexibilityRules(UTC)) == {"new"}
    assert find_undecided_jobs(view, {"decided"}, FlexibilityRules(UTC), is_capped=True) == {"new", "no word"}
    left = without_jobs(view, {"new", "who?"})
    assert [job.job_id for job in left.jobs] == ["decided", "old", "at once", "no word", "runs"]
    assert left.at_s == NOW_S
