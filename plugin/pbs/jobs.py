"""A job as a PBS server shows it, whether the server shows all jobs, the nodes that they hold, and their comments.

If the server hid jobs, nodes of other users would look free and waiting jobs of others would be unknown. A server shows
all jobs to its managers and operators, and to others where query_other_jobs says so. Root at the server's own host is
always a manager. A suspended job is not among a node's jobs, and still holds it. A job's comment shows our text to its
owner until the scheduler writes its own in its next cycle.
"""

import os
import pwd
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from plugin.pbs.commands import CannotAskPbs, PbsCommands, PbsIsSilent, invalid_job_numbers, one_line, tell_by_value
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import OURS, Node, NodeUse


class PbsJob(NamedTuple):
    """`request` is in the words of `chunks_of`, each chunk on a node of its own if `apart`.

    `rank` is its place in the server's own queue, smaller first.
    """

    job: Job
    request: str
    apart: bool
    rank: int


ALWAYS_MANAGER = "root"
MANAGER_HINT = "make {user} a manager: qmgr -c 'set server managers += {user}@{host}', or set query_other_jobs = True"


ENDED_STATES = frozenset({"Complete", "Completed", "Finished"})
STATES_WITHOUT_NODES = ENDED_STATES | {"Transit", "Queued", "Held", "Waiting", "Begun"}
"""Counts of jobs that have no nodes. The subjobs of an array that has begun are counted one by one."""
_COUNT = re.compile(r"(\w+):(\d+)")


class PbsUser(NamedTuple):
    """Who asks, from which host, in the words of the server's lists."""

    user: str
    host: str


def current_user() -> PbsUser:
    """Return whom the server takes us for."""
    return PbsUser(pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname())


def find_hidden_jobs(server: str, told: Mapping[str, str], asker: PbsUser) -> tuple[str, str] | None:
    """Return that the asker is not shown all jobs, and what to do about it; None where he is.

    `told` are the attributes of `server`, one that is not told counts as not set.
    """
    listed = [each.strip() for name in ("managers", "operators") for each in told.get(name, "").split(",")]
    at_home = asker.user == ALWAYS_MANAGER and _same_host(asker.host, told.get("server_host", server))
    if at_home or told.get("query_other_jobs") == "True" or any(_is_listed(asker, each) for each in listed if each):
        return None
    short = f"{asker.user} is no manager, and query_other_jobs is not set: {asker.user} is shown no jobs of others"
    return short, MANAGER_HINT.format(user=asker.user, host=asker.host)


def contradiction_error(node: str, given: Sequence[str], asker: PbsUser) -> CannotAskPbs:
    """Return the error for a node whose record shows use while no job is shown there."""
    what = f"pbsnodes: {node} has {'; '.join(given)}, but qstat shows no job there"
    hint = f"has {asker.user} lost its right to see all jobs, or does somebody reserve it? " + MANAGER_HINT
    return CannotAskPbs(what, hint=hint.format(user=asker.user, host=asker.host))


def count_jobs(told: Mapping[str, str], without: frozenset[str] = ENDED_STATES) -> int:
    """Return how many jobs the server counts in other states than these, by its attribute state_count."""
    return sum(int(count) for state, count in _COUNT.findall(told.get("state_count", "")) if state not in without)


def read_all_jobs(
    read: Callable[[], tuple[PbsJob, ...]],
    server: Callable[[], Mapping[str, str]],
    before: Mapping[str, str],
    without: frozenset[str] = ENDED_STATES,
) -> tuple[PbsJob, ...]:
    """Return the jobs that are read; CannotAskPbs where none is shown, twice, while the server counts some.

    `before` are the server's attributes of just before; jobs in the states `without` do not count.
    """
    jobs = read()
    counted = count_jobs(before, without)
    if counted and not _any_active(jobs) and (still := count_jobs(server(), without)):
        # The last job may have ended between the two answers.
        jobs = read()
        if not _any_active(jobs):
            message = f"qstat: shows no job, and the server counts {still}"
            raise CannotAskPbs(message, hint="compare `qstat` with `qstat -B`; nothing is done until both agree")
    return jobs


