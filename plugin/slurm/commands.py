"""Runs Slurm's commands, and parses the values that their answers share, in text and in JSON.

A query returns its output as bytes, orders to scontrol return its complaints.

A failure is one line that says why there is no answer. An order is one line on scontrol's standard input, as one
process for each job takes ten times as long. scontrol continues after an error and prints the errors, with the number
of the job, on standard error.

In text the shared values are placeholders for a missing value, times, numbers with a unit, and the lines of `scontrol
show config`. In JSON it depends on the version of Slurm whether numbers are wrapped and whether states are lists.
"""

import json
import logging
import math
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from offpeak.errors import SchedulerError
from offpeak.plugin.scheduler.job import LATEST_S, MOST_MEMORY_MIB, MOST_NUMBER, bounded_limit_s
from offpeak.process import UNENDED_HINT, find_unended_orders, order_allowed_s, run_order

# English messages, times as Unix seconds, and complete lists of array tasks: answers depend on no language, no time
# zone and no width.
PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "SLURM_BITSTR_LEN": "0"}
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
    ("Could not establish a configuration source", "Slurm's configuration is not found", NO_CONFIGURATION),
    (
        "Too wide of a date range",
        "slurmdbd refuses a query over so many days",
        "request fewer days, or raise MaxQueryTimeRange in slurmdbd.conf",
    ),
)

HEADER = b"JOBID"
"""The first word of squeue's answer. An answer without it, even with exit code 0, does not say that there is no job."""

NO_JOBS = b"No jobs in the system"
NOT_SHOWN = "squeue: shows no job, and scontrol shows some"
NOT_SHOWN_HINT = "compare `squeue --all --states=all` with `scontrol show jobs`: nothing is done until both agree"

# One process with 10,000 orders takes longer than twenty with 500.
CHUNK = 500
LIMITED_CHUNK = 40
"""Used where slurmctld limits the requests of a user: one command then ends within half a minute."""
LEASED_CHUNK = 50
"""Used while orders are allowed for a short time only: a command ends with it."""

_OF_JOB = re.compile(r"(.*) for job (\S+)")
_OF_TASKS = re.compile(r"(\d+)_[\d,:%\[\]-]+: (.*)")
CHANGED = "No error"
"""What scontrol prints of the tasks of an array that it did change, where it did not change others."""
_SILENT = re.compile("Unable to contact|Connection refused|timed out|Unexpected message received|Zero Bytes")
_RIGHTS = "root, SlurmUser and Slurm's Administrators may: see `command` below [slurm], or `sacctmgr modify user`"

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "Never", "NOW"})
"""Slurm's placeholders for a missing value."""

LONGEST_NUMBER = 30
"""Digits of a number; Slurm prints 20 at most."""
_TIME_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_FACTORS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

Record = Mapping[str, Any]


class CannotAskSlurm(SchedulerError):
    """Slurm's command is missing, refuses, or has no answer: a repetition gives the same result."""


class SlurmIsSilent(CannotAskSlurm):
    """A service of Slurm does not answer now; it may answer later."""


def ask(program: str, *arguments: str, timeout_s: float) -> bytes:
    """Return the command's output. Raises CannotAskSlurm if it fails, SlurmIsSilent if Slurm is not in time."""
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
        raise _failure(program, complaint or _not_found(done.stdout))
    # It prints a line even if there is nothing to show. JSON that was cut off cannot be parsed.
    if program == "scontrol" and "--json" not in arguments and not done.stdout.endswith(b"\n"):
        message = f"scontrol {' '.join(arguments)}: its answer is {'not complete' if done.stdout else 'empty'}"
        raise CannotAskSlurm(message, hint="is scontrol Slurm's own program? run it by hand")
    if complaint:
        _log_once(program, complaint)
    return done.stdout


def rows_of_squeue(answer: bytes, end: bytes = b"\n") -> list[bytes]:
    """Return the rows below the header of an answer whose columns begin with the job's number.

    Raises CannotAskSlurm if the header or the end of the last row is missing: rows may be missing, too.
    """
    header, *rows = answer.split(end)
    if not header.startswith(HEADER) or not rows or rows.pop():
        message = "squeue: its answer is not complete" if answer else "squeue: its answer is empty"
        raise CannotAskSlurm(
            message, hint="is squeue Slurm's own program? run it by hand: even without jobs it has a header"
        )
    return rows


def require_no_unended() -> None:
    """Raise SlurmIsSilent while an order that ran out of time still runs: it may be carried out at any moment."""
    if unended := find_unended_orders():
        raise SlurmIsSilent(
            f"scontrol: an order has run out of time, and cannot be ended: {unended}", hint=UNENDED_HINT
        )


def _not_found(output: bytes) -> str:
    """Return the lines about nodes that scontrol does not know, which are among the records of the others."""
    return "\n".join(line for line in output.decode(errors="replace").splitlines() if line.endswith(" not found"))


