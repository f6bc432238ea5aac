"""Runs PBS's commands: a query gives what it prints, an order to change jobs gives the complaints, by job.

A failure is one line that says why the command did not answer. Servers of both kinds are known to hang for minutes:
each call has a time-out, and after one time-out no command is run for a while. A job's number is checked before it
becomes an argument: a command must not take it for an option or for another job.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from offpeak.errors import SchedulerError

# English messages, and times of Greenwich: qstat writes them, and qalter reads them, by the clock of whoever asks.
PLAIN = {"LC_ALL": "C", "TZ": "UTC"}
# Defaults that somebody may have exported for himself.
DEFAULTS = ("PBS_QSTAT", "PBS_DPREFIX")
PAUSE_S = 30.0

TRY_LATER = "the PBS server may be down or busy: `qstat -B` asks for it; then try again"

NOT_PROVED = (
    "PBS's command could not prove its user's name. As root run `offpeak check`, which asks as the agent does; "
    "its unit needs the drop-in of deploy/openpbs or deploy/torque, OpenPBS a setuid pbs_iff, Torque a running trqauthd"
)

_UNPROVED = ("errno=-1)", "errno=15137", "errno=-15137", "could not connect to trqauthd", "cannot connect to trqauthd")
_SILENT = ("cannot connect", "Connection refused", "timed out", "End of File", "Premature end of message")


class CannotAskPbs(SchedulerError):
    """A command of PBS is missing, refuses, or knows nothing: asking again gives the same answer."""


class PbsIsSilent(CannotAskPbs):
    """The server does not answer now; asking again later may help."""


class CommandResult(NamedTuple):
    """What a command printed, what it complained of, line by line, and its exit code: PBS's error modulo 256."""

    out: bytes
    complaints: tuple[str, ...]
    code: int