def _any_active(jobs: tuple[PbsJob, ...]) -> bool:
    return any(each.job.state is not JobState.ENDED for each in jobs)


def _is_listed(asker: PbsUser, listed: str) -> bool:
    """Tell whether an entry such as ann@head, ann or *@*.site.org is the asker."""
    user, _, host = listed.partition("@")
    return fnmatch(asker.user, user) and (not host or fnmatch(asker.host, host) or _same_host(asker.host, host))


def _same_host(one: str, other: str) -> bool:
    """Tell whether both are the same, where only one has its domain."""
    first, second = one.lower().split("."), other.lower().split(".")
    return first[: len(second)] == second[: len(first)]


QSTAT_CHUNK = 500
"""How many jobs qstat is asked for at once: their names fit on a command line."""
READ_ATTEMPTS = 3

_SUBJOB = re.compile(r"\[\d+\]")


def read_holding_jobs(
    select: Callable[[], Sequence[str]], read: Callable[[Sequence[str]], tuple[PbsJob, ...]]
) -> tuple[PbsJob, ...]:
    """Return the jobs that `select` names, as `read` shows them, so that a long queue is not read for one node.

    A job that ends between the two answers makes qstat fail: both are asked again. CannotAskPbs where a job is not
    shown after three attempts.
    """
    for attempt in range(READ_ATTEMPTS):
        try:
            return _read_selected(select(), read)
        except PbsIsSilent:
            raise
        except CannotAskPbs:
            if attempt == READ_ATTEMPTS - 1:
                raise
    raise AssertionError


def _read_selected(names: Sequence[str], read: Callable[[Sequence[str]], tuple[PbsJob, ...]]) -> tuple[PbsJob, ...]:
    jobs = [job for at in range(0, len(names), QSTAT_CHUNK) for job in read(names[at : at + QSTAT_CHUNK])]
    shown = {each.job.job_id for each in jobs}
    # An array stands for its subjobs.
    shown |= {_SUBJOB.sub("[]", name) for name in shown}
    if missing := [name for name in names if name not in shown]:
        what = f"qstat: does not show {', '.join(missing)}, which qselect names"
        raise CannotAskPbs(what, hint=f"compare `qselect` with `qstat -f {missing[0]}`")
    return tuple(jobs)


def holders(jobs: Iterable[PbsJob]) -> dict[str, list[str]]:
    """Return the jobs that have, or may have, each node."""
    found: dict[str, list[str]] = {}
    for told in jobs:
        if told.job.state in HOLDING:
            for node in told.job.hosts.split(",") if told.job.hosts else ():
                found.setdefault(node, []).append(told.job.job_id)
    return found


def with_holders(nodes: Iterable[Node], jobs: Iterable[PbsJob]) -> tuple[Node, ...]:
    """Return the nodes, those used that a suspended job has."""
    suspended = holders(each for each in jobs if each.job.state is JobState.SUSPENDED)
    return tuple(
        node._replace(use=NodeUse.USED) if node.name in suspended and node.use is NodeUse.FREE else node
        for node in nodes
    )


NO_COMMENT = "nothing more to say"
"""PBS takes no empty comment."""


def tell_owners(
    commands: PbsCommands, comments: Mapping[str, str], jobs: Callable[[], Iterable[PbsJob]]
) -> dict[str, str]:
    """Write for each job what its owner is to see; return why not, by job.

    "" takes our comment away, where the job still has one: what the scheduler has written since stays.
    """
    refused = invalid_job_numbers(comments)
    texts = {
        job: f'comment="{OURS}: {one_line(text)}"' for job, text in comments.items() if text and job not in refused
    }
    if any(not text for text in comments.values()):
        ours = {each.job.job_id for each in jobs() if each.job.reason.startswith(f"{OURS}:")}
        texts |= {job: f'comment="{NO_COMMENT}"' for job, text in comments.items() if not text and job in ours}
    return refused | tell_by_value(commands, "qalter", "-W", texts)
