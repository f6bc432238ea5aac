"""One question to one of PBS's commands: what it prints, or one line that says why it did not answer.

Servers of both kinds have been seen to hang for minutes: each call has a time-out, and after one nobody is asked again
for a while.
"""

import os
import subprocess
import time
from collections.abc import Callable
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


class Said(NamedTuple):
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

    def tell(self, program: str, *arguments: str, text: str = "") -> Said:
        """Return what the command said, also where it failed; PbsIsSilent if nobody answers in time."""
        said = self._run(program, (*self._command, program, *arguments), text)
        if said.code and _is_silent(said.complaints):
            raise failure(program, said)
        return said

    def _run(self, program: str, words: tuple[str, ...], text: str) -> Said:
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
        return Said(done.stdout, tuple(line for line in lines if line), done.returncode)


def plain_environment() -> dict[str, str]:
    """Return the environment of PBS's commands: they answer the same whoever runs them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)}
    return kept | PLAIN


def failure(program: str, said: Said) -> CannotAskPbs:
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