class PbsCommands:
    """PBS's commands, with what is put before those that change something."""

    def __init__(
        self, command: tuple[str, ...] = (), *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._command, self._timeout_s, self._clock = command, timeout_s, clock
        self._silent_until_s = float("-inf")

    def ask(self, program: str, *arguments: str) -> bytes:
        """Return what the command prints; CannotAskPbs if it fails, PbsIsSilent if nobody answers in time.

        It fails also where it complains and ends with 0: PBS prints an empty answer then, not what was asked for.
        """
        said = self._run(program, (program, *arguments), "")
        if said.code or said.complaints:
            raise failure(program, said)
        return said.out

    def tell(self, program: str, *arguments: str, text: str = "") -> CommandResult:
        """Return what the command said, also where it failed; PbsIsSilent if nobody answers in time."""
        said = self._run(program, (*self._command, program, *arguments), text)
        if said.code and _is_silent(said.complaints):
            raise failure(program, said)
        return said

    def _run(self, program: str, words: tuple[str, ...], text: str) -> CommandResult:
        if self._clock() < self._silent_until_s:
            raise PbsIsSilent(f"{program}: not asked: PBS has just been silent", hint=TRY_LATER)
        try:
            done = subprocess.run(
                words,
                env=plain_environment(),
                input=text.encode(),
                capture_output=True,
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._silent_until_s = self._clock() + PAUSE_S
            raise PbsIsSilent(f"{program}: no answer within {self._timeout_s:g} s", hint=TRY_LATER) from None
        except OSError as problem:
            raise _cannot_start(words[0], problem) from None
        lines = (line.strip() for line in done.stderr.decode(errors="replace").splitlines())
        return CommandResult(done.stdout, tuple(line for line in lines if line), done.returncode)


def plain_environment() -> dict[str, str]:
    """Return the environment of PBS's commands: they answer the same whoever runs them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)}
    return kept | PLAIN


def failure(program: str, said: CommandResult) -> CannotAskPbs:
    """Return the error for a command that failed as a whole."""
    last = said.complaints[-1] if said.complaints else f"failed with {said.code} and did not say why"
    told = f"{program}: {last.removeprefix(f'{program}: ')}"
    if any(sign in line for line in said.complaints for sign in _UNPROVED):
        return PbsIsSilent(told, hint=NOT_PROVED)
    if _is_silent(said.complaints):
        return PbsIsSilent(told, hint=TRY_LATER)
    return CannotAskPbs(told, hint=f"run `{program}` by hand to see more")


def _is_silent(complaints: tuple[str, ...]) -> bool:
    return any(sign in line for line in complaints for sign in _SILENT)


def _cannot_start(program: str, problem: OSError) -> CannotAskPbs:
    if not isinstance(problem, FileNotFoundError):
        return CannotAskPbs(f"{program}: cannot be run: {problem.strerror}", hint=f"try `{program} --version`")
    hint = "run this where PBS's commands are, or add their folder to PATH: export PATH=$PATH:/opt/pbs/bin"
    return CannotAskPbs(f"{program}: not found on PATH", hint=hint)


_JOB_NUMBER = re.compile(r"[0-9]+(\[[0-9]*\])?(\.[\w.-]+)?")


def invalid_job_numbers(jobs: Iterable[str]) -> dict[str, str]:
    """Return those that are no job numbers, each with the words for that."""
    return {job: "is no job number" for job in jobs if not _JOB_NUMBER.fullmatch(job)}


# Each is an argument of one process; the server hears of them one by one.
CHUNK = 200
# PBS's words for jobs that have gone meanwhile: nothing is left to be changed.
GONE = ("Unknown Job Id", "Job has finished", "Cannot find job")
RIGHTS_HINT = "make offpeak's user a manager: qmgr -c 'set server managers += USER@HOST', or see `command` below [pbs]"

_REFUSED = re.compile("Unauthorized|nauthorised|ermission", re.IGNORECASE)


def tell_jobs(commands: PbsCommands, program: str, arguments: Sequence[str], jobs: Iterable[str]) -> dict[str, str]:
    """Give all these jobs the same order and return why it was not done, by job; nothing of those that have gone.

    CannotAskPbs if it fails and names no job, PbsIsSilent if the server does not answer in time.
    """
    complaints: dict[str, str] = {}
    # The same number twice, and servers of Torque 4.2 hang for ever.
    remaining = iter(dict.fromkeys(jobs))
    while chunk := list(islice(remaining, CHUNK)):
        complaints |= complaints_of(program, commands.tell(program, *arguments, *chunk), chunk)
    return {job: why for job, why in complaints.items() if not why.startswith(GONE)}


def tell_by_value(commands: PbsCommands, program: str, flag: str, values: Mapping[str, str]) -> dict[str, str]:
    """Give each job its own value behind a flag, those with the same value together; return why not, by job."""
    jobs_of: dict[str, list[str]] = {}
    for job, value in values.items():
        jobs_of.setdefault(value, []).append(job)
    complaints: dict[str, str] = {}
    for value, jobs in jobs_of.items():
        complaints |= tell_jobs(commands, program, (flag, value), jobs)
    return complaints


def complaints_of(program: str, said: CommandResult, jobs: Sequence[str]) -> dict[str, str]:
    """Return what a command said of each of the jobs; CannotAskPbs where it complained, or failed, and named none."""
    if not said.code and not said.complaints:
        return {}
    found: dict[str, str] = {}
    for line in said.complaints:
        words = set(line.split())
        for job in words.intersection(jobs):
            found[job] = line.removeprefix(f"{program}:").replace(job, "").strip(" .") or "refused"
    if not found:
        raise _order_failure(program, said)
    return found


def _order_failure(program: str, said: CommandResult) -> CannotAskPbs:
    problem = failure(program, said)
    return CannotAskPbs(str(problem), hint=RIGHTS_HINT) if _REFUSED.search(str(problem)) else problem


def one_line(text: str) -> str:
    """Return a text that PBS's lists of attributes can carry: without line breaks, commas and double quotes."""
    return " ".join(text.split()).replace(",", ";").replace('"', "'")
