"""Runs Slurm's commands: a query returns its output as bytes, orders to scontrol return its complaints.

A failure is one line that says why there is no answer. An order is one line on scontrol's standard input, as one
process for each job takes ten times as long. scontrol continues after an error and prints the errors, with the number
of the job, on standard error.
"""

import logging
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice

from offpeak.errors import SchedulerError

# English messages, and times as Unix seconds: answers depend on no language and no time zone.
PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
# Defaults that a user may have exported: SQUEUE_PARTITION, for example, would hide jobs.
DEFAULTS = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_JSON", "SLURM_YAML")

LOG = logging.getLogger("offpeak")
SLOWED_DOWN = "RPC rate limited"
"""A command prints this if slurmctld made it wait; its answer is complete."""

TRY_LATER = "a service of Slurm may be down or busy: check with `scontrol ping` and `sacctmgr ping`, then try again"

RETRIES = "retrying in"
NO_CONFIGURATION = "run this on a machine of the cluster, or `export SLURM_CONF=/path/to/slurm.conf`"

_KNOWN = (
    (
        "accounting storage is disabled",
        "Slurm keeps no accounting here: accounting storage is disabled",
        "set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf, or give a log of jobcomp/filetxt",
    ),
    (
        "Could not establish a configuration source",
        "Slurm's configuration is not found",
        NO_CONFIGURATION,
    ),
    (
        "Too wide of a date range",
        "slurmdbd refuses a query over so many days",
        "request fewer days, or raise MaxQueryTimeRange in slurmdbd.conf",
    ),
)


class CannotAskSlurm(SchedulerError):
    """Slurm's command is missing, refuses, or has no answer: a repetition gives the same result."""


class SlurmIsSilent(CannotAskSlurm):
    """A service of Slurm does not answer now; it may answer later."""


def ask(program: str, *arguments: str, timeout_s: float) -> bytes:
    """Return the command's output; CannotAskSlurm if it fails, SlurmIsSilent if Slurm does not answer in time."""
    try:
        done = subprocess.run(
            [program, *arguments],
            env=plain_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        raise _timeout_error(program, problem.stderr or b"", timeout_s) from None
    except OSError as problem:
        raise _cannot_start(program, problem) from None
    complaint = done.stderr.decode(errors="replace").strip()
    # A command that cannot answer ends with an error; other complaints are logged. An empty answer with a complaint
    # counts as an error, too: it would mean that there is no job, or no node.
    if done.returncode or (complaint and not done.stdout.strip() and SLOWED_DOWN not in complaint):
        raise _failure(program, complaint)
    if complaint:
        _log_once(program, complaint)
    return done.stdout


def _timeout_error(program: str, stderr: bytes, timeout_s: float) -> CannotAskSlurm:
    """Return the error of a command that was ended: its output may show what it was waiting for."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if RETRIES in line]
    if lines:
        # It reads its configuration repeatedly, for a minute.
        message = lines[-1].partition("error: ")[2] or lines[-1]
        return CannotAskSlurm(f"{program}: {message.partition(RETRIES)[0].strip(' ,')}", hint=NO_CONFIGURATION)
    return SlurmIsSilent(f"{program}: no answer within {timeout_s:g} s", hint=TRY_LATER)


@lru_cache(maxsize=256)
def _log_once(program: str, complaint: str) -> None:
    """Log a command's complaint beside its answer, once."""
    LOG.warning("%s answered, and complained: %s", program, " | ".join(complaint.splitlines()))


def plain_environment() -> dict[str, str]:
    """Return the environment of Slurm's commands: they print the same for each user."""
    return {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)} | PLAIN


def _cannot_start(program: str, problem: OSError) -> CannotAskSlurm:
    if not isinstance(problem, FileNotFoundError):
        return CannotAskSlurm(f"{program}: cannot be run: {problem.strerror}", hint=f"try `{program} --version`")
    hint = "run this where Slurm's commands are, or add their folder to PATH: export PATH=$PATH:/opt/slurm/bin"
    return CannotAskSlurm(f"{program}: not found on PATH", hint=hint)


