"""Whether the server shows us everybody's jobs: else others' nodes would look free, and their waiting jobs be unknown.

A server shows all jobs to its managers and operators, and to others where query_other_jobs says so. Root at the
server's own host is always a manager.
"""

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from plugin.pbs.ask import CannotAskPbs

ALWAYS = "root"
HINT = "make {user} a manager: qmgr -c 'set server managers += {user}@{host}', or set query_other_jobs = True"


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


def _is(asker: Asker, listed: str) -> bool:
    """Tell whether an entry such as ann@head, ann or *@*.site.org is the asker."""
    user, _, host = listed.partition("@")
    return fnmatch(asker.user, user) and (not host or fnmatch(asker.host, host) or _same_host(asker.host, host))


def _same_host(one: str, other: str) -> bool:
    """Tell whether both are the same, where only one has its domain."""
    first, second = one.lower().split("."), other.lower().split(".")
    return first[: len(second)] == second[: len(first)]
