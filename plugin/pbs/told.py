"""What PBS's commands complain of when they are told to change jobs: by job, in the server's words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from plugin.pbs.ask import CannotAskPbs, PbsCommands, Said, failure

# Each is an argument of one process; the server hears of them one by one.
CHUNK = 200
# PBS's words for jobs that have gone meanwhile: nothing is left to be changed.
GONE = ("Unknown Job Id", "Job has finished", "Cannot find job")
RIGHTS = "make offpeak's user a manager: qmgr -c 'set server managers += USER@HOST', or see `command` below [pbs]"

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


def complaints_of(program: str, said: Said, jobs: Sequence[str]) -> dict[str, str]:
    """Return what a command said of each of the jobs; CannotAskPbs where it complained, or failed, and named none."""
    if not said.code and not said.complaints:
        return {}
    found: dict[str, str] = {}
    for line in said.complaints:
        words = set(line.split())
        for job in words.intersection(jobs):
            found[job] = line.removeprefix(f"{program}:").replace(job, "").strip(" .") or "refused"
    if not found:
        raise _failure(program, said)
    return found


def _failure(program: str, said: Said) -> CannotAskPbs:
    problem = failure(program, said)
    return CannotAskPbs(str(problem), hint=RIGHTS) if _REFUSED.search(str(problem)) else problem


def one_line(text: str) -> str:
    """Return a text that PBS's lists of attributes can carry: without line breaks, commas and double quotes."""
    return " ".join(text.split()).replace(",", ";").replace('"', "'")
