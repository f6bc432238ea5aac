"""Runs PBS's commands, and parses the values and the three formats (text, JSON, XML) that their answers share.

A query returns the output, a change of jobs returns the complaints, by job. A failure is one line with the reason.
Servers of both kinds can hang for minutes: each call has a time-out, and after a time-out no command runs for a while.
A job's number is checked before it becomes an argument: it might be an option or another job.

Values are times, sizes, lists of hosts and the hints of a job's owner to us. OpenPBS's JSON contains bytes as users
wrote them and texts that became numbers, and lacks the keys that are empty. In Torque's XML the environment of a single
user can make the whole document ill-formed.
"""

import json
import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple
from xml.etree import ElementTree

from offpeak.errors import SchedulerError
from offpeak.plugin.scheduler.job import LATEST_S, MOST_MEMORY_MIB, MOST_NUMBER, bounded_limit_s
from offpeak.plugin.scheduler.port import RequeuePermit
from offpeak.process import UNENDED_HINT, find_unended_orders, run_order

# English messages, and UTC: qstat writes times, and qalter reads them, in the time zone of their user.
PLAIN = {"LC_ALL": "C", "TZ": "UTC"}
# Defaults that a user may have exported.
DEFAULTS = ("PBS_QSTAT", "PBS_DPREFIX")
PAUSE_S = 30.0

TRY_LATER = "the PBS server may be down or busy: check it with `qstat -B`, then try again"

NOT_PROVED = (
    "PBS's command could not prove its user's name. As root run `offpeak check`, which uses the agent's user; "
    "its unit needs the drop-in of deploy/openpbs or deploy/torque, OpenPBS a setuid pbs_iff, Torque a running trqauthd"
)

_UNPROVED = ("errno=-1)", "errno=15137", "errno=-15137", "could not connect to trqauthd", "cannot connect to trqauthd")
_SILENT = ("cannot connect", "Connection refused", "timed out", "End of File", "Premature end of message")

_JOB_NUMBER = re.compile(r"[0-9]+(\[[0-9]*\])?(\.[\w.-]+)?")

# Each job is an argument of one process; the server receives them one by one.
CHUNK = 200
# PBS's messages for jobs that have ended meanwhile: nothing is left to change.
GONE = ("Unknown Job Id", "Job has finished", "Cannot find job")
RIGHTS_HINT = "make offpeak's user a manager: qmgr -c 'set server managers += USER@HOST', or see `command` below [pbs]"

_REFUSED = re.compile("Unauthorized|nauthorised|ermission", re.IGNORECASE)

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HINTS_VARIABLE = "OFFPEAK"
"""The variable of a job's environment that has its owner's hints: `qsub -v OFFPEAK=delay=12h`."""

