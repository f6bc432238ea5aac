"""Whether the server shows us all jobs: else others' nodes would look free, and their waiting jobs be unknown.

A server shows all jobs to its managers and operators, and to others where query_other_jobs says so. Root at the
server's own host is always a manager.
"""

import os
import pwd
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from plugin.pbs.ask import CannotAskPbs
from plugin.pbs.told_job import ToldJob
from plugin.scheduler.job import JobState

ALWAYS = "root"
HINT = "make {user} a manager: qmgr -c 'set server managers += {user}@{host}', or set query_other_jobs = True"


ENDED = frozenset({"Complete", "Completed", "Finished"})
NOT_ON_NODES = ENDED | {"Transit", "Queued", "Held", "Waiting", "Begun"}
"""Counts of jobs that have no nodes. The subjobs of an array that has begun are counted one by one."""
_COUNT = re.compile(r"(\w+):(\d+)")


class Asker(NamedTuple):
    """Who asks, from which host, in the words of the server's lists."""

    user: str
    host: str


def this_process() -> Asker:
    """Return whom the server takes us for."""
    return Asker(pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname())


def blindness(server: str, told: Mapping[str, str], asker: Asker) -> tuple[str, str] | None:
    """Return that the asker is not shown all jobs, and what to do about it; None where he is.

    `told` are the attributes of `server`, one that is not told counts as not set.
    """
    listed = [each.strip() for name in ("managers", "operators") for each in told.get(name, "").split(",")]
    at_home = asker.user == ALWAYS and _same_host(asker.host, told.get("server_host", server))
    if at_home or told.get("query_other_jobs") == "True" or any(_is(asker, each) for each in listed if each):
        return None
    short = f"{asker.user} is no manager, and query_other_jobs is not set: {asker.user} is shown no jobs of others"
    return short, HINT.format(user=asker.user, host=asker.host)


def contradiction(node: str, given: Sequence[str], asker: Asker) -> CannotAskPbs:
    """Return the error for a node whose record shows use while no job is shown there."""
    what = f"pbsnodes: {node} has {'; '.join(given)}, but qstat shows no job there"
    hint = f"has {asker.user} lost its right to see all jobs, or does somebody reserve it? " + HINT
    return CannotAskPbs(what, hint=hint.format(user=asker.user, host=asker.host))


def counted_jobs(told: Mapping[str, str], without: frozenset[str] = ENDED) -> int:
    """Return how many jobs the server counts in other states than these, by its attribute state_count."""
    return sum(int(count) for state, count in _COUNT.findall(told.get("state_count", "")) if state not in without)


def checked_jobs(
    read: Callable[[], tuple[ToldJob, ...]],
    server: Callable[[], Mapping[str, str]],
    before: Mapping[str, str],
    without: frozenset[str] = ENDED,
) -> tuple[ToldJob, ...]:
    """Return the jobs that are read; CannotAskPbs where none is shown, twice, while the server counts some.

    `before` are the server's attributes of just before; jobs in the states `without` do not count.
    """
    jobs = read()
    counted = counted_jobs(before, without)
    if counted and not _any_active(jobs) and (still := counted_jobs(server(), without)):
        # The last job may have ended between the two answers.
        jobs = read()
        if not _any_active(jobs):
            message = f"qstat: shows no job, and the server counts {still}"
            raise CannotAskPbs(message, hint="compare `qstat` with `qstat -B`; nothing is done until both agree")
    return jobs


def _any_active(jobs: tuple[ToldJob, ...]) -> bool:
    return any(each.job.state is not JobState.ENDED for each in jobs)


def _is(asker: Asker, listed: str) -> bool:
    """Tell whether an entry such as ann@head, ann or *@*.site.org is the asker."""
    user, _, host = listed.partition("@")
    return fnmatch(asker.user, user) and (not host or fnmatch(asker.host, host) or _same_host(asker.host, host))


def _same_host(one: str, other: str) -> bool:
    """Tell whether both are the same, where only one has its domain."""
    first, second = one.lower().split("."), other.lower().split(".")
    return first[: len(second)] == second[: len(first)]
