"""What both print in plain text: servers and queues with -f, and short lists."""

from collections import Counter
from collections.abc import Iterable, Mapping

from sim_backend.pbs_standin.letters import letter_of
from sim_backend.pbs_standin.pbs import VERSIONS, Pbs
from sim_backend.scheduler.sim_job import SimJob

NAMES = {"Q": "Queued", "H": "Held", "W": "Waiting", "R": "Running", "E": "Exiting"}


def server_text(pbs: Pbs, now_s: float) -> bytes:
    """Return what `qstat -B -f` prints."""
    told = {"server_state": "Active", **pbs.attributes, **_counts(pbs, pbs.cluster.jobs.values(), now_s)}
    told |= {"default_queue": pbs.queue, "pbs_version": VERSIONS[pbs.kind]}
    return _section(f"Server: {pbs.host}", told)


def queues_text(pbs: Pbs, now_s: float) -> bytes:
    """Return what `qstat -Q -f` prints."""
    return b"".join(_queue(pbs, name, now_s) for name in pbs.cluster.queues)


def jobs_text(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat` prints."""
    lines = ["Job id            Name             User              Time Use S Queue"]
    lines += ["----------------  ---------------- ----------------  -------- - -----"]
    lines += [
        f"{pbs.job_id(job):17} {job.name[:16]:16} {job.user:17} {0:>8} {letter_of(pbs, job, now_s)} {job.queue:5}"
        for job in jobs
    ]
    return ("\n".join(lines) + "\n").encode() if len(lines) > 2 else b""


def _queue(pbs: Pbs, name: str, now_s: float) -> bytes:
    jobs = [job for job in pbs.cluster.jobs.values() if job.queue == name]
    told = {"queue_type": "Execution", **_counts(pbs, jobs, now_s), "enabled": "True", "started": "True"}
    return _section(f"Queue: {name}", told)


def _counts(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> dict[str, str]:
    letters = Counter(letter_of(pbs, job, now_s) for job in jobs)
    letters["R"] += letters.pop("S", 0)
    counts = " ".join(f"{name}:{letters[letter]}" for letter, name in NAMES.items())
    return {"total_jobs": str(letters.total()), "state_count": f"Transit:0 {counts} "}


def _section(head: str, told: Mapping[str, str]) -> bytes:
    return "\n".join([head, *(f"    {name} = {value}" for name, value in told.items()), "", ""]).encode()