LONGEST_NUMBER = 30
"""Digits of a number; PBS prints 20 at most."""
_WHOLE = re.compile(r"-?[0-9]+")
_SIZE = re.compile(r"(\d+)([kmgtp]?)[bw]?", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_HOST = re.compile(r"([^+/(:]+)(?:[/:][^+]*)?\+?")

AttributesByName = dict[str, dict[str, str]]

_STARTS = re.compile(r"^(?:Queue|Server): (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^    (\S+) = (.*)$", re.MULTILINE)

Record = Mapping[str, Any]

MOST_DEPTH = 10
"""Nothing that PBS itself prints lies so deep."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)

# Characters that XML 1.0 forbids, and that Torque prints as users wrote them.
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r")
_NO_CHARACTERS = str.maketrans("", "", "\ufffe\uffff")


class CannotAskPbs(SchedulerError):
    """A command of PBS is missing, refuses, or has no answer: a repetition gives the same result."""


class PbsIsSilent(CannotAskPbs):
    """The server does not answer now; it may answer later."""


class CommandResult(NamedTuple):
    """A command's standard output, the lines of its standard error, and its exit code: PBS's error modulo 256."""

    out: bytes
    complaints: tuple[str, ...]
    code: int


class PbsCommands:
    """PBS's commands; `command` is prepended to those that change something, such as sudo."""

    def __init__(
        self, command: tuple[str, ...] = (), *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._command, self._timeout_s, self._clock = command, timeout_s, clock
        self._silent_until_s = float("-inf")

    def require_no_unended(self) -> None:
        """Raise PbsIsSilent while a command that ran out of time still runs: it may change something at any moment."""
        if unended := find_unended_orders():
            raise PbsIsSilent(f"an order has run out of time, and cannot be ended: {unended}", hint=UNENDED_HINT)

    def query(self, program: str, *arguments: str) -> bytes:
        """Return the command's output. Raises CannotAskPbs if it fails, PbsIsSilent if the server does not answer in
        time.

        A command that ends with 0 but prints an error fails, too: its output is then empty instead of complete.
        """
        result = self._run(program, (program, *arguments), partial(_ask, timeout_s=self._timeout_s))
        if result.code or result.complaints:
            raise failure(program, result)
        return result.out

    def change(self, program: str, *arguments: str, text: str = "", within_s: float | None = None) -> CommandResult:
        """Return the command's result, also where it failed; PbsIsSilent if the server does not answer in time.

        `within_s` bounds the command further. No other is given while one that ran out of time cannot be ended.
        """
        self.require_no_unended()
        timeout_s = min(self._timeout_s, within_s or self._timeout_s)
        order = partial(run_order, behind=self._command, text=text, timeout_s=timeout_s)
        result = self._run(program, (program, *arguments), order)
        if result.code and _is_silent(result.complaints):
            raise failure(program, result)
        return result

    def _run(
        self, program: str, arguments: tuple[str, ...], run: Callable[..., "subprocess.CompletedProcess[bytes]"]
    ) -> CommandResult:
        if self._clock() < self._silent_until_s:
            raise PbsIsSilent(f"{program}: not run: PBS has just been silent", hint=TRY_LATER)
        try:
            done = run(arguments, environment=plain_environment())
        except subprocess.TimeoutExpired:
            self._silent_until_s = self._clock() + PAUSE_S
            late = "; it cannot be ended, and may still be carried out" if find_unended_orders() else ""
            raise PbsIsSilent(f"{program}: no answer within {self._timeout_s:g} s{late}", hint=TRY_LATER) from None
        except OSError as problem:
            raise _cannot_start(str(problem.filename or program), problem) from None
        lines = (line.strip() for line in done.stderr.decode(errors="replace").splitlines())
        return CommandResult(done.stdout, tuple(line for line in lines if line), done.returncode)


def _ask(arguments: Sequence[str], *, environment: Mapping[str, str], timeout_s: float) -> Any:
    return subprocess.run(arguments, env=environment, input=b"", capture_output=True, timeout=timeout_s, check=False)


def plain_environment() -> dict[str, str]:
    """Return the environment of PBS's commands: they print the same for each user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)}
    return kept | PLAIN


def failure(program: str, result: CommandResult) -> CannotAskPbs:
    """Return the error for a command that failed as a whole."""
    last = result.complaints[-1] if result.complaints else f"failed with {result.code} and gave no reason"
    message = f"{program}: {last.removeprefix(f'{program}: ')}"
    if any(sign in line for line in result.complaints for sign in _UNPROVED):
        return PbsIsSilent(message, hint=NOT_PROVED)
    if _is_silent(result.complaints):
        return PbsIsSilent(message, hint=TRY_LATER)
    return CannotAskPbs(message, hint=f"run `{program}` by hand to see more")


def _is_silent(complaints: tuple[str, ...]) -> bool:
    return any(sign in line for line in complaints for sign in _SILENT)


def _cannot_start(program: str, problem: OSError) -> CannotAskPbs:
    if not isinstance(problem, FileNotFoundError):
        return CannotAskPbs(f"{program}: cannot be run: {problem.strerror}", hint=f"try `{program} --version`")
    hint = "run this where PBS's commands are, or add their folder to PATH: export PATH=$PATH:/opt/pbs/bin"
    return CannotAskPbs(f"{program}: not found on PATH", hint=hint)


def invalid_job_numbers(jobs: Iterable[str]) -> dict[str, str]:
    """Return the entries that are no job numbers, each with that message."""
    return {job: "is not a job number" for job in jobs if not _JOB_NUMBER.fullmatch(job)}


def change_jobs(commands: PbsCommands, program: str, arguments: Sequence[str], jobs: Iterable[str]) -> dict[str, str]:
    """Change all these jobs in the same way and return the errors by job; jobs that have ended are left out.

    Raises CannotAskPbs if the command fails and names no job, PbsIsSilent if the server does not answer in time.
    """
    complaints: dict[str, str] = {}
    # Torque 4.2 hangs for ever if a number is repeated.
    remaining = iter(dict.fromkeys(jobs))
    while chunk := list(islice(remaining, CHUNK)):
        complaints |= complaints_of(program, commands.change(program, *arguments, *chunk), chunk)
    return {job: why for job, why in complaints.items() if not why.startswith(GONE)}


def change_by_value(commands: PbsCommands, program: str, flag: str, values: Mapping[str, str]) -> dict[str, str]:
    """Set a value for each job behind a flag, one call for the jobs of one value; return why not, by job."""
    jobs_of: dict[str, list[str]] = {}
    for job, value in values.items():
        jobs_of.setdefault(value, []).append(job)
    complaints: dict[str, str] = {}
    for value, jobs in jobs_of.items():
        complaints |= change_jobs(commands, program, (flag, value), jobs)
    return complaints


def complaints_of(program: str, result: CommandResult, jobs: Sequence[str]) -> dict[str, str]:
    """Return the command's complaint about each job. Raises CannotAskPbs if it failed and named none of them."""
    if not result.code and not result.complaints:
        return {}
    found: dict[str, str] = {}
    for line in result.complaints:
        for job in set(line.split()).intersection(jobs):
            found[job] = line.removeprefix(f"{program}:").replace(job, "").strip(" .") or "refused"
    if not found:
        problem = failure(program, result)
        raise CannotAskPbs(str(problem), hint=RIGHTS_HINT) if _REFUSED.search(str(problem)) else problem
    return found


def one_line(text: str) -> str:
    """Return a text that PBS's lists of attributes can carry: without line breaks, commas and double quotes."""
    return " ".join(text.split()).replace(",", ";").replace('"', "'")


def as_text(value: object) -> str:
    """Return a field as text: JSON turns a text that looks like a number into a number."""
    return "" if value is None else str(value)


def as_int(value: object) -> int:
    """Return a whole number, 0 if there is none."""
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(-MOST_NUMBER, min(int(value), MOST_NUMBER))


def as_time_s(value: object) -> int:
    """Return a time as Unix seconds, 0 if there is none."""
    return min(as_int(value), LATEST_S)


@lru_cache(maxsize=65_536)
def ctime_s(written: str) -> int | None:
    """Return the Unix second of `Fri Nov 20 21:49:35 2026` in UTC; None for any other text."""
    try:
        _, month, day, clock, year = written.split()
        hour, minute, second = clock.split(":")
        at = datetime(int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return min(int(at.timestamp()), LATEST_S)


@lru_cache(maxsize=4096)
def limit_s(value: str | int | float | None) -> int | None:
    """Return a walltime such as 48:00:00, 30:00 or 90 in seconds; None if there is none."""
    if isinstance(value, int | float):
        return bounded_limit_s(as_int(value))
    seconds = 0
    for part in (value or "x").split(":"):
        if not part.isdecimal():
            return None
        seconds = seconds * 60 + (as_int(part) if len(part) <= LONGEST_NUMBER else MOST_NUMBER)
    return bounded_limit_s(seconds)


@lru_cache(maxsize=4096)
def memory_mib(value: str | int | None) -> int:
    """Return a size such as 24684092kb or 32gb in MiB, 0 if there is none; a bare number is in bytes."""
    match = _SIZE.fullmatch(as_text(value))
    if match is None:
        return 0
    number = int(match[1]) if len(match[1]) <= LONGEST_NUMBER else MOST_NUMBER
    factor: int = 1024 ** _EXPONENTS[match[2].lower()]
    return min(number * factor // 1024**2, MOST_MEMORY_MIB)


@lru_cache(maxsize=8192)
def hosts_of(placement: str) -> tuple[str, ...]:
    """Return the nodes, each once, of n003/0-3+n002/0, n001/0*4 or (n003:ncpus=4)+(n001:ncpus=4:mem=1kb)."""
    return tuple(dict.fromkeys(_HOST.findall(placement.replace("(", "").replace(")", ""))))


def has_dependency(depend: str) -> bool:
    """Whether a job waits for others: `beforeok` and its like mean that others wait for this job."""
    return any(part and not part.startswith("before") for part in depend.split(","))


def requeue_permit(name: str, record: Mapping[str, Any]) -> RequeuePermit | None:
    """Return whether the job is rerunnable, None for an interactive job."""
    if record.get("interactive"):
        return None
    starts = as_int(record.get("run_count", record.get("start_count")))
    return RequeuePermit(as_text(record.get("Rerunable")) == "True", name, max(starts - 1, 0))


def hints_comment(value: str) -> str:
    """Return the value of HINTS_VARIABLE as the comment that the queue hook reads."""
    return " ".join(f"offpeak:{hint.removeprefix('offpeak:')}" for hint in re.split(r"[,;\s]+", value) if hint)


def parse_attributes(answer: bytes) -> AttributesByName:
    """Return the fields of each queue, or of the server, by its name. Long lines are broken with a tab."""
    pieces = _STARTS.split(answer.decode(errors="replace").replace("\n\t", ""))[1:]
    return {name: dict(_FIELD.findall(rest)) for name, rest in zip(pieces[::2], pieces[1::2], strict=True)}


def execution_queues(queues: AttributesByName) -> dict[str, str]:
    """Return the queues whose jobs run, without routing queues, each with its partition of OpenPBS, "" for none."""
    return {
        name: queue.get("partition", "")
        for name, queue in queues.items()
        if queue.get("queue_type", "Execution").startswith("E")
    }


def parse_json(text: bytes, *, source: str) -> Record:
    """Return the answer. Raises CannotAskPbs if it is no JSON object."""
    plain = text.decode(errors="replace")
    try:
        answer = _load(plain)
    except RecursionError:
        # OpenPBS prints a user's variable that is JSON as JSON, a thousand lists within each other, too.
        answer = _load(_without_depths(plain))
    except ValueError as problem:
        raise CannotAskPbs(f"{source}: its answer is no JSON: {problem}", hint=f"run `{source}` by hand") from None
    if not isinstance(answer, dict):
        raise CannotAskPbs(f"{source}: its answer is not an object", hint=f"run `{source}` by hand")
    return answer


def _load(plain: str) -> Any:
    return json.loads(plain, strict=False, parse_int=_whole, parse_float=_decimal, parse_constant=str)


def _without_depths(plain: str) -> str:
    """Return the JSON with null for each list and object that lies deeper than MOST_DEPTH."""
    depth, kept, kept_from = 0, [], 0
    for match in _BRACKETS.finditer(plain):
        if match[0] in "[{":
            depth += 1
            if depth == MOST_DEPTH:
                kept += [plain[kept_from : match.start()], "null"]
        elif match[0] in "]}":
            if depth == MOST_DEPTH:
                kept_from = match.end()
            depth -= 1
    return "".join((*kept, plain[kept_from:]))


def _whole(digits: str) -> int | str:
    """Return a number, or the text that looks like one: OpenPBS prints a user's text of digits without quotes."""
    return int(digits) if len(digits) <= LONGEST_NUMBER else digits


def _decimal(digits: str) -> float | str:
    return number if math.isfinite(number := float(digits)) else digits


def json_records(answer: Record, key: str) -> dict[str, Record]:
    """Return the records below a key by their names; none where the key is absent."""
    return {name: record for name, record in json_part(answer, key).items() if isinstance(record, dict)}


def json_part(record: Record, key: str) -> Record:
    """Return the object below a key, {} for none."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def xml_records(answer: bytes, tag: str, *, source: str) -> list[ElementTree.Element]:
    """Return the elements of that name below the root, [] for no answer. Raises CannotAskPbs if it is no XML."""
    plain = answer.translate(None, _CONTROLS).decode(errors="replace").translate(_NO_CHARACTERS).strip()
    if not plain:
        return []
    try:
        return ElementTree.fromstring(plain).findall(tag)
    except ElementTree.ParseError as problem:
        raise CannotAskPbs(f"{source}: its answer is no XML: {problem}", hint=f"run `{source}` by hand") from None


def xml_fields(element: ElementTree.Element) -> dict[str, str]:
    """Return the texts of an element's children by their names."""
    return {child.tag: child.text or "" for child in element}
