"""One question to one of Slurm's commands: its answer as bytes, or one line that says why there is none."""

import logging
import os
import subprocess
from functools import lru_cache

from offpeak.errors import SchedulerError

# English messages, and times as Unix seconds: no language, no clock change can make an answer ambiguous.
PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
# Defaults that somebody may have exported for himself: one such as SQUEUE_PARTITION would hide jobs.
DEFAULTS = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_JSON", "SLURM_YAML")

LOG = logging.getLogger("offpeak")
SLOWED_DOWN = "RPC rate limited"
"""What a command says that slurmctld made wait, and that has its answer all the same."""

TRY_LATER = "a service of Slurm may be down or busy: `scontrol ping` and `sacctmgr ping` ask for them; then try again"

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
        "ask for fewer days, or raise MaxQueryTimeRange in slurmdbd.conf",
    ),
)


class CannotAskSlurm(SchedulerError):
    """Slurm's command is missing, refuses, or knows nothing: asking again gives the same answer."""


class SlurmIsSilent(CannotAskSlurm):
    """A service of Slurm does not answer now; asking again later may help."""


def ask(program: str, *arguments: str, timeout_s: float) -> bytes:
    """Return what the command prints; CannotAskSlurm if it fails, SlurmIsSilent if nobody answers in time."""
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
        raise _in_vain(program, problem.stderr or b"", timeout_s) from None
    except OSError as problem:
        raise _cannot_start(program, problem) from None
    complaint = done.stderr.decode(errors="replace").strip()
    # Slurm ends with an error where it could not answer; what else it complains of is for the log. An empty answer with
    # a complaint is trusted less: it would say that there is no job, or no node.
    if done.returncode or (complaint and not done.stdout.strip() and SLOWED_DOWN not in complaint):
        raise _failure(program, complaint)
    if complaint:
        _report(program, complaint)
    return done.stdout


def _in_vain(program: str, stderr: bytes, timeout_s: float) -> CannotAskSlurm:
    """Return the error of a command that was ended: it may have said by then what it waits for."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if RETRIES in line]
    if lines:
        # It reads its configuration again and again, for a minute.
        said = lines[-1].partition("error: ")[2] or lines[-1]
        return CannotAskSlurm(f"{program}: {said.partition(RETRIES)[0].strip(' ,')}", hint=NO_CONFIGURATION)
    return SlurmIsSilent(f"{program}: no answer within {timeout_s:g} s", hint=TRY_LATER)


@lru_cache(maxsize=256)
def _report(program: str, complaint: str) -> None:
    """Log once what a command complained of although it answered."""
    LOG.warning("%s answered, and complained: %s", program, " | ".join(complaint.splitlines()))


def plain_environment() -> dict[str, str]:
    """Return the environment of Slurm's commands: they answer the same whoever runs them."""
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
    lines = complaint.strip().splitlines() or ["failed and did not say why"]
    last = lines[-1].removeprefix(f"{program}: ").removeprefix("error: ")
    if "Connection refused" in complaint or "Unable to contact" in complaint or "timed out" in complaint:
        return SlurmIsSilent(f"{program}: {last}", hint=TRY_LATER)
    return CannotAskSlurm(f"{program}: {last}", hint=f"run `{program}` by hand to see more")
