"""A job's request as squeue tells it before the start of the job, and as sacct tells it afterwards, is one request."""

import re
from datetime import UTC

from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import wait_until
from offpeak.files import LongText
from offpeak.plugin.slurm.accounting import DELIMITER, SACCT_COLUMNS
from offpeak.plugin.slurm.jobs import jobs_of_text, squeue_arguments
from offpeak.sim_backend.traces.slurm.read import sacct_trace

END = "#end#"
JOBS = (
    (),
    ("--cpus-per-task=2",),
    ("--nodes=2", "--ntasks=2", "--partition=again"),
    ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2"),
    ("--nodes=2", "--exclusive"),
    ("--ntasks=10",),
)


def test_sacct_and_squeue_tell_the_same_request(slurm_accounting: SlurmAccounting) -> None:
    cluster = slurm_accounting.cluster
    submit = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true")
    ids = [cluster.run(*submit, *options).strip() for options in JOBS]
    queue = cluster.run("squeue", f"--jobs={','.join(ids)}", *squeue_arguments(END)).encode()
    queued = {job.job_id: job.request for job in jobs_of_text(queue, END)}
    assert sorted(queued) == sorted(ids)
    command = ("sacct", "-X", "-P", f"--delimiter={DELIMITER}", f"--format={','.join(SACCT_COLUMNS)}")
    listed = (*command, f"--jobs={','.join(ids)}")

    def wait_for(state: str, tres: str) -> None:
        rows = re.compile(f"{DELIMITER}{state}{DELIMITER}.*{tres}")
        wait_until(lambda: len(rows.findall(cluster.run(*listed))) == len(ids), what=f"{state} jobs in the accounting")

    # sacct shows no ReqTRES of a job that starts before slurmdbd has recorded its submission.
    wait_for("PENDING", "cpu=")
    cluster.run("scontrol", "release", ",".join(ids))
    wait_for("COMPLETED", "cpu=.*cpu=")
    found = sacct_trace(LongText(cluster.run(*listed).encode()), "sacct", lenient=False, zone=UTC)
    assert found.jobs.request is not None
    numbers = zip(found.jobs.job_id.tolist(), found.jobs.request.tolist(), strict=True)
    assert {str(job): found.requests[number] for job, number in numbers} == queued
