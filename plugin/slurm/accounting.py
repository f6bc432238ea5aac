"""Reads the jobs of the last days from Slurm's accounting, by `sacct`."""

import os
import pwd
import secrets
from io import BytesIO
from itertools import islice

from offpeak.model.limits import Allowance, PreemptMode, Qos
from plugin.slurm.commands import CannotAskSlurm, ask, count, limit_s, parts

SACCT_COLUMNS = (
    "JobIDRaw",
    "JobID",
    "User",
    "Account",
    "Partition",
    "State",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "AllocNodes",
    "AllocCPUS",
    "ConsumedEnergyRaw",
    "ReqTRES",
    "AllocTRES",
    "QOS",
    "Reservation",
    "Constraints",
    "NodeList",
    "Priority",
    # Last, because users may write anything into it.
    "JobName",
)
DELIMITER = "\x1f"

# A year of a large site is millions of rows to slurmdbd.
LONG_S = 1800.0
SHORT_S = 60.0


def sacct_text(days: int, *, timeout_s: float = LONG_S) -> bytes:
    """Return the jobs of all users that were queued or ran within the last `days`, one line a run, with a header.

    Columns are SACCT_COLUMNS, separated by DELIMITER; times are Unix seconds or a text such as Unknown. A requeued job
    has a line for each run. Raises CannotAskSlurm if accounting is off or shows only the user's own jobs, SlurmIsSilent
    if it is down.
    """
    # No user can guess this text and write lines of other jobs into the name of a job.
    between = f"{DELIMITER}{secrets.token_hex(8)}{DELIMITER}"
    arguments = (
        "--allusers",
        "--allocations",
        "--duplicates",
        "--parsable2",
        f"--delimiter={between}",
        f"--starttime=now-{days}days",
        f"--format={','.join(SACCT_COLUMNS)}",
    )
    text = _rows(ask("sacct", *arguments, timeout_s=timeout_s), between.encode())
    if os.geteuid() != 0 and not _shows_others(text) and _jobs_are_private():
        hint = "run this as root or SlurmUser, or `sacctmgr modify user NAME set adminlevel=operator`"
        raise CannotAskSlurm("sacct shows only your own jobs: PrivateData=jobs in slurmdbd.conf", hint=hint)
    return text


def _rows(answer: bytes, between: bytes) -> bytes:
    """Return the complete rows with the plain delimiter: a line break in a job's name makes an incomplete row."""
    rows = (line.split(between) for line in answer.split(b"\n"))
    return b"".join(DELIMITER.encode().join(row) + b"\n" for row in rows if len(row) == len(SACCT_COLUMNS))


def _shows_others(text: bytes) -> bool:
    user, mine = SACCT_COLUMNS.index("User"), _own_name().encode()
    rows = (line.split(DELIMITER.encode()) for line in islice(BytesIO(text), 1, None))
    return any(row[user] != mine for row in rows if len(row) > user)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # Slurm, too, shows the number of a user without a name.
        return str(os.geteuid())


def _jobs_are_private() -> bool:
    lines = ask("sacctmgr", "--noheader", "show", "configuration", timeout_s=SHORT_S).decode(errors="replace")
    ours = lines.partition("SlurmDBD configuration")[2].splitlines()
    return any("jobs" in line for line in ours if line.startswith("PrivateData"))


QOS_COLUMNS = (
    *("Name", "Priority", "Preempt", "PreemptMode", "PreemptExemptTime"),
    *("GrpTRES", "GrpJobs", "MaxTRESPU", "MaxJobsPU"),
)


def read_qos(*, mode: PreemptMode = PreemptMode.REQUEUE, timeout_s: float = SHORT_S) -> dict[str, Qos]:
    """Return the QOS with their limits by name, none if slurmdbd hides them; `mode` is the cluster's PreemptMode."""
    columns = f"format={','.join(QOS_COLUMNS)}"
    try:
        answer = ask("sacctmgr", "--noheader", "--parsable2", "show", "qos", columns, timeout_s=timeout_s)
    except CannotAskSlurm:
        return {}
    return parse_qos(answer.decode(errors="replace"), mode)


def parse_qos(text: str, mode: PreemptMode = PreemptMode.REQUEUE) -> dict[str, Qos]:
    """Return the QOS of `sacctmgr --parsable2 show qos` with QOS_COLUMNS; a line with other columns is left out.

    Those without a PreemptMode of their own have that of the cluster.
    """
    rows = (line.split("|") for line in text.splitlines())
    found = [
        Qos(
            name,
            group=_allowance(group_jobs, group),
            per_user=_allowance(user_jobs, per_user),
            priority=count(priority),
            preempts=frozenset(parts(preempts)),
            preempt_mode=mode if own_mode in ("", "cluster") else parse_preempt_mode(own_mode),
            exempt_s=limit_s(exempt) if exempt else None,
        )
        for name, priority, preempts, own_mode, exempt, group, group_jobs, per_user, user_jobs in (
            row for row in rows if len(row) == len(QOS_COLUMNS) and row[0]
        )
    ]
    return {qos.name: qos for qos in found}


def parse_preempt_mode(text: str) -> PreemptMode:
    """Return what a PreemptMode such as REQUEUE or SUSPEND,GANG does to jobs: nothing, if it is not known."""
    named = (name for name in parts(text.lower()) if name not in ("gang", "within"))
    mode = next(named, "")
    return PreemptMode(mode) if mode in tuple(PreemptMode) else PreemptMode.OFF


def _allowance(jobs: str, tres: str) -> Allowance:
    """Return the limits of a column of jobs and one of TRES. Limits of a type of GPUs are left out."""
    most = dict(entry.partition("=")[::2] for entry in tres.split(",") if entry)
    numbers = {name: count(value) for name, value in most.items() if value.isdecimal()}
    return Allowance(
        jobs=count(jobs) if jobs.isdecimal() else None,
        nodes=numbers.get("node"),
        cores=numbers.get("cpu"),
        gpus=numbers.get("gres/gpu"),
    )
