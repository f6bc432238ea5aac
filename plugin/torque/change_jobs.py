"""Changes to Torque's jobs: their priority, or their place in the queue."""

from collections.abc import Iterator, Mapping, Sequence

from plugin.pbs.ask import PbsCommands
from plugin.pbs.job_number import strange
from plugin.pbs.told import tell_by_value, tell_jobs
from plugin.pbs.told_job import ToldJob
from plugin.scheduler.job import JobState

LOWEST, HIGHEST = -1024, 1023
TOP = 2**40
"""From it places are counted down, where a smaller one goes first."""
NO_ROUTE = "Torque's scheduler sorts by neither priorities nor places"
MOVED = "somebody else moved the queue meanwhile"


def by_priority(commands: PbsCommands, values: Mapping[str, int]) -> dict[str, str]:
    """Set priorities; return why not, by job."""
    refused = strange(values)
    refused |= {job: f"priority {value} is none" for job, value in values.items() if not LOWEST <= value <= HIGHEST}
    texts = {job: str(value) for job, value in values.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-p", texts)


def as_value(rank: int) -> int:
    """Return a place in the queue as a priority, larger first."""
    return TOP - rank


def by_swaps(commands: PbsCommands, values: Mapping[str, int], jobs: Sequence[ToldJob]) -> dict[str, str]:
    """Exchange places until each job has its value's, as far as all are places that these jobs have; return why not."""
    waiting = {each.job.job_id: each for each in jobs if each.job.state is JobState.PENDING}
    present = {job: as_value(waiting[job].rank) for job in values if job in waiting}
    wanted = {job: values[job] for job in present}
    if set(wanted.values()) != set(present.values()):
        return dict.fromkeys(wanted, MOVED)
    refused: dict[str, str] = {}
    for one, other in swaps(present, wanted):
        said = tell_jobs(commands, "qorder", (), (one, other))
        if said:
            # What follows would lead elsewhere: the next cycle begins anew.
            return refused | dict.fromkeys(wanted, next(iter(said.values())))
    return refused


def swaps(present: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Give pairs that exchange their places, never a job with itself, until all have what is wanted."""
    at = {value: job for job, value in present.items()}
    has = dict(present)
    for job in sorted(wanted, key=lambda each: -wanted[each]):
        other = at[wanted[job]]
        if other != job:
            yield job, other
            at[has[job]], at[wanted[job]] = other, job
            has[other], has[job] = has[job], wanted[job]
