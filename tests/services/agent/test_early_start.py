"""`why` of a job that may wait, and that the scheduler has started at its submission."""

from datetime import UTC
from typing import Any

import pytest
from queue_site import NOW_S, a_job

from offpeak.model.constants import HOUR_S
from offpeak.plugin.queue_hook.facts import OFF, QueueFacts, QueueRules
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.services.agent.reports import STARTED_EARLY, job_statuses

pytestmark = pytest.mark.quick

RUNS = {"state": JobState.RUNNING, "reason": "None", "comment": "offpeak:delay=8h", "submit_s": NOW_S - 600}


@pytest.mark.parametrize(
    ("job", "policy", "longest_delay_s", "why"),
    [
        ({"start_s": NOW_S - 598}, "greedy", HOUR_S, STARTED_EARLY),
        ({"start_s": NOW_S - 300}, "greedy", HOUR_S, ""),
        ({"start_s": NOW_S - 598, "comment": ""}, "greedy", HOUR_S, ""),
        ({"start_s": NOW_S - 598}, OFF, HOUR_S, ""),
        ({"start_s": NOW_S - 598}, "greedy", 0, ""),
    ],
)
def test_a_job_that_could_not_be_delayed_says_so(
    job: dict[str, Any], policy: str, longest_delay_s: int, why: str
) -> None:
    rules = QueueRules(policy, 20, 24 * HOUR_S, 100, longest_delay_s, UTC)
    (status,) = job_statuses(QueueFacts(NOW_S, (a_job(1, **RUNS | job),), Ranking.VALUE), rules, {})
    assert status.why == why