def _failure(program: str, complaint: str) -> CannotAskSlurm:
    for sign, message, hint in _KNOWN:
        if sign in complaint:
            return CannotAskSlurm(f"{program}: {message}", hint=hint)
    lines = complaint.strip().splitlines() or ["failed and gave no reason"]
    last = lines[-1].removeprefix(f"{program}: ").removeprefix("error: ")
    if "Connection refused" in complaint or "Unable to contact" in complaint or "timed out" in complaint:
        return SlurmIsSilent(f"{program}: {last}", hint=TRY_LATER)
    return CannotAskSlurm(f"{program}: {last}", hint=f"run `{program}` by hand to see more")


# One process with 10,000 orders takes longer than twenty with 500.
CHUNK = 500
LIMITED_CHUNK = 40
"""Used where slurmctld limits the requests of a user: one command then ends within half a minute."""

_OF_JOB = re.compile(r"(.*) for job (\S+)")
_SILENT = re.compile("Unable to contact|Connection refused|timed out|Unexpected message received|Zero Bytes")
_RIGHTS = "root, SlurmUser and Slurm's Administrators may: see `command` below [slurm], or `sacctmgr modify user`"


def complaints_by_job(
    orders: Iterable[str], *, command: Sequence[str], timeout_s: float, order_s: float = 0.0
) -> dict[str, str]:
    """Give scontrol one order a line and return its complaint about each job that it did not change.

    `order_s` is how long slurmctld makes one order wait, where it limits the requests of a user.
    CannotAskSlurm if it fails and names no job, SlurmIsSilent if slurmctld does not answer in time.
    """
    complaints: dict[str, str] = {}
    remaining = iter(orders)
    while chunk := list(islice(remaining, LIMITED_CHUNK if order_s else CHUNK)):
        lines = run_scontrol((), command=command, timeout_s=timeout_s + order_s * len(chunk), orders=chunk)
        of_jobs = [match for match in map(_OF_JOB.fullmatch, lines) if match]
        if lines and (not of_jobs or any(_SILENT.search(line) for line in lines)):
            raise failure(lines)
        complaints |= {match[2]: match[1] for match in of_jobs}
    return complaints


def complaint_of_one(arguments: Sequence[str], sign: str, *, command: Sequence[str], timeout_s: float) -> str:
    """Give scontrol one order and return the line of its complaint that matches the sign, "" if it did it.

    CannotAskSlurm if it fails without such a line, SlurmIsSilent if slurmctld does not answer in time.
    """
    lines = run_scontrol(arguments, command=command, timeout_s=timeout_s)
    signed = [line for line in lines if re.search(sign, line) and not _SILENT.search(line)]
    if lines and not signed:
        raise failure(lines)
    return signed[-1] if signed else ""


def run_scontrol(
    arguments: Sequence[str], *, command: Sequence[str], timeout_s: float, orders: Sequence[str] = ()
) -> list[str]:
    """Run scontrol behind the prefix `command`; return the lines of its complaint, [] if it did all."""
    program = (*command, "scontrol")
    try:
        done = subprocess.run(
            [*program, *arguments],
            env=plain_environment(),
            input="".join(f"{order}\n" for order in orders).encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SlurmIsSilent(f"scontrol: no answer within {timeout_s:g} s", hint=TRY_LATER) from None
    except OSError as problem:
        hint = f"try `{' '.join(program)} ping`"
        raise CannotAskSlurm(f"{program[0]}: cannot be run: {problem.strerror}", hint=hint) from None
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    # Output of a run without errors is no complaint: warnings about slurm.conf, warnings of sudo.
    return (lines or ["failed and gave no reason"]) if done.returncode else []


def failure(lines: Sequence[str]) -> CannotAskSlurm:
    """Return the error for a complaint that concerns more than one job or node."""
    last = next((line for line in lines if _SILENT.search(line)), lines[-1])
    message = f"scontrol: {last.removeprefix('scontrol: ').removeprefix('error: ')}"
    return SlurmIsSilent(message, hint=TRY_LATER) if _SILENT.search(last) else CannotAskSlurm(message, hint=_RIGHTS)
