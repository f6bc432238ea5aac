"""Jobs of Slurm: sbatch, squeue and scancel. A job's comment carries its key, after the comment of its owner.

Only jobs of the account that submits them are listed and cancelled. Comments may have line breaks and may name keys of
other jobs: each record ends with a random text that its owner cannot know, and the last key of a comment is the job's.
"""

import re
import secrets
from collections.abc import Iterator, Sequence

from offpeak.plugin.contract.slurm_rights import AdminLevel, find_admin_levels
from offpeak.plugin.scheduler.batch import SUBMIT_S, BatchJob, BatchResult, JobSubmission
from offpeak.plugin.slurm.commands import CannotAskSlurm

MAYBE_TAKEN = ("timed out", "zero bytes", "unexpected message", "communication connection failure")
"""Messages of sbatch after which slurmctld may have the job: all other complaints are refusals."""

KEY = re.compile(r"offpeak:key=([\w.-]+)")
_JOB = re.compile(r"\d+")
_SLURM_USER = re.compile(r"^SlurmUser\s*=\s*([^\s(]+)", re.MULTILINE)


class SlurmBatch:
    """Slurm's commands; with `cluster`, for another cluster of the same slurmdbd."""

    def __init__(self, cluster: str = "") -> None:
        self._cluster = ("-M", cluster) if cluster else ()
        self._end = f"#{secrets.token_hex(8)}"

    def rights_commands(self, user: str) -> Sequence[Sequence[str]]:
        """Return scontrol for SlurmUser, and for the user's admin level that slurmctld has from slurmdbd."""
        show = ("scontrol", *self._cluster, "show")
        return ((*show, "config"), (*show, "assoc_mgr", f"users={user}", "flags=users"))

    def admin_right(self, user: str, answers: Sequence[str]) -> str:
        """Return SlurmUser or the admin level; a user that slurmdbd does not know has no level."""
        config, known = answers
        owner = _SLURM_USER.search(config)
        if owner is None or owner[1] == user:
            return "SlurmUser" if owner else "unknown (scontrol show config names no SlurmUser)"
        levels = [level for _, level in find_admin_levels(known, user) if level is not AdminLevel.NONE]
        return f"Slurm {levels[0]}" if levels else ""

    def submit_command(self, submission: JobSubmission) -> Sequence[str]:
        """Return sbatch, its script on standard input."""
        minutes = -(-submission.limit_s // 60)
        tasks = () if submission.cores is None else (f"--ntasks={submission.cores}",)
        name = (f"--job-name={submission.name}",) if submission.name else ()
        script = ("/dev/stdin", *submission.arguments) if submission.arguments else ()
        options = ("--parsable", f"--time={minutes}", *tasks, *name, f"--comment={comment_of(submission)}")
        return ("timeout", str(SUBMIT_S), "sbatch", *self._cluster, *options, *script)

    def submitted_job(self, ran: BatchResult) -> str:
        """Return the number that sbatch --parsable prints, without the cluster's name."""
        last = (ran.output.strip().splitlines() or [""])[-1].partition(";")[0]
        return last if ran.code == 0 and _JOB.fullmatch(last) else ""

    def refusal(self, ran: BatchResult) -> str:
        """Return sbatch's complaint, "" where slurmctld may have taken the job nevertheless."""
        complaint = ran.complaint.strip()
        if ran.code in (None, 0, 124) or any(sign in complaint.lower() for sign in MAYBE_TAKEN):
            return ""
        lines = complaint.splitlines() or [f"sbatch ended with {ran.code}"]
        return lines[-1].removeprefix("sbatch: ").removeprefix("error: ")

    def list_command(self) -> Sequence[str]:
        """Return squeue for all jobs that slurmctld remembers, which is MinJobAge, 5 min unless set."""
        options = ("--me", "--all", "--states=all", f"--format=%A|%T|%k{self._end}")
        return ("squeue", *self._cluster, *options)

    def fallback_command(self, ran: BatchResult) -> Sequence[str]:  # noqa: ARG002
        """Return (): there is no other command."""
        return ()

    def find_by_key(self, output: str, *, key: str) -> BatchJob | None:
        """Return the job whose comment has the key."""
        return next((job for job, comment in self._jobs(output) if KEY.findall(comment)[-1:] == [key]), None)

    def find_by_id(self, output: str, *, job: str) -> BatchJob | None:
        """Return the job of that number."""
        return next((listed for listed, _ in self._jobs(output) if listed.job == job), None)

    def count_command(self) -> Sequence[str]:
        """Return (): the header of the list has a text that only a squeue of this call can print."""
        return ()

    def find_gap(self, output: str, server: str) -> str:  # noqa: ARG002
        """Return ""."""
        return ""

    def cancel_command(self, job: str) -> Sequence[str]:
        """Return scancel."""
        return ("scancel", *self._cluster, "--me", job)

    def _jobs(self, output: str) -> Iterator[tuple[BatchJob, str]]:
        # A banner of the site's shell may come first.
        head, *records = output.split(f"{self._end}\n")
        if not head.endswith("JOBID|STATE|COMMENT") or not records or records.pop():
            raise CannotAskSlurm("squeue: its answer is not complete", hint="run squeue there by hand")
        for record in records:
            job, _, rest = record.partition("|")
            state, bar, comment = rest.partition("|")
            if bar and _JOB.fullmatch(job):
                yield BatchJob(job, state), comment


def comment_of(submission: JobSubmission) -> str:
    """Return the owner's comment with the key and, if there is one, the latest finish, which the site's agent uses."""
    ours = f"offpeak:key={submission.key}"
    if submission.latest_finish:
        ours += f",deadline={submission.latest_finish}"
    return f"{submission.comment} {ours}".strip()


def probe_command(node: str, partition: str) -> Sequence[str]:
    """Return sbatch for a job that does nothing on that node; offpeak neither moves nor delays it."""
    place = (f"--nodelist={node}", *((f"--partition={partition}",) if partition else ()))
    own = ("--job-name=offpeak-cycle", "--comment=offpeak:now", "--output=/dev/null", "--chdir=/", "--time=5")
    return ("sbatch", "--parsable", *place, *own, "--wrap=true")
