"""Jobs of Torque and OpenPBS: qsub, qstat and qdel. A variable of the job carries its key, as users have no comment."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from offpeak.errors import SchedulerError
from offpeak.model.constants import HOUR_S
from offpeak.plugin.pbs.commands import parse_attributes
from offpeak.plugin.pbs.jobs import count_jobs
from offpeak.plugin.scheduler.batch import SUBMIT_S, BatchJob, BatchResult, JobSubmission

KEY, DEADLINE = "OFFPEAK_KEY", "OFFPEAK_DEADLINE"
LONGEST_NAME = 15
NO_HISTORY = "not configured to maintain job history"
"""OpenPBS's qstat prints this, with an empty answer and code 0, if job_history_enable is not set (the default)."""
MAYBE_TAKEN = ("timed out", "timeout", "end of file", "premature end", "protocol", "batch protocol")
"""Messages of qsub after which the server may have the job: all other complaints are refusals."""

ENDED = frozenset("CFMX")
SHOW_ALL = "qmgr -c 'set server query_other_jobs = True'"

_JOB = re.compile(r"\d+(?:\[\])?(?:\.[\w.-]+)?")
_OF_TEXT = re.compile(r"^Job Id: (\S+)$(.*?)(?=^Job Id: |\Z)", re.MULTILINE | re.DOTALL)
_OF_XML = re.compile(r"<Job>.*?<Job_Id>([^<]+)</Job_Id>(.*?)</Job>", re.DOTALL)
_JOB_STATE = re.compile(r"job_state(?: = |>)(\w)")
_OF_KEY = re.compile(rf"\b{KEY}=([\w.-]+)")
_RIGHTS = re.compile(r"^\s*(manager|operator)s = (.*)$", re.MULTILINE)
_FOLD = re.compile(r"\n\t")


class PbsBatch:
    """The commands that Torque and OpenPBS have in common; `qstat -fx` of both is parsed, text or XML."""

    def rights_commands(self, user: str) -> Sequence[Sequence[str]]:
        """Return qstat for the server, which lists its managers and operators to every user."""
        del user
        return (("qstat", "-Bf"),)

    def admin_right(self, user: str, answers: Sequence[str]) -> str:
        """Return which list of the server names the user, from any host."""
        server = _FOLD.sub("", answers[0])
        if "server_state" not in server:
            return "unknown (qstat -Bf shows no server)"
        for role, listed in _RIGHTS.findall(server):
            if any(fnmatch(user, entry.strip().partition("@")[0]) for entry in listed.split(",")):
                return f"PBS {role}"
        return ""

    def submit_command(self, submission: JobSubmission) -> Sequence[str]:
        """Return qsub, its script on standard input."""
        hours, rest = divmod(submission.limit_s, HOUR_S)
        options = ["-l", f"walltime={hours:02d}:{rest // 60:02d}:{rest % 60:02d}"]
        if submission.cores is not None:
            nodes = -(-submission.cores // submission.cores_per_node)
            options += ["-l", f"nodes={nodes}:ppn={min(submission.cores, submission.cores_per_node)}"]
        if submission.name:
            options += ["-N", submission.name[:LONGEST_NAME]]
        return ("timeout", str(SUBMIT_S), "qsub", *options, "-v", variables_of(submission))

    def submitted_job(self, result: BatchResult) -> str:
        """Return the id that qsub prints."""
        last = (result.output.strip().splitlines() or [""])[-1]
        return last if result.code == 0 and _JOB.fullmatch(last) else ""

    def refusal(self, result: BatchResult) -> str:
        """Return qsub's complaint, "" if the server may have taken the job nevertheless."""
        complaint = result.complaint.strip()
        if result.code in (None, 0, 124) or any(sign in complaint.lower() for sign in MAYBE_TAKEN):
            return ""
        return (complaint.splitlines() or [f"qsub ended with {result.code}"])[-1].removeprefix("qsub: ")

    def list_command(self) -> Sequence[str]:
        """Return qstat in full: OpenPBS adds the ended jobs that it keeps, Torque prints XML."""
        return ("qstat", "-fx")

    def fallback_command(self, result: BatchResult) -> Sequence[str]:
        """Return qstat for the jobs that have not ended: with -x an OpenPBS without a job history shows no job."""
        return ("qstat", "-f") if NO_HISTORY in result.complaint else ()

    def find_by_key(self, output: str, *, key: str) -> BatchJob | None:
        """Return the job whose variables have the key, the last one if a user's own variables also contain it."""
        return _only_job([job for job, text in _jobs(output) if _OF_KEY.findall(text)[-1:] == [key]])

    def find_by_id(self, output: str, *, job: str) -> BatchJob | None:
        """Return the job of that id."""
        return _only_job([listed for listed, _ in _jobs(output) if listed.job == job])

    def count_command(self) -> Sequence[str]:
        """Return qstat for the server, which counts its jobs: an empty list alone does not say that there is no job."""
        return ("qstat", "-Bf")

    def find_gap(self, output: str, server: str) -> str:
        """Return why a job may be missing in the list, "" if the server counts no more; an array counts as any number.

        Without query_other_jobs an account sees only its own jobs: a list of some is believed, one of none is not.
        """
        jobs = [job for job, _ in _jobs(output)]
        attributes = next(iter(parse_attributes(server.encode()).values()), {})
        if "state_count" not in attributes:
            return "qstat -Bf shows no server"
        shown, counted = sum(job.state not in ENDED for job in jobs), count_jobs(attributes)
        if shown >= counted or any("[]" in job.job for job in jobs):
            return ""
        if attributes.get("query_other_jobs") == "True":
            return f"qstat shows {shown} jobs, and the server counts {counted}"
        return "" if jobs else f"qstat shows no job of this account, and the server counts {counted} of all: {SHOW_ALL}"

    def cancel_command(self, job: str) -> Sequence[str]:
        """Return qdel."""
        return ("qdel", job)


def variables_of(submission: JobSubmission) -> str:
    """Return the owner's variables with the key and the latest finish."""
    ours = [
        f"{KEY}={submission.key}",
        *([f"{DEADLINE}={submission.latest_finish}"] if submission.latest_finish else []),
    ]
    return ",".join([*([submission.variables] if submission.variables else []), *ours])


def _only_job(found: list[BatchJob]) -> BatchJob | None:
    """Return the one job. Raises SchedulerError for several: a line break in a job's variables can forge a record."""
    if len(found) > 1:
        jobs = ", ".join(job.job for job in found)
        raise SchedulerError(f"several jobs look like the one: {jobs}", hint="see `qstat -f` for a forged job record")
    return found[0] if found else None


def _jobs(output: str) -> Iterator[tuple[BatchJob, str]]:
    whole = _FOLD.sub("", output)
    for job, text in (*_OF_TEXT.findall(whole), *_OF_XML.findall(whole)):
        state = _JOB_STATE.search(text)
        yield BatchJob(job, state[1] if state else "?"), text
