"""A simulated job's state in PBS's letters."""

from plugin.scheduler.job import JobState
from sim_backend.pbs_standin.pbs import TORQUE, Pbs
from sim_backend.scheduler.sim_job import SimJob

_RUNS = {JobState.RUNNING: "R", JobState.STARTS: "R", JobState.SUSPENDED: "S"}


def letter_of(pbs: Pbs, job: SimJob, now_s: float) -> str:
    """Return the letter; a job that the runjob hook keeps back stays queued."""
    if job.state is JobState.ENDED:
        return "C" if pbs.kind == TORQUE else "F"
    if job.state in _RUNS:
        return _RUNS[job.state]
    if job.holds or pbs.cluster.hangs(job):
        return "H"
    return "W" if job.begin_s > now_s else "Q"


def holds_of(pbs: Pbs, job: SimJob) -> str:
    """Return who holds it: n for nobody, s for the job that it waits for."""
    held = set(job.holds) | ({"s"} if job.state is JobState.PENDING and pbs.cluster.hangs(job) else set())
    return "".join(sorted(held, key="uos".index)) or "n"
