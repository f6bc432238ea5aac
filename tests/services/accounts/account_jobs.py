"""Jobs as a scheduler shows them, for the tests of the accounts."""

from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerView

PLAIN = Job(
    job_id="1",
    state=JobState.RUNNING,
    native_state="RUNNING",
    reason="",
    user="ann",
    account="physics",
    name="sim",
    comment="",
    partitions=("batch",),
    request=None,
    reservation="",
    qos="normal",
    priority=1,
    offset=0,
    nodes=1,
    cpus=4,
    whole_nodes=True,
    limit_s=86_400,
    submit_s=0,
    begin_s=None,
    start_s=0,
    end_s=None,
    hosts="n1",
    plain=True,
)


def job(number: str, state: JobState = JobState.RUNNING, **other: object) -> Job:
    """Return a job that differs in these from a plain one."""
    return PLAIN._replace(job_id=number, state=state, **other)


def view(at_s: int, jobs: list[Job]) -> SchedulerView:
    """Return a view of these jobs."""
    return SchedulerView(at_s, tuple(jobs), (), ())
