"""What scontrol is told: orders to change something, and what it complains of.

An order is one line on its standard input, as one process for each job would take ten times as long. It goes on after
an error; the errors are on standard error, with the job's number.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from itertools import islice

from plugin.slurm.ask import TRY_LATER, CannotAskSlurm, SlurmIsSilent, plain_environment

# Of one process with 10,000 orders the scheduler hears longer than of twenty with 500.
CHUNK = 500
LIMITED_CHUNK = 40
"""Where slurmctld limits how often a user may ask: so that one command ends within half a minute."""

_OF_JOB = re.compile(r"(.*) for job (\S+)")
_SILENT = re.compile("Unable to contact|Connection refused|timed out|Unexpected message received|Zero Bytes")
_RIGHTS = "root, SlurmUser and Slurm's Administrators may: see `command` below [slurm], or `sacctmgr modify user`"


def complaints_by_job(
    orders: Iterable[str], *, command: Sequence[str], timeout_s: float, order_s: float = 0.0
) -> dict[str, str]:
    """Give scontrol one order a line and return what it says of each job that it did not change.

    `order_s` is how long slurmctld makes one order wait, where it limits how often a user may ask.
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
    """Run scontrol with what has to stand before it; return the lines of its complaint, [] if it did all."""
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
    # What it says although it did all is no complaint: warnings of slurm.conf, of sudo.
    return (lines or ["failed and did not say why"]) if done.returncode else []


def failure(lines: Sequence[str]) -> CannotAskSlurm:
    """Return the error for a complaint that concerns more than one job or node."""
    last = next((line for line in lines if _SILENT.search(line)), lines[-1])
    told = f"scontrol: {last.removeprefix('scontrol: ').removeprefix('error: ')}"
    return SlurmIsSilent(told, hint=TRY_LATER) if _SILENT.search(last) else CannotAskSlurm(told, hint=_RIGHTS)
