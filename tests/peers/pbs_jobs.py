"""Jobs of Torque or OpenPBS, in the stand-in: submitted by qsub, and followed by what the server knows of them."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pbs_standin import CPUS, StandIn

from benchmarks.local_slurm.cluster import JobTraceEntry, StageJob
from offpeak.machines.node_sets import expand
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, Pbs
from offpeak.sim_backend.scheduler.cluster import SimJob

START_S = 0.3
"""What a real server takes besides to start a job."""
WATTS = "WATTS"
ARGUMENTS = {JobState.PENDING: "PENDING", JobState.RUNNING: "RUNNING", JobState.ENDED: "COMPLETED"}


@dataclass(frozen=True)
class PbsJobs:
    """As powered_stage.StageJobs."""

    server: StandIn

    def submit(self, *, count: int = 1, **fields: Any) -> list[str]:
        job = StageJob(**fields)
        output = [
            *([f"{WATTS}={job.watts:g}"] if job.watts is not None else []),
            *([f"OFFPEAK={job.user_hint}"] if job.user_hint else []),
        ]
        request = self._request(job.nodes, job.on)
        arguments = ["-N", job.name or "job", "-l", request, "-l", f"walltime=00:{job.limit_min}:00"]
        arguments += ["-v", ",".join(output)] if output else []
        script = f"sleep {job.seconds + START_S}\n"
        return [self.server.run("qsub", *arguments, user="alice", stdin=script) for _ in range(count)]

    def states(self) -> dict[str, str]:
        def fields(pbs: Pbs) -> dict[str, str]:
            jobs = pbs.cluster.jobs.values()
            return {pbs.job_id(job): "LOST" if job.lost else ARGUMENTS.get(job.state, job.state) for job in jobs}

        return self.server.do(fields)

    def order(self) -> list[str]:
        return self.server.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.pending(2**40)])

    def begin_s(self, job: str) -> float:
        return self.server.do(lambda pbs: float(max(map(pbs.begin_of, pbs.named(job)))))

    def note_to_owner(self, job: str) -> str:
        return self.server.do(lambda pbs: " ".join(each.comment for each in pbs.named(job)))

    def shown(self) -> str:
        return self.server.do(lambda pbs: repr(pbs.cluster.jobs))

    def trace(self) -> tuple[JobTraceEntry, ...]:
        def traced(pbs: Pbs) -> list[JobTraceEntry]:
            return [entry for job in pbs.cluster.jobs.values() for entry in _of_job(pbs, job)]

        return tuple(sorted(self.server.do(traced), key=lambda each: each.at_s))

    def started(self) -> list[str]:
        return self.server.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.started])

    def lost(self) -> list[str]:
        return self.server.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.jobs.values() if job.lost])

    def cancel(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            with suppress(subprocess.CalledProcessError):
                self.server.run("qdel", job)

    def _request(self, nodes: int, on: str) -> str:
        hosts = expand(on) if on else ()
        if self.server.pbs.kind == OPENPBS:
            return "select=" + ("+".join(f"1:ncpus={CPUS}:host={host}" for host in hosts) or f"{nodes}:ncpus={CPUS}")
        return "nodes=" + ("+".join(f"{host}:ppn={CPUS}" for host in hosts) or f"{nodes}:ppn={CPUS}")


def _of_job(pbs: Pbs, job: SimJob) -> list[JobTraceEntry]:
    """Return its start, and its end if it has come to it by itself."""
    name, nodes = pbs.job_id(job), ",".join(job.placed)
    reported = [JobTraceEntry(job.start_s, name, "start", nodes)] if job.start_s is not None else []
    ran_s = (job.end_s or 0.0) - (job.start_s or 0.0)
    by_itself = job.end_s is not None and not job.lost and ran_s >= min(job.run_s, job.longest_s) - 0.001
    return reported + ([JobTraceEntry(job.end_s, name, "end", nodes)] if by_itself and job.end_s is not None else [])
