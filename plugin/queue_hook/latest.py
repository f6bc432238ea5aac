"""Until when a consenting job may be kept back, and for how long it is expected to run."""

from dataclasses import dataclass

from plugin.queue_hook.consent import Consent
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class Leeway:
    """The latest start that a job's owner allows, and the latest begin time: that less the expected wait [Unix s].

    The agent expects no waits yet, so both are the same there, and the start may come later than `start_s`.
    """

    start_s: int
    begin_s: int
    run_s: int


def leeway(job: Job, consent: Consent, facts: QueueFacts, rules: QueueRules) -> Leeway | None:
    """Return how far the job may be delayed; None where its owner allows nothing, or its run time is not known.

    A deadline counts back from the limit, whatever is predicted: a job may take all of it.
    """
    expected = (facts.expected_run_s.get(job.job_id), job.limit_s)
    run_s = min((each for each in expected if each), default=None)
    if not consent.allows_delay or run_s is None:
        return None
    granted_s = rules.longest_delay_s if consent.delay_s is None else min(consent.delay_s, rules.longest_delay_s)
    start_s = job.submit_s + granted_s
    if consent.deadline_s is not None:
        if job.limit_s is None:
            return None
        start_s = min(start_s, consent.deadline_s - job.limit_s)
    return Leeway(start_s, start_s - max(0, facts.expected_wait_s.get(job.job_id, 0)), run_s)