def scontrol_shows_jobs(timeout_s: float) -> bool:
    """Whether scontrol, which is independent of squeue, shows a job in any state."""
    return ask("scontrol", "--all", "--local", "--oneliner", "show", "jobs", timeout_s=timeout_s).strip() != NO_JOBS


def _timeout_error(program: str, stderr: bytes, timeout_s: float) -> CannotAskSlurm:
    """Return the error of a command that timed out: its output may show what it was waiting for."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if RETRIES in line]
    if lines:
        # It reads its configuration repeatedly, for a minute.
        message = lines[-1].partition("error: ")[2] or lines[-1]
        return CannotAskSlurm(f"{program}: {message.partition(RETRIES)[0].strip(' ,')}", hint=NO_CONFIGURATION)
    return SlurmIsSilent(f"{program}: no answer within {timeout_s:g} s", hint=TRY_LATER)


@lru_cache(maxsize=256)
def _log_once(program: str, complaint: str) -> None:
    """Log once the errors that a command printed although it answered."""
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


def complaints_by_job(
    orders: Iterable[str], *, command: Sequence[str], timeout_s: float, order_s: float = 0.0
) -> dict[str, str]:
    """Give scontrol one order a line and return its complaint about each job that it did not change.

    `order_s` is how long slurmctld makes one order wait, where it limits the requests of a user.
    Raises CannotAskSlurm if it fails and names no job, SlurmIsSilent if slurmctld does not answer in time.
    """
    complaints: dict[str, str] = {}
    remaining = iter(orders)
    while chunk := list(islice(remaining, _chunk_size(order_s))):
        lines = run_scontrol((), command=command, timeout_s=timeout_s + order_s * len(chunk), orders=chunk)
        of_jobs = [match for match in map(_OF_JOB.fullmatch, lines) if match]
        if lines and (not of_jobs or any(_SILENT.search(line) for line in lines)):
            raise failure(lines)
        complaints |= {match[2]: match[1] for match in of_jobs}
    return complaints


def _chunk_size(order_s: float) -> int:
    most = LIMITED_CHUNK if order_s else CHUNK
    if math.isinf(allowed_s := order_allowed_s()):
        return most
    return max(1, min(most, LEASED_CHUNK, int(allowed_s / 2 / order_s) if order_s else LEASED_CHUNK))


def complaint_of_one(
    arguments: Sequence[str], sign: str, *, command: Sequence[str], timeout_s: float, on_input: bool = False
) -> str:
    """Give scontrol one order and return the line of its complaint that matches the sign, "" if it did it.

    Raises CannotAskSlurm if it fails without such a line, SlurmIsSilent if slurmctld does not answer in time.
    """
    lines = run_scontrol(arguments, command=command, timeout_s=timeout_s, on_input=on_input)
    signed = [line for line in lines if re.search(sign, line) and not _SILENT.search(line)]
    if lines and not signed:
        raise failure(lines)
    return signed[-1] if signed else ""


def run_scontrol(
    arguments: Sequence[str],
    *,
    command: Sequence[str],
    timeout_s: float,
    orders: Sequence[str] = (),
    name: str = "scontrol",
    on_input: bool = False,
) -> list[str]:
    """Run scontrol, or another program, behind the prefix `command`; return the lines of its complaint, if any.

    `on_input`: the arguments are a line of its standard input, which is held back until sudo has started it. Raises
    OrderTooLate if an order is no longer allowed when the program is ready.
    """
    require_no_unended()
    if on_input:
        arguments, orders = (), (" ".join(arguments),)
    program = (*command, name)
    text = "".join(f"{order}\n" for order in orders)
    try:
        done = run_order(
            (name, *arguments), behind=command, environment=plain_environment(), text=text, timeout_s=timeout_s
        )
    except subprocess.TimeoutExpired as problem:
        late = "; it cannot be ended, and may still be carried out" if find_unended_orders() else ""
        raise SlurmIsSilent(f"{name}: no answer within {problem.timeout:.3g} s{late}", hint=TRY_LATER) from None
    except OSError as problem:
        hint = f"try `{' '.join(program)} ping`"
        raise CannotAskSlurm(f"{program[0]}: cannot be run: {problem.strerror}", hint=hint) from None
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    if done.returncode and any(map(_OF_TASKS.fullmatch, lines)) and not (lines := _join_tasks(lines)):
        return []
    # Output of a run without errors is no complaint: warnings about slurm.conf, warnings of sudo.
    return (lines or ["failed and gave no reason"]) if done.returncode else []


def _join_tasks(lines: Sequence[str]) -> list[str]:
    """Return the complaints with one for each array: none if scontrol changed some of its tasks."""
    others = [line for line in lines if not _OF_TASKS.fullmatch(line)]
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_OF_TASKS.fullmatch, lines)):
        found.setdefault(match[1], []).append(match[2])
    # The last line concerns the tasks with the highest numbers: those that still wait, if any do.
    return others + [f"{whys[-1]} for job {array}" for array, whys in found.items() if CHANGED not in whys]


def failure(lines: Sequence[str]) -> CannotAskSlurm:
    """Return the error for a complaint that concerns more than one job or node."""
    last = next((line for line in lines if _SILENT.search(line)), lines[-1])
    message = f"scontrol: {last.removeprefix('scontrol: ').removeprefix('error: ')}"
    return SlurmIsSilent(message, hint=TRY_LATER) if _SILENT.search(last) else CannotAskSlurm(message, hint=_RIGHTS)


def plain(text: str) -> str:
    """Return the text, "" for a placeholder."""
    return "" if text in NOTHING else text


def unix_s(text: str) -> int | None:
    """Return a time as Unix seconds, None if there is none: a number, or a time without a zone, read as UTC."""
    return min(_whole(text), LATEST_S) or None if text.isdecimal() else _written_s(text)


@lru_cache(maxsize=4096)
def _written_s(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def limit_s(text: str) -> int | None:
    """Return a time limit such as 1-02:03:04 or 30:00 in seconds; None if there is none, such as UNLIMITED."""
    if not (match := _TIME_LIMIT.fullmatch(text)):
        return None
    days, hours, minutes, seconds = (_whole(part or "0") for part in match.groups())
    return bounded_limit_s(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def count(text: str) -> int:
    """Return a number such as 12, the lower of 2-4, or 1.50K as 1536; 0 if there is none."""
    return min(_whole(text), MOST_NUMBER) if text.isdecimal() else _written_count(text)


@lru_cache(maxsize=4096)
def _written_count(text: str) -> int:
    match = _NUMBER.match(text)
    return min(_scaled(match[1], _FACTORS[match[2]]), MOST_NUMBER) if match else 0


@lru_cache(maxsize=4096)
def memory_mib(text: str) -> int:
    """Return a memory such as 1500M or 1.50G in MiB, 0 if there is none; a bare number is in MiB."""
    match = _NUMBER.match(text)
    return min(_scaled(match[1], _FACTORS[match[2] or "M"]) // 1024**2, MOST_MEMORY_MIB) if match else 0


def _scaled(digits: str, power: int) -> int:
    # Counts above 2**53 are no floating point numbers.
    unit = 1 << 10 * power
    return _whole(digits) * unit if digits.isdecimal() else round(float(digits[:LONGEST_NUMBER]) * unit)


def _whole(digits: str) -> int:
    return int(digits if len(digits) <= LONGEST_NUMBER else LONGEST_NUMBER * "9")


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[str, ...]:
    """Return the entries of a list with commas."""
    return tuple(part for part in text.split(",") if part) if text not in NOTHING else ()


def parse_config(text: bytes) -> dict[str, str]:
    """Return the configuration of slurmctld; "" for settings without a value."""
    lines = (line.partition(" = ") for line in text.decode(errors="replace").splitlines())
    return {name.strip(): plain(value.strip()) for name, sign, value in lines if sign}


def json_records(answer: bytes, *names: str, source: str) -> list[Record]:
    """Return the records below the first of these names that the answer has.

    Raises CannotAskSlurm if it is not JSON, has none of them, or lists an error: Slurm then leaves records out.
    """
    try:
        # Slurm prints the bytes of users as they are, also those that are no UTF-8.
        document = json.loads(answer.decode(errors="replace"))
    except ValueError:
        raise CannotAskSlurm(f"{source}: its answer is no JSON", hint='write read = "text" below [slurm]') from None
    errors = document.get("errors") if isinstance(document, dict) else ["no object"]
    if errors:
        raise CannotAskSlurm(f"{source}: {_first_error(errors)}", hint='write read = "text" below [slurm]')
    found = next((document[name] for name in names if isinstance(document.get(name), list)), None)
    if found is None:
        raise CannotAskSlurm(f"{source}: its answer has no {names[0]}", hint='write read = "text" below [slurm]')
    return [record for record in found if isinstance(record, dict)]


def get_number(record: Record, name: str) -> int | None:
    """Return a number, wrapped as {set, infinite, number} or not; None if it is not set or has no end."""
    value = record.get(name)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(max(-MOST_NUMBER, min(value, MOST_NUMBER)))


def get_time_s(record: Record, name: str) -> int | None:
    """Return a time in Unix seconds; None for 0 too."""
    return min(get_number(record, name) or 0, LATEST_S) or None


def get_text(record: Record, name: str) -> str:
    """Return a text, "" for none; a list becomes its entries with commas."""
    value = record.get(name)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else ""


def get_list(record: Record, name: str) -> tuple[str, ...]:
    """Return a list of texts, also where the answer has them in one text with commas."""
    return tuple(entry for entry in get_text(record, name).split(",") if entry)


def _first_error(errors: object) -> str:
    first = errors[0] if isinstance(errors, Sequence) and errors else errors
    if isinstance(first, dict):
        return str(first.get("description") or first.get("error") or "an error without a text")
    return str(first)
