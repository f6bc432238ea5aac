"""The arguments of sbatch and qsub, and the parsing of their answers: recorded answers for PBS."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.plugin.pbs.batch import PbsBatch
from offpeak.plugin.scheduler.batch import BatchJob, BatchResult, JobSubmission
from offpeak.plugin.slurm.batch import SlurmBatch
from offpeak.plugin.slurm.commands import CannotAskSlurm

pytestmark = pytest.mark.quick

SUBMISSION = JobSubmission("k-1", "#!/bin/sh\n", "job.sh", ("a b",), 5430, 6, 4, "mine", "A=1", "2026-11-22T08:00:00Z")


def test_sbatch() -> None:
    comment = "--comment=mine offpeak:key=k-1,deadline=2026-11-22T08:00:00Z"
    arguments = ("--parsable", "--time=91", "--ntasks=6", "--job-name=job.sh", comment, "/dev/stdin", "a b")
    assert SlurmBatch("far").submit_command(SUBMISSION) == ("timeout", "20", "sbatch", "-M", "far", *arguments)
    plain = replace(SUBMISSION, cores=None, arguments=(), name="", comment="", latest_finish="")
    assert SlurmBatch().submit_command(plain)[3:] == ("--parsable", "--time=91", "--comment=offpeak:key=k-1")


def test_qsub() -> None:
    arguments = ("-l", "walltime=01:30:30", "-l", "nodes=2:ppn=4", "-N", "job.sh")
    variables = "A=1,OFFPEAK_KEY=k-1,OFFPEAK_DEADLINE=2026-11-22T08:00:00Z"
    assert PbsBatch().submit_command(SUBMISSION) == ("timeout", "20", "qsub", *arguments, "-v", variables)


@pytest.mark.parametrize(
    ("batch", "ran", "job", "refused"),
    [
        (SlurmBatch(), BatchResult(0, "17;far\n", ""), "17", ""),
        (
            SlurmBatch(),
            BatchResult(1, "", "sbatch: error: Batch job submission failed: Invalid account"),
            "",
            "Batch job sub",
        ),
        (SlurmBatch(), BatchResult(1, "", "sbatch: error: Socket timed out on send/recv operation"), "", ""),
        (SlurmBatch(), BatchResult(124, "", ""), "", ""),
        (SlurmBatch(), BatchResult(None, "", "ssh: lost"), "", ""),
        (SlurmBatch(), BatchResult(255, "", "ssh: refused"), "", "ssh: refused"),
        (PbsBatch(), BatchResult(0, "8.head\n", ""), "8.head", ""),
        (PbsBatch(), BatchResult(159, "", "qsub: Unauthorized Request"), "", "Unauthorized"),
        (PbsBatch(), BatchResult(1, "", "qsub: End of File"), "", ""),
    ],
)
def test_batch_reports_accepted_refused_and_unknown_changes(
    batch: object, ran: BatchResult, job: str, refused: str
) -> None:
    assert isinstance(batch, SlurmBatch | PbsBatch)
    assert batch.submitted_job(ran) == job
    assert batch.refusal(ran).startswith(refused)
    assert bool(batch.refusal(ran)) == bool(refused)


def test_a_key_is_found_as_a_whole() -> None:
    slurm = SlurmBatch()
    end = slurm.list_command()[-1].partition("%k")[2]
    records = ("7|RUNNING|", "8|PENDING|a|b offpeak:key=k-1,deadline=x", "9|PENDING|offpeak:key=k-12")
    listed = "".join(f"{record}{end}\n" for record in ("JOBID|STATE|COMMENT", *records))
    assert slurm.find_by_key(listed, key="k-1") == BatchJob("8", "PENDING")
    assert slurm.find_by_key(listed, key="k") is None
    assert slurm.find_by_id(f"Welcome.\n{listed}", job="9") == BatchJob("9", "PENDING")
    for not_complete in ("", "\n", listed[:-1], listed.partition("\n")[2]):
        with pytest.raises(CannotAskSlurm, match="not complete"):
            slurm.find_by_key(not_complete, key="k")
    full = "Job Id: 1.h\n    job_state = Q\n    Variable_List = A=1,OFFPEAK_K\n\tEY=k-12\n\n"
    full += "Job Id: 2.h\n    job_state = R\n    Variable_List = OFFPEAK_KEY=k-1,B=2\n"
    assert PbsBatch().find_by_key(full, key="k-1") == BatchJob("2.h", "R")
    assert PbsBatch().find_by_key(full, key="k-12") == BatchJob("1.h", "Q")


@pytest.mark.parametrize(
    ("file", "job", "state"),
    [
        ("openpbs/A_qstat_fx.txt", "4.head", "R"),
        ("openpbs/A_qstat_fx.txt", "0.head", "F"),
        ("torque/A_qstat_x.xml", "29.head", "C"),
    ],
)
def test_recorded_lists_are_read(shared: Path, file: str, job: str, state: str) -> None:
    text = (shared / "data" / "captures" / file).read_text()
    assert PbsBatch().find_by_id(text, job=job) == BatchJob(job, state)
    marked = text.replace("PBS_O_QUEUE=", "OFFPEAK_KEY=k-1,PBS_O_QUEUE=", 1)
    assert PbsBatch().find_by_key(marked, key="k-1") is not None
